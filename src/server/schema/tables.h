/* How the tables of a dialect's schemas.c are written. Only those files include this. */
#pragma once

#include "schema/fields.h"

#define SEC        INT64_C(1000000)
#define DAY        (86400 * SEC)
#define MIB        (INT64_C(1024) * 1024)
#define PATH_BYTES 4000

/* clang-format off */

/* The schema of fields_NAME, which fills a struct. */
#define REQUEST(name_, struct_, help_)                                                             \
    const struct schema schema_##name_ = { #name_, help_, fields_##name_, sizeof(struct_) }

/* The same for a response, which is only described. */
#define RESPONSE(name_, help_)                                                                     \
    const struct schema schema_##name_ = { #name_, help_, fields_##name_, 0 }
#define AT(struct_, member_) .offset = offsetof(struct struct_, member_)
#define END { 0 }

#define ALWAYS(name_, type_, help_) { name_, type_, FIELD_REQUIRED, .help = help_ }
#define MAYBE(name_, type_, help_)  { name_, type_, FIELD_NULLABLE, .help = help_ }

/* clang-format on */
