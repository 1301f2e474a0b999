/*
 * Trees: wheels as directories, each unpacked once per machine. They are part of the store of
 * layers (layers.h):
 *
 *   packages/trees/KEY/site       the files of one wheel, as `pip install --target` places them
 *   packages/trees/KEY/info.json  {"bytes", "files"}; mtime of KEY is the last use
 *
 * A layer is composed of trees by hard links: a set that has one more package than another costs
 * the disk and the network that package. KEY is a hash over the wheel's hash and the interpreter's
 * ABI, for whose version the bytecode is; a wheel that was built here has its caller in it too. A
 * tree never changes, and appears complete or not at all. Whoever composes a layer has a shared
 * lock on each of its trees until the layer's record is written; pruning removes trees that no
 * record names, and needs the exclusive lock.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "service/package/layers.h"

struct tree {
    char key[LAYER_KEY_MAX];
    int fd; /* of its directory, with a shared lock; -EBADF: none */
    int64_t bytes, files;
};

/* @scope is "" for a wheel of the index, which everybody shares. */
void tree_key(const char *sha256, const char *abi, const char *scope, char ret_key[LAYER_KEY_MAX]);

/* A tree, in use until it is put back. -ENOENT: it does not exist. */
int tree_get(struct layers *layers, const char *key, struct tree *ret_tree, struct gb_err *err);
void tree_put(struct tree *tree); /* accepts one that was put back */

/* Trees being made: each is unpacked, then all appear together, after one sync. */
struct tree_batch {
    struct layers *layers;
    struct tree_work *items;
    size_t len, cap;
};

/* What one set may have. */
struct tree_room {
    int64_t bytes, files;
};

/* Unpacks @pack, which an installer box wrote and nobody checked (see Pack in installer.py).
 * @room is reduced. EFBIG, E2BIG: too much. EPROTO, EEXIST, ENOTDIR...: malformed. */
int tree_unpack(int pack, int dir, struct tree_room *room, struct gb_err *err);

int tree_batch_add(struct tree_batch *batch, const char *key, int pack, struct tree_room *room,
                   struct gb_err *err);
/* Writes the trees to the store. A tree that exists by now is dropped, which is not an error. */
int tree_batch_publish(struct tree_batch *batch, struct gb_err *err);
void tree_batch_release(struct tree_batch *batch); /* discards what was not published */

/* Links the trees into directory @dir. Of two different files with one name that of the later tree
 * stays, and @ret_clash names the first such file ("": none). */
#define CLASH_MAX 160
int trees_compose(const struct tree *trees, size_t len, int dir, char ret_clash[CLASH_MAX],
                  struct gb_err *err);

/* Removes trees that no record names and nobody has used for a while: an install that was
 * interrupted may be repeated. @squeeze: at once. */
void trees_prune(struct layers *layers, bool squeeze);

/* The sum of all trees that no record names. */
int64_t trees_loose_bytes(struct layers *layers);
