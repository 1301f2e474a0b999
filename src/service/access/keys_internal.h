/* For the tests of keys.c. */
#pragma once

#include "service/access/keys.h"

/* Makes the copy in memory older by @us, as if that time had passed. */
void keys_age(struct keys *keys, int64_t us);
