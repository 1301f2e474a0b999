/* What the installer's files share. */
#pragma once

#include "service/package/installer.h"

extern const char installer_program[]; /* installer.py */

void installer_log(const struct installer *installer, enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A list of "name==version" of the packages in a record; NULL gives an empty one. */
json_t *installer_pins(const json_t *record);

/* Resolves, and makes the layer if there is none. */
int installer_box_run(struct installer *installer, const struct install_request *request,
                      struct install_result *ret_result, struct fault *fault);
