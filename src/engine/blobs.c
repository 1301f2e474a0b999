/* The paths come from the build; .incbin, because C17 has no #embed. */
#include "engine/blobs.h"

#include "base/banned.h"

#define EMBED(name, path)                                                                          \
    __asm__(".section .rodata\n"                                                                   \
            ".global " #name "_start\n"                                                            \
            ".balign 16\n" #name "_start:\n"                                                       \
            ".incbin \"" path "\"\n"                                                               \
            ".global " #name "_end\n" #name "_end:\n"                                              \
            ".byte 0\n"                                                                            \
            ".previous\n");                                                                        \
    extern const unsigned char name##_start[] __attribute__((visibility("hidden")));               \
    extern const unsigned char name##_end[] __attribute__((visibility("hidden")))

EMBED(gb_template_ext, BLOB_TEMPLATE_EXT);
EMBED(gb_runner_zip, BLOB_RUNNER_ZIP);
EMBED(gb_doctor_probe, BLOB_DOCTOR_PROBE);

struct blob blob_template_ext(void)
{
    return (struct blob){ gb_template_ext_start,
                          (size_t) (gb_template_ext_end - gb_template_ext_start) };
}

struct blob blob_runner_zip(void)
{
    return (struct blob){ gb_runner_zip_start, (size_t) (gb_runner_zip_end - gb_runner_zip_start) };
}

struct blob blob_doctor_probe(void)
{
    return (struct blob){ gb_doctor_probe_start,
                          (size_t) (gb_doctor_probe_end - gb_doctor_probe_start) };
}
