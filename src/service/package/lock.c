#include "service/package/lock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text/hex.h"
#include "service/package/requirement.h"

#include "base/banned.h"

#define LINE_MAX_ 2048u
#define HASH_SIGN "--hash=sha256:"
#define HASH_LEN  64u

struct entry {
    char name[PACKAGE_NAME_MAX + 1], version[PACKAGE_NAME_MAX + 1]; /* "": none yet */
    bool hashed;
};

enum word { WORD_BAD, WORD_NONE, WORD_PACKAGE, WORD_HASH };

static size_t spaces(const char *text)
{
    return strspn(text, " \t");
}

/* "name==version", perhaps with extras and a marker after it. */
static enum word package_read(const char *line, struct entry *ret_entry)
{
    size_t name_len = strcspn(line, "=[ \t;"), version_len;
    const char *at = line + name_len;
    char name[PACKAGE_NAME_MAX + 1];

    if (name_len == 0 || name_len >= sizeof name)
        return WORD_BAD;
    memcpy(name, line, name_len);
    name[name_len] = '\0';
    if (*at == '[')
        at += strcspn(at, "]") + (strchr(at, ']') ? 1 : 0);
    at += spaces(at);
    if (strncmp(at, "==", 2) != 0 || at[2] == '=')
        return WORD_BAD;
    at += 2;
    at += spaces(at);
    version_len = strcspn(at, " \t;\\");
    if (version_len == 0 || version_len >= sizeof ret_entry->version)
        return WORD_BAD;
    memcpy(ret_entry->version, at, version_len);
    ret_entry->version[version_len] = '\0';
    package_normal(name, ret_entry->name);
    ret_entry->hashed = false;
    at += version_len + spaces(at + version_len);
    /* A marker ends with the line; options may not hide in it. */
    if (*at == ';' ? strstr(at, "--") != NULL : *at != '\0' && *at != '\\')
        return WORD_BAD;
    return ret_entry->name[0] && package_version_valid(ret_entry->version) ? WORD_PACKAGE
                                                                           : WORD_BAD;
}

static enum word line_read(const char *line, struct entry *entry, char ret_hash[HASH_LEN + 1])
{
    const char *at = line + spaces(line), *end;

    if (*at == '\0' || *at == '#' || (*at == '\\' && at[1] == '\0'))
        return WORD_NONE;
    if (strncmp(at, HASH_SIGN, strlen(HASH_SIGN)) != 0)
        return at == line ? package_read(at, entry) : WORD_BAD;
    at += strlen(HASH_SIGN);
    if (!entry->name[0] || strlen(at) < HASH_LEN)
        return WORD_BAD;
    memcpy(ret_hash, at, HASH_LEN);
    ret_hash[HASH_LEN] = '\0';
    end = at + HASH_LEN + spaces(at + HASH_LEN);
    if (!hex_is(ret_hash, HASH_LEN) || (*end && strcmp(end, "\\") != 0))
        return WORD_BAD;
    entry->hashed = true;
    return WORD_HASH;
}

/* The next line, without its end; false: there is none, or it is too long (*@text stays). */
static bool line_next(const char **text, char ret_line[LINE_MAX_])
{
    size_t len = strcspn(*text, "\n");

    if (!**text || len >= LINE_MAX_)
        return false;
    memcpy(ret_line, *text, len);
    ret_line[len] = '\0';
    if (len > 0 && ret_line[len - 1] == '\r')
        ret_line[len - 1] = '\0';
    *text += len + ((*text)[len] == '\n');
    return true;
}

int lock_check(const char *text, size_t *ret_len, struct gb_err *err)
{
    struct entry entry = { 0 };
    char line[LINE_MAX_], hash[HASH_LEN + 1];
    size_t len = 0, number = 0;

    while (line_next(&text, line)) {
        struct entry before = entry;
        enum word word = line_read(line, &entry, hash);

        number++;
        if (word == WORD_BAD)
            return gb_fail_plain(err, EINVAL,
                                 "line %zu of the lock file is not name==version or "
                                 "--hash=sha256:…",
                                 number);
        if (word == WORD_PACKAGE && before.name[0] && !before.hashed)
            return gb_fail_plain(err, EINVAL, "%.60s has no hash in the lock file", before.name);
        len += word == WORD_PACKAGE;
    }
    if (*text)
        return gb_fail_plain(err, EINVAL, "line %zu of the lock file is too long", number + 1);
    if (len == 0 || !entry.hashed)
        return gb_fail_plain(err, EINVAL, "%s",
                             len ? "the last package of the lock file has no hash"
                                 : "the lock file is empty");
    *ret_len = len;
    return 0;
}

bool lock_has(const char *text, const char *name, const char *version, const char *sha256)
{
    struct entry entry = { 0 };
    char line[LINE_MAX_], hash[HASH_LEN + 1];

    while (line_next(&text, line))
        if (line_read(line, &entry, hash) == WORD_HASH && strcmp(entry.name, name) == 0 &&
            strcmp(entry.version, version) == 0 && strcmp(hash, sha256) == 0)
            return true;
    return false;
}
