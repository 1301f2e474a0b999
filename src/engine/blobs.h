/* Files built into the binary: the template's extension module, the runner's Python modules, the
 * doctor's probe. */
#pragma once

#include <stddef.h>

struct blob {
    const unsigned char *data;
    size_t len;
};

struct blob blob_template_ext(void);
struct blob blob_runner_zip(void);
struct blob blob_doctor_probe(void);
