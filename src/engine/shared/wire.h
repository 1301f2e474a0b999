/*
 * Messages between our own processes: supervisor, builder, template.
 *
 * Unlike frames (frame.h) these are never exchanged with a tenant: each is one fixed-size struct in
 * one seqpacket packet, with descriptors attached. A packet of another size is an error.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/host.h"
#include "engine/limits.h"
#include "engine/shelf.h"

#define WIRE_FDS_MAX  16
#define WIRE_PATH_MAX 4096
#define WIRE_TEXT_MAX 4096

/* Sends one packet; returns 0 or -errno. */
int wire_send(int fd, const void *data, size_t len, const int *fds, size_t fds_len);

/* Receives one packet of exactly @len bytes, waiting for it; descriptors arrive CLOEXEC. Returns 0,
 * -EPIPE when the peer is gone, -EPROTO for a packet of another size (its descriptors closed). */
int wire_recv(int fd, void *data, size_t len, int fds[WIRE_FDS_MAX], size_t *ret_fds_len);

void wire_close_fds(const int *fds, size_t fds_len);

/* ---- supervisor to builder ---- */

enum builder_op {
    /* First: root file system, cgroups, ids. fds: pidfd of a template that outlived its builder; a
     * list of the directories for volumes (volumes.h); the shelves (shelf.h). Reply fds: the
     * builder's pidfd; with a keeper its lifeline, user and PID namespace; then the locks that show
     * other engines that this one is alive. */
    BUILDER_SETUP,
    /* Start an interpreter. fds: its control socket, its stderr until it is ready, and the mount
     * namespace to start it in, with template.root. Reply fd: its pidfd. */
    BUILDER_TEMPLATE,
    BUILDER_SWEEP, /* remove some of what dead boxes left on disk; reply usage.files_incomplete:
                      ask again */
    /* fds: the mounted image for the workspace, with DISK_IMAGE; the list of volumes; the mount
     * namespace to copy for the box, with make.root. Reply fds: pidfd of PID 1, lifeline, root
     * directory, cgroup descriptors. */
    BOX_MAKE,
    BOX_ADOPT, /* after a builder died; fds: pidfd, lifeline, root directory */
    BOX_USAGE,
    BOX_SIGNAL, /* a signal to a process group in the box */
    BOX_KILL,   /* SIGKILL to all but PID 1; the files stay */
    BOX_END,    /* PID 1 is killed and the cgroup removed; tenants must be reaped by then */
    BOX_SHELF,  /* mounts a part of a shelf into the box */
    BOX_LEAVE,  /* the builder closes the workspace: only BOX_END may follow */
    BOX_DISK,   /* usage of a watched workspace */
    BOX_OPEN,   /* a file beneath /workspace; reply fd */
    BOX_MKDIR,  /* a directory beneath /workspace */
    BOX_SCAN,   /* the files in /workspace; reply fd: a memory file of struct scan_record */
    BOX_FINISH, /* the end of an execution, in one step: BOX_KILL, BOX_USAGE and BOX_SCAN */

    /* for sessions */
    BOX_METERS,         /* reply fds: the cgroup's counters that exist, see cgroup_open_meters() */
    BOX_PROCS,          /* reply fd: a memory file of struct proc_record */
    BOX_SIGNAL_NEW,     /* fd: a memory file of struct proc_record, those to spare */
    BOX_SIGNAL_SESSION, /* the processes of session pgid, and those that descend from its leader */
    /* Runs a program. fds: its 0, 1, 2, a control socket, a memory file with the strings of argv
     * and then of the environment, each ended by NUL; reply fd: its pidfd. */
    BOX_COMMAND,
    BOX_STAT,
    BOX_LIST,   /* reply fd: as BOX_SCAN, with every kind of entry */
    BOX_REMOVE, /* reply usage.files_incomplete: ask again */
    BOX_RENAME,
    BOX_LISTEN, /* reply fd: a listening socket in the box's network */
    BOX_LINK,   /* fd: a file opened with O_TMPFILE; gives it its name */
};

struct builder_request {
    uint32_t op;
    uint32_t box; /* chosen by the supervisor, never used twice */
    union {
        struct {
            int32_t cgroup_mode;               /* enum cgroup_mode */
            uint32_t template, volumes;        /* 1: that descriptor is attached */
            char cgroup_name[CGROUP_NAME_MAX]; /* "" or the group of a builder that died */
            int32_t shelves;                   /* how many */
            char disk_name[DISK_NAME_MAX];     /* "" or its directory for workspaces */
            char disk_dir[WIRE_PATH_MAX];      /* where that is; "": no workspaces on disk */
            char locales[WIRE_PATH_MAX];       /* mounted at BOX_LOCALES; "": none */
        } setup;
        struct {
            char python[WIRE_PATH_MAX];
            char env[WIRE_TEXT_MAX]; /* NAME=value, each NUL-terminated, then an empty one */
            uint32_t root;           /* 1: not the builder's own root */
        } template;
        struct {
            struct limits limits;
            uint32_t host_id; /* BOX_ADOPT: as BOX_MAKE answered */
            uint32_t disk;    /* enum disk_kind */
            uint32_t volumes; /* 1: their list is attached */
            uint32_t own_id;  /* 1: under the id of the user who started us; never as root */
            uint32_t root;    /* 1: not the builder's own root */
        } make;
        struct {
            /* BOX_USAGE, BOX_FINISH: anonymous memory of the box's template; 0: of the one the
             * builder started last */
            int64_t template_anon;
        } usage;
        struct {
            int32_t pgid, signal; /* BOX_SIGNAL_NEW: pgid is the process whose children to signal */
            int32_t with_root;    /* BOX_SIGNAL_NEW: and the process itself */
        } signal;
        struct {
            /* BOX_OPEN: open(2) flags (O_RDONLY, O_WRONLY | O_CREAT | O_EXCL or O_WRONLY |
             * O_TMPFILE); BOX_LIST: of walk.h; BOX_MKDIR: 1 parents; BOX_REMOVE: 1 the whole
             * tree; BOX_RENAME: 1 replaces */
            int32_t flags;
            uint32_t mode;
            char path[WIRE_PATH_MAX];
            char to[WIRE_PATH_MAX]; /* BOX_RENAME */
        } file;
        struct {
            uint32_t shelf, place;
            char name[SHELF_NAME_MAX];
        } shelf;
        struct {
            uint32_t port;
        } listen;
        struct {
            uint32_t argc, envc;
            uint32_t keep_control, landlock;
            uint32_t terminal; /* 1: its 0, 1, 2 are a new terminal of the box, of this size; the
                                  ones attached are not used */
            uint16_t cols, rows;
            char cwd[WIRE_PATH_MAX];
        } command;
    };
};

struct builder_reply {
    int32_t error; /* 0 or an errno value; then the fd, if any, is a dead child to reap */
    char msg[sizeof((struct gb_err *) 0)->msg];
    union {
        struct {
            int32_t id_mode;
            int32_t cgroup_mode;
            int32_t keeper; /* 1: its descriptors are attached */
            int32_t locks;  /* how many */
            char cgroup_name[CGROUP_NAME_MAX];
            char disk_name[DISK_NAME_MAX];
            char note[CGROUP_NOTE_MAX];
        } setup;
        struct {
            uint32_t cgroup_into; /* 1: the cgroup descriptor is for CLONE_INTO_CGROUP */
            uint32_t host_id;
        } box;
        struct {
            struct cgroup_usage counters;
            int32_t disk;              /* enum limit_kind of a full file system, or LIMIT_NONE */
            uint32_t files;            /* BOX_SCAN and BOX_FINISH: records in the memory file */
            uint32_t files_incomplete; /* 1: more than a scan may list */
        } usage;
        struct {
            int64_t bytes, inodes;
            int32_t deep;
        } disk;
        struct {
            uint32_t present; /* bits of enum cgroup_meter, in the order of the descriptors */
        } meters;
        struct {
            int64_t size, mtime_ns;
            uint64_t inode;
            uint32_t mode;
        } stat;
    };
};

/* One process of a box, with the numbers that the box sees. */
struct proc_record {
    int32_t pid, ppid;
    int32_t sid, unused;
    uint64_t start; /* field 22 of stat(5): distinguishes it from another with the same pid; 0 in a
                       list of those to spare: unknown */
};

/* One regular file; @path_len bytes of its path follow, without a NUL. Host byte order. */
struct scan_record {
    int64_t size;
    int64_t mtime_ns;
    uint64_t inode;
    uint32_t mode;
    uint32_t path_len;
};

/* ---- supervisor to the creator of one root file system, builder/template_root.c ---- */

#define ROOT_BINDS_MAX 16

struct root_request {
    uint32_t count;
    char binds[ROOT_BINDS_MAX][WIRE_PATH_MAX]; /* absolute, without links in them */
    char venv_lib[VENV_LIB_MAX];               /* of struct template_packages; "": no environment */
    char packages[WIRE_PATH_MAX];              /* absolute, without links in it; "": an empty one */
    char locales[WIRE_PATH_MAX];               /* likewise, mounted at BOX_LOCALES; "": none */
};

/* fd: the mount namespace */
struct root_reply {
    int32_t error;
    char msg[sizeof((struct gb_err *) 0)->msg];
};

/* ---- supervisor to template ---- */

/* Once, before anything else: what to import. */
struct template_setup {
    char preload[PRELOAD_MAX]; /* names, separated by spaces */
};

/* From the template while it starts. */
enum template_news {
    TEMPLATE_GOES_ON,  /* done < total: module @done is imported next; done == total: ready */
    TEMPLATE_UNFIT,    /* it exits, for this reason */
    TEMPLATE_MISSING,  /* a module that could not be imported, and why; it continues without it */
    TEMPLATE_LEFT_OUT, /* why module @done is not preloaded; it continues without it */
    TEMPLATE_CULPRIT,  /* why module @done cannot be preloaded; the template is spoilt, and waits
                          to be ended */
    TEMPLATE_USES,     /* it tries out what module @done brought */
};

struct template_event {
    int32_t error;        /* enum template_news */
    uint32_t done, total; /* @done is an index into the names of template_setup */
    char text[128];       /* the module being imported, what went wrong, the version of Python */
};

/* fds: pidfd of the box's PID 1, tenant's 0, 1, 2, its control socket, cgroup descriptors */
#define CLONE_FDS_FIXED 5

struct clone_request {
    struct limits limits;
    uint32_t cgroup_fds;
    uint32_t cgroup_into; /* CLONE_INTO_CGROUP instead of writing to the files */
    uint32_t landlock;
    uint32_t cgroups; /* 0: no cgroups at all, all memory must be countable */
};

/* fd: pidfd of the tenant, whose parent is the supervisor */
struct clone_reply {
    int32_t error;
    char what[32];
};
