/*
 * Requirements: what somebody wants to have installed, as text that nobody has read.
 *
 * The grammar is that of PEP 508 (names, extras, versions of PEP 440, markers), strict and small: a
 * text that passes is made of letters, digits and few signs, and means the same to pip. Paths,
 * options, control characters and shell words do not pass. Pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define REQUIREMENT_MAX  400 /* bytes of one as text */
#define PACKAGE_NAME_MAX 100
#define REQUIREMENTS_MAX 64 /* in one request */

struct requirement {
    char name[PACKAGE_NAME_MAX + 1];   /* as it was written */
    char normal[PACKAGE_NAME_MAX + 1]; /* PEP 503: lower case, single hyphens */
    char text[REQUIREMENT_MAX + 1];    /* all of it, without needless blanks */
    bool versioned;                    /* there is a version in it, or a URL */
    bool is_url;
};

/* @urls: "name @ https://…" passes too. The error says what is wrong, for the client. */
int requirement_parse(const char *text, bool urls, struct requirement *ret_requirement,
                      struct gb_err *err);

/* Takes the first requirement off a list with commas between, such as "a[x,y]>=1,<2, b": a comma
 * that a version follows, or in brackets or quotes, or in a URL, belongs to the requirement.
 * Returns its length without blanks around it; @text is then at the next, or NULL. What it is made
 * of is requirement_parse()'s to see. */
size_t requirement_next(const char **text, const char **ret_start);

/* PEP 503. @name must be a name; others give "". */
void package_normal(const char *name, char ret_normal[PACKAGE_NAME_MAX + 1]);

/* "requests", "requests[socks, use_chardet]": a name, perhaps with extras, and nothing else. */
bool package_name_valid(const char *text);
#define PACKAGE_NAME_RULE                                                                          \
    "is not a package name: letters, digits and . _ - in between; put the version into version"

/* A version as clients give it apart from the name: one of PEP 440, or NULL, "" or "latest" for
 * whichever is the newest. */
bool package_version_or_any_valid(const char *version);
#define PACKAGE_VERSION_RULE "is not a version, such as 2.31.0 or latest"

/* A name and a version that were given apart, as one requirement. -EINVAL unless both are valid
 * and fit together. */
int requirement_from_name(const char *package, const char *version,
                          struct requirement *ret_requirement);

/* "2.31.0", "1!2.0rc1+local.1"; PEP 440. */
bool package_version_valid(const char *text);

/* Whether @normal is in the list of names with commas or blanks between, in whatever form these are
 * written. @list may be NULL. */
bool package_listed(const char *list, const char *normal);

/* The popular package that @normal is one slip away from, or NULL. */
const char *package_lookalike(const char *normal);
