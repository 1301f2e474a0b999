/*
 * The skeleton: the small root file system that builder, templates and boxes share. The builder
 * creates it (builder/rootfs.c); PID 1 of a box that needs a separate root copies it.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Empty directory of the skeleton, mounted over others to hide them. */
#define SKELETON_EMPTY "/.empty"

/* The directories that are created before anything is mounted. */
struct skeleton_directory {
    const char *path;
    mode_t mode;
    bool filled; /* not empty before a box adds its own */
};

#define SKELETON_DIRECTORIES 27

extern const struct skeleton_directory skeleton_directories[SKELETON_DIRECTORIES];

/* Where programs written for other sandboxes look for their files: links to /workspace, unless a
 * template or a volume has something there. Without the first slash. */
#define SKELETON_ALIASES 2

extern const char *const skeleton_aliases[SKELETON_ALIASES];

/* Fills a new root directory with the contents of the skeleton. Async-signal-safe; 0 or -errno. */
int skeleton_copy(int root);
