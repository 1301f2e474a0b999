/*
 * Shares: notebooks that somebody lets everyone read who may use the service.
 *
 * A share is a copy, kept in the store until it expires. Its id is random, and whoever has it and
 * is authenticated may read; only the owner can list it and take it back. The service checks no
 * more of a notebook than that it is one, and never looks at its outputs: those who show it treat
 * all of it as hostile.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/hex.h"
#include "base/text/utf8.h"
#include "service/service_internal.h"
#include "store/shares.h"

#include "base/banned.h"

#define SHARES_MAX      50
#define SHARES_BYTES    (INT64_C(64) * 1024 * 1024)
#define SHARE_LIFE_US   (INT64_C(30) * 86400 * USEC_PER_SEC)
#define NOTEBOOK_CELLS  10000
#define SHARE_ID_PREFIX "shr_"

/* ---- faults ---- */

static int fail_unknown(struct fault *fault)
{
    return fault_set(fault, PROBLEM_SHARE_UNKNOWN, "share_id",
                     "no such share; it may have expired or been deleted");
}

static int fail_store(struct service *service, int r, const struct gb_err *err, struct fault *fault)
{
    if (r == -ENOENT)
        return fail_unknown(fault);
    if (r == -EDQUOT)
        return fault_set(fault, PROBLEM_SHARES_QUOTA, "notebook",
                         "you can share at most %d notebooks, %d MiB together; delete some first",
                         SHARES_MAX, (int) (SHARES_BYTES >> 20));
    return fault_from_engine(service, "shares cannot be stored", err, fault);
}

static int store_of(struct service *service, struct store **ret_store, struct fault *fault)
{
    *ret_store = service->config.store;
    return *ret_store ? 0
                      : fault_set(fault, PROBLEM_INTERNAL, NULL,
                                  "this service has no store to keep shares in");
}

/* ---- notebooks ---- */

static int fail_notebook(struct fault *fault, const char *why)
{
    return fault_set(fault, PROBLEM_NOTEBOOK_MALFORMED, "notebook",
                     "this is not a notebook of nbformat 4: %s", why);
}

/* Text of a cell: a string, or a list of lines. */
static bool is_source(const json_t *source)
{
    const json_t *line;
    size_t i;

    if (json_is_string(source))
        return true;
    json_array_foreach (source, i, line) {
        if (!json_is_string(line))
            return false;
    }
    return json_is_array(source);
}

static bool are_objects(const json_t *list)
{
    const json_t *item;
    size_t i;

    json_array_foreach (list, i, item) {
        if (!json_is_object(item))
            return false;
    }
    return json_is_array(list);
}

static int cell_check(const json_t *cell, struct fault *fault)
{
    const char *kind = json_string_value(json_object_get(cell, "cell_type"));
    const json_t *metadata = json_object_get(cell, "metadata");
    const json_t *outputs = json_object_get(cell, "outputs");

    if (!kind ||
        (strcmp(kind, "code") != 0 && strcmp(kind, "markdown") != 0 && strcmp(kind, "raw") != 0))
        return fail_notebook(fault, "the cell_type of a cell is not code, markdown or raw");
    if (!is_source(json_object_get(cell, "source")))
        return fail_notebook(fault, "the source of a cell is not text");
    if (metadata && !json_is_object(metadata))
        return fail_notebook(fault, "the metadata of a cell is not an object");
    if (outputs && !are_objects(outputs))
        return fail_notebook(fault, "the outputs of a cell are not a list of objects");
    return 0;
}

static int notebook_check(const json_t *notebook, struct fault *fault)
{
    const json_t *cells = json_object_get(notebook, "cells"), *cell;
    const json_t *minor = json_object_get(notebook, "nbformat_minor");
    const json_t *metadata = json_object_get(notebook, "metadata");
    size_t i;

    if (json_integer_value(json_object_get(notebook, "nbformat")) != 4)
        return fail_notebook(fault, "nbformat is not 4");
    if (minor && (!json_is_integer(minor) || json_integer_value(minor) < 0))
        return fail_notebook(fault, "nbformat_minor is not a number");
    if (metadata && !json_is_object(metadata))
        return fail_notebook(fault, "its metadata is not an object");
    if (!are_objects(cells) || json_array_size(cells) > NOTEBOOK_CELLS)
        return fail_notebook(fault, "cells is not a list of at most 10000 objects");
    json_array_foreach (cells, i, cell) {
        if (cell_check(cell, fault) < 0)
            return -1;
    }
    return 0;
}

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char) *text < 0x20 || *text == 0x7f)
            return true;
    return false;
}

static int title_check(const char *title, struct fault *fault)
{
    if (strlen(title) >= STORE_SHARE_TITLE_MAX || !utf8_valid(title, strlen(title)) ||
        has_control(title))
        return fault_set(fault, PROBLEM_INVALID_REQUEST, "title",
                         "a title is one line of at most %d bytes", STORE_SHARE_TITLE_MAX - 1);
    return 0;
}

/* ---- replies ---- */

static double seconds(int64_t us)
{
    int64_t ms = us / USEC_PER_MSEC;

    return (double) ms / 1000;
}

static json_t *share_to_json(const struct store_share *share)
{
    return json_pack("{s:s, s:s+, s:s, s:f, s:f, s:I}", "share_id", share->id, "url", "/shared/",
                     share->id, "title", share->title, "created", seconds(share->created_us),
                     "expires", seconds(share->expires_us), "size", (json_int_t) share->size);
}

int share_create(struct service *service, const struct caller *caller, const char *title,
                 const json_t *notebook, json_t **ret_json, struct fault *fault)
{
    struct store_share share = { .created_us = unix_now_us() };
    autofree char *text = NULL;
    struct gb_err err = { 0 };
    struct store *store;
    int r;

    if (store_of(service, &store, fault) < 0 || title_check(title, fault) < 0 ||
        notebook_check(notebook, fault) < 0)
        return -1;
    text = json_dumps(notebook, JSON_COMPACT);
    if (!text)
        return fault_no_memory(fault);
    share.size = (int64_t) strlen(text);
    if (share.size > STORE_SHARE_NOTEBOOK_MAX)
        return fault_set(fault, PROBLEM_NOTEBOOK_TOO_LARGE, "notebook",
                         "a notebook can have at most %d MiB; remove large outputs",
                         STORE_SHARE_NOTEBOOK_MAX >> 20);
    share.expires_us = share.created_us + SHARE_LIFE_US;
    snprintf(share.owner, sizeof share.owner, "%s", principal_text(&caller->principal));
    snprintf(share.title, sizeof share.title, "%s", title);
    if (id_new(SHARE_ID_PREFIX, share.id, sizeof share.id) < 0)
        return fault_set(fault, PROBLEM_INTERNAL, NULL, "no random id could be made");
    share.notebook = text;
    r = store_share_add(store, &share, SHARES_MAX, SHARES_BYTES, &err);
    if (r < 0)
        return fail_store(service, r, &err, fault);
    *ret_json = share_to_json(&share);
    return *ret_json ? 0 : fault_no_memory(fault);
}

int share_list(struct service *service, const struct caller *caller, json_t **ret_json,
               struct fault *fault)
{
    autofree struct store_share *shares = NULL;
    struct gb_err err = { 0 };
    struct store *store;
    json_t *list;
    size_t len;
    int r;

    if (store_of(service, &store, fault) < 0)
        return -1;
    r = store_share_list(store, principal_text(&caller->principal), unix_now_us(), &shares, &len,
                         &err);
    if (r < 0)
        return fail_store(service, r, &err, fault);
    list = json_array();
    for (size_t i = 0; i < len; i++)
        (void) json_array_append_new(list, share_to_json(&shares[i]));
    *ret_json = json_pack("{s:o}", "shares", list);
    return *ret_json ? 0 : fault_no_memory(fault);
}

static bool id_is_ours(const char *id)
{
    return strncmp(id, SHARE_ID_PREFIX, 4) == 0 && hex_is(id + 4, 32);
}

/* The notebook is pasted in as the text that it is: parsed it would take many times the memory. */
static int share_text(const struct store_share *share, char **ret_text, size_t *ret_len)
{
    json_t *json = share_to_json(share);
    autofree char *head = json ? json_dumps(json, JSON_COMPACT) : NULL;
    int len = -1;

    json_decref(json);
    if (head) {
        head[strlen(head) - 1] = '\0'; /* its closing brace */
        len = asprintf(ret_text, "%s,\"notebook\":%s}", head, share->notebook);
    }
    if (len < 0)
        return -ENOMEM;
    *ret_len = (size_t) len;
    return 0;
}

int share_read(struct service *service, const char *id, char **ret_text, size_t *ret_len,
               struct fault *fault)
{
    struct store_share share = { 0 };
    struct gb_err err = { 0 };
    struct store *store;
    int r;

    if (!id_is_ours(id))
        return fail_unknown(fault);
    if (store_of(service, &store, fault) < 0)
        return -1;
    r = store_share_get(store, id, unix_now_us(), &share, &err);
    if (r < 0)
        return fail_store(service, r, &err, fault);
    r = share_text(&share, ret_text, ret_len);
    store_share_release(&share);
    return r < 0 ? fault_no_memory(fault) : 0;
}

int share_delete(struct service *service, const struct caller *caller, const char *id,
                 struct fault *fault)
{
    struct gb_err err = { 0 };
    struct store *store;
    int r;

    if (!id_is_ours(id))
        return fail_unknown(fault);
    if (store_of(service, &store, fault) < 0)
        return -1;
    r = store_share_delete(store, principal_text(&caller->principal), id, &err);
    return r < 0 ? fail_store(service, r, &err, fault) : 0;
}

void share_sweep(struct service *service)
{
    struct gb_err err = { 0 };

    if (service->config.store && store_share_prune(service->config.store, unix_now_us(), &err) < 0)
        service_log(service, LOG_LEVEL_WARNING, "cannot remove expired shares: %s", err.msg);
}
