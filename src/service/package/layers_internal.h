/* What the files of the layer store share. */
#pragma once

#include <limits.h>
#include <pthread.h>
#include <sys/queue.h>

#include "service/package/layers.h"

enum {
    DIR_LAYERS,
    DIR_TREES,
    DIR_TOOLS,
    DIR_RECORDS,
    DIR_REQUESTS,
    DIR_SETS,
    DIR_WORK,
    DIR_LOCKS,
    DIRS
};

struct layer {
    LIST_ENTRY(layer) entry;
    struct layers *layers;
    char key[LAYER_KEY_MAX];
    json_t *record;
    int lock_fd; /* of its directory, with a shared lock */
    int refs;    /* under the store's lock */
};

struct layers {
    char *data, *path, *tools; /* of the data directory, the layers, and the tools */
    int dirs[DIRS];
    pthread_mutex_t lock;
    LIST_HEAD(, layer) live;
};

/* "NAME.json" */
void layers_json_name(const char *name, char buf[NAME_MAX + 1]);
/* A file that contains an object. */
int layers_json_read(int dir, const char *name, json_t **ret_json);
/* Complete or not at all, even if the disk is full or we are killed. */
int layers_json_write(int dir, const char *name, const json_t *json);

/* Calls @each with NAME for every file NAME.json of a directory; stops unless it returns 0. */
int layers_each_json(int dir, int (*each)(void *arg, const char *name), void *arg);

/* A shared lock on directory @fd, which was opened as @name in @dir. -ENOENT: it is no longer
 * there. */
int layers_lock_shared(int dir, const char *name, int fd);

/* Empties the trash in work/. */
void layers_rubbish_empty(struct layers *layers);
/* Removes unfinished layers whose process is gone, and rubbish. */
void layers_work_sweep(struct layers *layers);

/* Whoever stores a layer or removes one holds this kind of lock on its key. */
#define LOCK_LAYER "layer"
/* As layers_lock(), but does not wait: -EWOULDBLOCK. */
int layers_try_lock(struct layers *layers, const char *kind, const char *hash, int *ret_fd);
