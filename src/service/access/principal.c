#include "service/access/principal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/store.h"

#include "base/banned.h"

_Static_assert(PRINCIPAL_ID_MAX == STORE_ID_MAX, "the store has the ids of principals in records");

int principal_from_key(const char *key_id, struct principal *ret_principal)
{
    struct principal principal = { .kind = PRINCIPAL_KEY };
    size_t len = strlen(key_id);

    if (len == 0 || len >= sizeof principal.id)
        return -EINVAL;
    memcpy(principal.id, key_id, len);
    *ret_principal = principal;
    return 0;
}

int principal_from_user(const char *user_id, struct principal *ret_principal)
{
    struct principal principal = { .kind = PRINCIPAL_USER };
    int len = snprintf(principal.id, sizeof principal.id, "user-%s", user_id);

    if (user_id[0] == '\0' || len < 0 || (size_t) len >= sizeof principal.id)
        return -EINVAL;
    *ret_principal = principal;
    return 0;
}

bool principal_equal(const struct principal *a, const struct principal *b)
{
    return a->kind == b->kind && strcmp(a->id, b->id) == 0;
}

bool principal_is_local(const struct principal *principal)
{
    return principal->kind == PRINCIPAL_LOCAL;
}

const char *principal_text(const struct principal *principal)
{
    return principal_is_local(principal) ? PRINCIPAL_TEXT_LOCAL : principal->id;
}

const char *principal_record(const struct principal *principal)
{
    return principal->id;
}
