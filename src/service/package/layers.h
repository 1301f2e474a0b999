/*
 * The store of package layers, beneath the data directory:
 *
 *   packages/layers/KEY          a set of packages as files, never changed once it exists
 *   packages/trees/KEY           one wheel as files (trees.h); layers consist of links to them
 *   packages/tools/NAME          programs for the installer's box
 *   packages/records/KEY.json    names, versions and hashes; mtime is the last use
 *   packages/requests/HASH.json  the layer that a request resolved to
 *   packages/sets/NAME.json      the default set of a key or a listener
 *   packages/work/               layers being made, and trash
 *   packages/locks/              prevent two processes from making the same layer
 *
 * KEY is a hash over the hashes of the wheels and the interpreter's ABI: requests that resolve to
 * the same set share one layer. A layer is filled in work/ and renamed, so it appears complete or
 * not at all. A process that uses a layer locks it (flock); layers that are locked, or named by a
 * set or a template (template/templates.h), stay. All others are pruned by age and size. A layer
 * that is being stored has a record and is not in use yet; a lock on its key, which pruning needs
 * too, protects it until its maker has it in use. Several processes may use one store, and each may
 * be killed at any time: pruning removes what they leave.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "service/access/principal.h"

#include "base/err.h"

#define LAYER_KEY_MAX 65 /* with its NUL */

struct layers;
struct layer;

/* Creates missing directories and removes unfinished layers of dead processes. */
int layers_open(const char *data_dir, struct layers **ret_layers, struct gb_err *err);
void layers_close(struct layers *layers); /* accepts NULL */

/* The directory of layers: an absolute path. */
const char *layers_dir(const struct layers *layers);

/* The directory of tools, likewise. */
const char *layers_tools_dir(const struct layers *layers);

/* 64 hex digits, as the key of a layer is. */
bool layer_key_valid(const char *text);

/* SHA-256 as hex. */
void layers_hash(const void *data, size_t len, char ret_hex[LAYER_KEY_MAX]);

/* A layer, in use from now on. -ENOENT: it does not exist. Waits while another process decides
 * whether to prune it, which takes a few file operations. */
int layer_get(struct layers *layers, const char *key, struct layer **ret_layer, struct gb_err *err);
struct layer *layer_ref(struct layer *layer); /* accepts NULL */
void layer_unref(struct layer *layer);        /* accepts NULL */
/* The same, and removes it unless somebody else uses or names it. */
void layer_discard(struct layer *layer);
const char *layer_key(const struct layer *layer);
/* A descriptor of its directory. As long as it or a copy of it is open the layer is in use, even
 * after @layer is released. Returns -errno. */
int layer_open_dir(const struct layer *layer);
/* {"key", "abi", "packages": [{"name", "version", "sha256", "file", "tree", "bytes"}], "bytes",
 *  "files", "made"}; "tree" is a key of trees.h */
const json_t *layer_record(const struct layer *layer);

/* The result of a request, if it is not older than @age_us; the caller owns it. -ENOENT:
 * unknown. */
int layers_request_get(struct layers *layers, const char *hash, int64_t age_us, json_t **ret_json);
int layers_request_put(struct layers *layers, const char *hash, json_t *json, struct gb_err *err);

/* Waits for the exclusive lock on a set or a request (@kind is "set" or "request"). Hashes share a
 * few locks, so a caller may wait for an unrelated one. Take a set's lock before a request's; that
 * of a layer's key (layers_internal.h) comes after both. Closing the descriptor releases it.
 */
int layers_lock(struct layers *layers, const char *kind, const char *hash, int *ret_fd,
                struct gb_err *err);

/* A directory to fill; the descriptor belongs to @work. */
struct layer_work {
    struct layers *layers;
    char name[80];
    int fd;
};
int layer_work_begin(struct layers *layers, struct layer_work *ret_work, struct gb_err *err);
/* Makes a layer of it. If the layer exists by now ours is dropped, which is not an error. Ends the
 * work in any case. */
int layer_work_publish(struct layer_work *work, const char *key, json_t *record,
                       struct layer **ret_layer, struct gb_err *err);
void layer_work_abort(struct layer_work *work); /* accepts one that has ended */

/* Removes layers that were not used for @age_us, then the least recently used ones until all of
 * them together are not larger than @bytes; also what killed processes left behind. @ret_removed
 * may be NULL. */
int layers_prune(struct layers *layers, int64_t bytes, int64_t age_us, unsigned *ret_removed,
                 struct gb_err *err);

struct layers_stats {
    int64_t count, bytes;
};
void layers_get_stats(struct layers *layers, struct layers_stats *ret_stats);

/* For operators: {"layers": [{"layer", "count", "packages": [{"name", "version"}], "bytes", "used",
 * "uses"}] (at most @max, those used last first), "sets": [{"owner", "requirements", "layer"}],
 * "more", "count"}. @layers may be NULL. NULL is returned if out of memory. */
json_t *layers_to_json(struct layers *layers, size_t max);

/* ---- default sets ---- */

#define SET_NAME_MAX 128

/* The name of a principal's set; local principals share one per listener (NULL: unknown). */
void set_name(const struct principal *principal, const char *listener, char ret_name[SET_NAME_MAX]);

/* {"requirements": [...], "key": "...", "python": "..."}; -ENOENT: no such set. */
int set_get(struct layers *layers, const char *name, json_t **ret_json);
int set_put(struct layers *layers, const char *name, json_t *json, struct gb_err *err);
int set_remove(struct layers *layers, const char *name, struct gb_err *err); /* -ENOENT */
int set_each(struct layers *layers, int (*each)(void *arg, const char *name, json_t *json),
             void *arg, struct gb_err *err);
/* Changes when the set does; 0: no such set. */
int64_t set_stamp(struct layers *layers, const char *name);
