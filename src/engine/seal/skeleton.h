/*
 * The skeleton: the small root file system that builder, templates and boxes share. The builder
 * makes it (builder/rootfs.c); PID 1 of a box that needs a root of its own copies it.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Directory of the skeleton that hides other directories. */
#define SKELETON_EMPTY "/.empty"

/* The directories that are made before anything is mounted. */
struct skeleton_directory {
    const char *path;
    mode_t mode;
    bool filled; /* there is something in it before a box adds its own */
};

#define SKELETON_DIRECTORIES 18

extern const struct skeleton_directory skeleton_directories[SKELETON_DIRECTORIES];

/* Fills a new root directory with all that the skeleton has. Async-signal-safe; 0 or -errno. */
int skeleton_copy(int root);
