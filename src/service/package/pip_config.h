/*
 * Where packages come from: the host's pip configuration and the operator's options, turned into
 * what an installer box is told. Only what is needed goes in: addresses without credentials, and a
 * certificate file. Directories of the host become places in the box.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/shelf.h"

#define PIP_SOURCES_MAX 16

/* The operator's options. */
struct pip_options {
    const char *index_url;      /* NULL: as pip is configured; "none": there is none */
    char *const *extra_indexes; /* NULL-terminated; NULL: as pip is configured */
    char *const *wheels;        /* directories or URLs of wheels, besides those of pip */
};

struct pip_host {
    char host[256];
    uint16_t port;
    char *authorization; /* the value of a header that only the proxy knows, or NULL */
};

struct pip_config {
    char *index_url;                          /* NULL: there is none */
    char *extra_indexes[PIP_SOURCES_MAX + 1]; /* ends with NULL, as those below */
    char *find_links[PIP_SOURCES_MAX + 1];
    char *trusted_hosts[PIP_SOURCES_MAX + 1];
    char *cert;              /* a file of the host, or NULL */
    char *dirs[SHELVES_MAX]; /* directories: the first is at SHELF_PLACE/.1; ends with NULL */
    struct pip_host hosts[2 * PIP_SOURCES_MAX];
    size_t hosts_len;
    bool proxy;     /* pip would go through one, and we do not */
    char note[200]; /* what was passed over, or "" */
};

/* Reads files and environment as pip does. An address that cannot be used safely is an error. */
int pip_config_load(const struct pip_options *options, struct pip_config **ret_config,
                    struct gb_err *err);
void pip_config_free(struct pip_config *config); /* wipes credentials; accepts NULL */

/* Whether packages can come from anywhere. */
bool pip_config_any(const struct pip_config *config);

/* ---- parts, for the tests ---- */

/* The settings that matter here, as text of pip; each may be NULL. Lists have blanks between. */
struct pip_settings {
    char *index_url, *extra_index_url, *find_links, *trusted_host, *cert, *no_index, *proxy;
};

/* Adds what one file says: [global], and [install] over it; @levels are those two. */
void pip_settings_read(const char *text, size_t len, struct pip_settings levels[2]);
void pip_settings_release(struct pip_settings *settings);

/* Turns settings into a configuration. Takes nothing from the environment. */
int pip_config_make(const struct pip_settings *settings, const struct pip_options *options,
                    struct pip_config **ret_config, struct gb_err *err);
