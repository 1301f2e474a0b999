/*
 * Requirements: the packages that a client wants, as untrusted text.
 *
 * The grammar is that of PEP 508 (names, extras, versions of PEP 440, markers), strict and small:
 * text that is accepted consists of letters, digits and a few punctuation marks, and means the same
 * to pip. Paths, options, control characters and shell syntax are rejected. Pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define REQUIREMENT_MAX  400 /* bytes of one as text */
#define PACKAGE_NAME_MAX 100
#define REQUIREMENTS_MAX 64 /* in one request */

struct requirement {
    char name[PACKAGE_NAME_MAX + 1];   /* as written */
    char normal[PACKAGE_NAME_MAX + 1]; /* PEP 503: lower case, single hyphens */
    char text[REQUIREMENT_MAX + 1];    /* the whole text, without unnecessary spaces */
    bool versioned;                    /* it has a version or a URL */
    bool is_url;
};

/* @urls: "name @ https://…" is accepted too. The error is worded for the client. */
int requirement_parse(const char *text, bool urls, struct requirement *ret_requirement,
                      struct gb_err *err);

/* Takes the first requirement off a comma-separated list, such as "a[x,y]>=1,<2, b": a comma before
 * a version, in brackets, in quotes or in a URL belongs to the requirement. Returns its length
 * without surrounding spaces; @text is then at the next, or NULL. requirement_parse() checks its
 * content. */
size_t requirement_next(const char **text, const char **ret_start);

/* PEP 503. @name must be a package name; anything else gives "". */
void package_normal(const char *name, char ret_normal[PACKAGE_NAME_MAX + 1]);

/* "requests", "requests[socks, use_chardet]": a name, optionally with extras, and nothing else. */
bool package_name_valid(const char *text);
#define PACKAGE_NAME_RULE                                                                          \
    "is not a package name: letters and digits, with . _ - between them; give the version "        \
    "separately"

/* A version given separately from the name: one of PEP 440, or NULL, "" or "latest" for the
 * newest. */
bool package_version_or_any_valid(const char *version);
#define PACKAGE_VERSION_RULE "is not a version, such as 2.31.0 or latest"

/* A name and a version that were given separately, as one requirement. -EINVAL unless both are
 * valid and fit together. */
int requirement_from_name(const char *package, const char *version,
                          struct requirement *ret_requirement);

/* "2.31.0", "1!2.0rc1+local.1"; PEP 440. */
bool package_version_valid(const char *text);

/* Whether @normal is in the list of names, separated by commas or spaces and in any spelling. @list
 * may be NULL. */
bool package_listed(const char *list, const char *normal);

/* The popular package that @normal is one typo away from, or NULL. */
const char *package_lookalike(const char *normal);
