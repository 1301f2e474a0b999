/* Sizes in bytes. */
#pragma once

#include <stdint.h>

#define KIB (INT64_C(1) << 10)
#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define TIB (INT64_C(1) << 40)
#define PIB (INT64_C(1) << 50)
