/*
 * Locales for boxes: those that tools/locales.sh made, because a host often has none but C.UTF-8.
 * They are next to the binary that was built, or in the lib directory of an installation. Those
 * beneath /usr are in every box anyway; others are mounted there.
 */
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/supervisor/supervisor.h"

#include "base/banned.h"

static const char *const places[] = { "locales", "../lib/glovebox/locales" };

/* Templates read them before there is a box: nobody else may write to them. */
static bool is_ours(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && !(st.st_mode & 022) &&
           (st.st_uid == 0 || st.st_uid == geteuid());
}

void locales_find(char *ret_path, size_t size)
{
    char exe[PATH_MAX], path[PATH_MAX + 32], real[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *slash;

    ret_path[0] = '\0';
    if (n <= 0)
        return;
    exe[n] = '\0';
    slash = strrchr(exe, '/');
    if (!slash)
        return;
    *slash = '\0';
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(path, sizeof path, "%s/%s", exe, places[i]);
        if (!realpath(path, real) || strlen(real) >= size || !is_ours(real))
            continue;
        memcpy(ret_path, real, strlen(real) + 1);
        return;
    }
}

static bool in_usr(const char *path)
{
    return strncmp(path, "/usr/", 5) == 0;
}

const char *locales_mount(const char *path)
{
    return in_usr(path) ? "" : path;
}

/* The C library's name of the directory: de_DE.UTF-8 is in de_DE.utf8. */
static void directory_of(const char *lang, char *buf, size_t size)
{
    size_t n = 0;
    bool codeset = false;

    for (; *lang && n + 1 < size; lang++) {
        if (*lang == '@')
            codeset = false;
        if (!codeset || isalnum((unsigned char) *lang))
            buf[n++] = codeset ? (char) tolower((unsigned char) *lang) : *lang;
        if (*lang == '.')
            codeset = true;
    }
    buf[n] = '\0';
}

const char *locales_place(const char *path, const char *lang)
{
    char name[64], full[PATH_MAX + sizeof name + 1];
    struct stat st;

    if (!path[0])
        return NULL;
    /* With the variable that names them, the C library does not look into the host's archive, and
     * the language of the caller may be only there. */
    if (strncmp(lang, "C.", 2) != 0 && strcmp(lang, "C") != 0 && strcmp(lang, "POSIX") != 0) {
        directory_of(lang, name, sizeof name);
        snprintf(full, sizeof full, "%s/%s", path, name);
        if (stat(full, &st) < 0)
            return NULL;
    }
    return in_usr(path) ? path : BOX_LOCALES;
}
