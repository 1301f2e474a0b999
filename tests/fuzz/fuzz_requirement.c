/*
 * Requirements: texts of strangers that become arguments of pip. The first byte says whether URLs
 * are allowed; the rest is the text, up to a NUL as the parser sees it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "service/package/requirement.h"

#include "base/banned.h"

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_name(const char *name, const char *normal)
{
    char again[PACKAGE_NAME_MAX + 1];

    must(name[0] && name[0] != '-' && name[0] != '.');
    package_normal(name, again);
    must(strcmp(again, normal) == 0);
    package_normal(normal, again);
    must(strcmp(again, normal) == 0);
    must(strspn(normal, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(normal));
    must(package_listed(name, normal));
}

/* One word of a command line that is no option, names no path, and means the same once more. */
static void check_text(const struct requirement *r)
{
    size_t len = strlen(r->text);
    struct requirement again;
    struct gb_err err;

    must(len > 0 && len <= REQUIREMENT_MAX && strncmp(r->text, r->name, strlen(r->name)) == 0);
    for (size_t i = 0; i < len; i++)
        must(r->text[i] >= ' ' && r->text[i] < 0x7f && !strchr("`\\", r->text[i]));
    must(!strstr(r->text, "${")); /* pip would put a variable there */
    must(r->is_url || (!strstr(r->text, "://") && !strchr(r->text, '@')));
    must(!r->is_url || (r->versioned && strstr(r->text, "://")));
    must(requirement_parse(r->text, r->is_url, &again, &err) == 0);
    must(strcmp(again.normal, r->normal) == 0 && again.versioned == r->versioned &&
         again.is_url == r->is_url);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct requirement requirement;
    struct gb_err err = { 0 };
    char *text;
    bool urls;

    if (size == 0 || !(text = malloc(size)))
        return 0;
    urls = input[0] & 1;
    memcpy(text, input + 1, size - 1);
    text[size - 1] = '\0';
    if (requirement_parse(text, urls, &requirement, &err) == 0) {
        must(urls || !requirement.is_url);
        check_name(requirement.name, requirement.normal);
        check_text(&requirement);
        (void) package_lookalike(requirement.normal);
    } else {
        must(err.msg[0] != '\0');
    }
    if (package_version_valid(text))
        must(text[0] && !strpbrk(text, " \t\n/'\"\\;"));
    (void) package_listed(text, "x");
    free(text);
    return 0;
}
