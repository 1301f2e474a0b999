#include "engine/shelf.h"

#include <string.h>

#include "base/banned.h"

#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

bool shelf_name_valid(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len < SHELF_NAME_MAX && name[0] != '.' && strspn(name, NAME_CHARS) == len;
}

bool venv_lib_valid(const char *lib)
{
    size_t len = strlen(lib);

    return len > 8 && len < VENV_LIB_MAX && strncmp(lib, "python3.", 8) == 0 &&
           strspn(lib + 8, "0123456789") == len - 8;
}
