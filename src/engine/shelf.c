#include "engine/shelf.h"

#include <string.h>

#include "base/banned.h"

#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

bool shelf_name_valid(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len < SHELF_NAME_MAX && name[0] != '.' && strspn(name, NAME_CHARS) == len;
}
