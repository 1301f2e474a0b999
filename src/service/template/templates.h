/*
 * Templates that the operator has defined: which interpreter, which modules it preloads, and which
 * files of the host its boxes may see. One small file each, in the directory "templates" of the
 * data directory; see templates.c. A running service reads a definition whenever a client names it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/err.h"
#include "engine/engine.h"
#include "service/package/layers.h"

struct fault;
struct install_watch;
struct service;

#define TEMPLATE_NAME_MAX     65  /* with the NUL */
#define TEMPLATE_PACKAGES_MAX 512 /* requirements of a set */
#define TEMPLATE_WANTED_MAX   256
#define TEMPLATE_DEFAULT      "default" /* whichever --default-template names */
#define TEMPLATE_SYSTEM       "system"  /* the system's Python; always there */
#define TEMPLATE_AUTO         "auto"    /* of --default-template */
#define TEMPLATE_DATA         "data"    /* what auto means, if there is one of that name */

enum template_kind {
    TEMPLATE_KIND_PYTHON,   /* an interpreter */
    TEMPLATE_KIND_VENV,     /* a virtual environment over one */
    TEMPLATE_KIND_PACKAGES, /* a set of packages over the system's Python, without its own */
    /* Root file systems and container images may follow. A definition of a kind that this version
     * does not know is refused, not guessed at. */
};

const char *template_kind_name(enum template_kind kind);

struct template_entry {
    char name[TEMPLATE_NAME_MAX];
    enum template_kind kind;
    char *source;  /* what the operator named: the interpreter, or the directory of the venv */
    char *python;  /* the interpreter that is executed */
    char *preload; /* modules, separated by spaces; "": none */
    char **binds;  /* what boxes see besides /usr; NULL-terminated, never NULL */
    /* "module: why", modules that were asked for and cannot be preloaded; NULL-terminated, or
     * NULL: none */
    char **left_out;

    /* of a set of packages */
    char **packages; /* requirements; NULL-terminated; NULL: another kind */
    char layer[LAYER_KEY_MAX];
    char *made_for; /* the interpreter that they were installed for */

    /* set by template_furnish() */
    char venv_lib[VENV_LIB_MAX]; /* of struct template_packages; "": another kind */
    char *packages_dir;          /* NULL: none */
    int64_t packages_bytes;
    int packages_fd; /* of that directory; it is in use as long as this is open */
};

/* Fills it from the kind and the path: finds the interpreter and the files it needs. If that cannot
 * work, the error is worded for the operator. Nothing is executed. (find.c) */
int template_find(enum template_kind kind, const char *path, struct template_entry *ret_entry,
                  struct gb_err *err);

/* Fills left_out from lines of text. */
int template_entry_leave_out(struct template_entry *entry, const char *lines);

void template_entry_release(struct template_entry *entry);

/* ---- default.c ---- */

/* The system's Python as a template. */
int template_system(struct template_entry *ret_entry, struct gb_err *err);

/* The default template, ready for use: the one named @wanted, or TEMPLATE_SYSTEM, or TEMPLATE_AUTO:
 * that is TEMPLATE_DATA if it is defined. If that one cannot be used it is the system's Python
 * after all, and @ret_note says why; otherwise the note is empty. */
int template_default(const char *data_dir, const char *wanted, struct template_entry *ret_entry,
                     struct gb_err *ret_note, struct gb_err *err);

/* ---- versions.c ---- */

/* [{"name", "version"}] of the packages that it finds, sorted; furnish it first. */
json_t *template_versions(const struct template_entry *entry);

/* ---- packages.c ---- */

/* The directory of libraries of the system's Python, such as python3.11. */
int template_venv_lib(char ret_lib[VENV_LIB_MAX], struct gb_err *err);

/* Makes the packages of the template available, if it is of that kind, until it is released.
 * ESTALE: they are gone, or for another Python; the message says what to do. */
int template_furnish(struct layers *layers, struct template_entry *entry, struct gb_err *err);

/* The same with the store of a data directory. */
int template_furnish_from(const char *data_dir, struct template_entry *entry, struct gb_err *err);

/* A set of packages to be installed for a template. */
struct template_order {
    const char *const *wanted; /* requirements, NULL-terminated */
    const char *lock;          /* text of a lock file that says which files they are; NULL: the
                                  newest that fit together */
    const char *preload;       /* modules, separated by spaces; NULL: see below */
    const char *modules;       /* likewise: those of them that are installed are preloaded, and the
                                  modules of the named packages. NULL: nothing is */
    const struct install_watch *watch; /* NULL: none */
};

/* Fills an entry except for its name: installs the set, like packages_install(), and makes it
 * available. @ret_json is what packages_install() returns. */
int template_install(struct service *service, const struct template_order *order,
                     struct template_entry *ret_entry, json_t **ret_json, struct fault *fault);

/* ---- */

/* Converts it for the engine; @entry must stay valid. */
struct template_def template_entry_def(const struct template_entry *entry);

/* Letters, digits and ._:-, starting with a letter or digit, at most 64, none of ours. */
bool template_name_valid(const char *name);

/* The same with a message for the operator. */
int template_check_name(const char *name, struct gb_err *err);

/* @data_dir must exist and be ours. -EEXIST unless @replace. */
int templates_save(const char *data_dir, const struct template_entry *entry, bool replace,
                   struct gb_err *err);

/* Fails with EEXIST and a message for the operator if one of that name exists. */
int templates_check_free(const char *data_dir, const char *name, struct gb_err *err);

/* -ENOENT if none has that name; the message lists the existing ones. */
int templates_load(const char *data_dir, const char *name, struct template_entry *ret_entry,
                   struct gb_err *err);
int templates_remove(const char *data_dir, const char *name, struct gb_err *err);

/* The names, sorted; empty if the data directory does not exist or has none. Free each name and the
 * array. */
int templates_names(const char *data_dir, char ***ret_names, struct gb_err *err);
void templates_names_free(char **names);

/* Whether there is a definition of that name. */
bool templates_has(const char *data_dir, const char *name);

/* Whether a definition names that layer; true if they cannot be read. */
bool templates_name_layer(const char *data_dir, const char *key);

/* The template that @wanted means: its own name, "default" for @standard, "system", or by an alias.
 * @aliases are ALIAS=NAME, NULL-terminated, may be NULL; the first match counts, * in ALIAS matches
 * anything. Our own come last: python and python:* are the default template. -ENOENT with a message
 * that lists the available ones. */
int templates_resolve(const char *data_dir, const char *const *aliases, const char *standard,
                      const char *wanted, char ret_name[TEMPLATE_NAME_MAX], struct gb_err *err);

extern const char *const template_own_aliases[];

/* Whether it is ALIAS=NAME as above. */
bool template_alias_valid(const char *text);
