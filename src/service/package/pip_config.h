/*
 * Where packages come from: the host's pip configuration and the operator's options, converted for
 * an installer box. The box gets only what it needs: addresses without credentials, and a
 * certificate file. Directories of the host are mounted in the box.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/shelf.h"

#define PIP_SOURCES_MAX 16
#define PIP_DIRS_MAX    (SHELVES_MAX - 2) /* the other shelves are ours */

/* The operator's options. */
struct pip_options {
    const char *index_url;      /* NULL: pip's configuration; "none": no index */
    char *const *extra_indexes; /* NULL-terminated; NULL: pip's configuration */
    char *const *wheels;        /* directories or URLs of wheels, besides pip's own */
};

struct pip_host {
    char host[256];
    uint16_t port;
    char *authorization; /* the value of a header that only the proxy has, or NULL */
};

struct pip_config {
    char *index_url;                          /* NULL: no index */
    char *extra_indexes[PIP_SOURCES_MAX + 1]; /* ends with NULL, as those below */
    char *find_links[PIP_SOURCES_MAX + 1];
    char *trusted_hosts[PIP_SOURCES_MAX + 1];
    char *cert;                   /* a file of the host, or NULL */
    char *dirs[PIP_DIRS_MAX + 1]; /* directories: the first is at SHELF_PLACE/.1; ends with NULL */
    struct pip_host hosts[2 * PIP_SOURCES_MAX];
    size_t hosts_len;
    bool proxy;     /* pip would use a proxy, and we do not */
    char note[200]; /* what was ignored, or "" */
};

/* Reads files and environment like pip does. An address that cannot be used safely is an error. */
int pip_config_load(const struct pip_options *options, struct pip_config **ret_config,
                    struct gb_err *err);
void pip_config_free(struct pip_config *config); /* wipes credentials; accepts NULL */

/* Whether any source of packages is configured. */
bool pip_config_any(const struct pip_config *config);

/* ---- parts, for the tests ---- */

/* The settings that matter here, in pip's syntax; each may be NULL. Lists are separated by
 * spaces. */
struct pip_settings {
    char *index_url, *extra_index_url, *find_links, *trusted_host, *cert, *no_index, *proxy;
};

/* Adds the settings of one file: [global], overridden by [install]; @levels are those two. */
void pip_settings_read(const char *text, size_t len, struct pip_settings levels[2]);
void pip_settings_release(struct pip_settings *settings);

/* Turns settings into a configuration. Takes nothing from the environment. */
int pip_config_make(const struct pip_settings *settings, const struct pip_options *options,
                    struct pip_config **ret_config, struct gb_err *err);
