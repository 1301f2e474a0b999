/* The builder's handlers for session requests: processes, commands, sockets, files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/builder/internal.h"
#include "engine/shared/walk.h"

#include "base/banned.h"

#define BLOCK_MAX   (4u << 20) /* bytes of argv and environment; the kernel has its own limit too */
#define STRINGS_MAX 20000u
#define SPARED_MAX  100000u
#define COMMAND_FDS 5

void builder_end_strings(struct builder_request *request)
{
    switch ((enum builder_op) request->op) {
    case BOX_OPEN:
    case BOX_MKDIR:
    case BOX_STAT:
    case BOX_LIST:
    case BOX_REMOVE:
    case BOX_RENAME:
    case BOX_LINK:
        request->file.path[sizeof request->file.path - 1] = '\0';
        request->file.to[sizeof request->file.to - 1] = '\0';
        return;
    case BOX_COMMAND:
        request->command.cwd[sizeof request->command.cwd - 1] = '\0';
        return;
    case BUILDER_SETUP:
        request->setup.cgroup_name[sizeof request->setup.cgroup_name - 1] = '\0';
        request->setup.disk_name[sizeof request->setup.disk_name - 1] = '\0';
        request->setup.disk_dir[sizeof request->setup.disk_dir - 1] = '\0';
        request->setup.locales[sizeof request->setup.locales - 1] = '\0';
        return;
    case BOX_SHELF:
        request->shelf.name[sizeof request->shelf.name - 1] = '\0';
        return;
    case BUILDER_TEMPLATE:
    case BUILDER_SWEEP:
    case BOX_MAKE:
    case BOX_ADOPT:
    case BOX_USAGE:
    case BOX_SIGNAL:
    case BOX_KILL:
    case BOX_END:
    case BOX_LEAVE:
    case BOX_DISK:
    case BOX_SCAN:
    case BOX_FINISH:
    case BOX_METERS:
    case BOX_PROCS:
    case BOX_SIGNAL_NEW:
    case BOX_SIGNAL_SESSION:
    case BOX_LISTEN:
        return;
    }
}

/* The contents of a memory file, followed by a NUL; the caller frees. */
static int file_read(int fd, size_t most, char **ret_data, size_t *ret_len, struct gb_err *err)
{
    struct stat st;
    ssize_t n;
    char *data;

    if (fstat(fd, &st) < 0 || st.st_size < 0 || (size_t) st.st_size > most)
        return gb_fail_plain(err, E2BIG, "a request is too large");
    data = malloc((size_t) st.st_size + 1);
    if (!data)
        return gb_fail(err, ENOMEM, "read a request");
    n = lseek(fd, 0, SEEK_SET) < 0 ? -errno : io_read_all(fd, data, (size_t) st.st_size);
    if (n < 0) {
        free(data);
        return gb_fail(err, (int) -n, "read a request");
    }
    data[n] = '\0';
    *ret_data = data;
    *ret_len = (size_t) n;
    return 0;
}

static int serve_signal_new(struct box_entry *box, struct exchange *x, struct gb_err *err)
{
    autofree char *data = NULL;
    size_t len = 0;
    int r;

    if (x->fds_len > 1)
        return gb_fail_plain(err, EPROTO, "more than one list of processes");
    if (x->fds_len == 1) {
        r = file_read(x->fds[0], SPARED_MAX * sizeof(struct proc_record), &data, &len, err);
        if (r < 0)
            return r;
    }
    /* malloc aligns for any type. */
    return entry_signal_new(box, (struct proc_record *) (void *) data,
                            len / sizeof(struct proc_record), x->request->signal.pgid,
                            x->request->signal.with_root != 0, x->request->signal.signal, err);
}

/* Points @ret at @count strings of the block, NULL-terminated. Returns where the rest begins, or
 * NULL when there are too few. */
static char *strings_cut(char *at, const char *end, uint32_t count, char **ret)
{
    for (uint32_t i = 0; i < count; i++) {
        if (at >= end)
            return NULL;
        ret[i] = at;
        at += strlen(at) + 1;
    }
    ret[count] = NULL;
    return at;
}

static int serve_command(struct cgroup_root *cgroups, struct box_entry *box, struct exchange *x,
                         struct gb_err *err)
{
    uint32_t argc = x->request->command.argc, envc = x->request->command.envc;
    autofree char **strings = NULL;
    autofree char *block = NULL;
    struct command command = { .cwd = x->request->command.cwd,
                               .keep_control = x->request->command.keep_control != 0,
                               .landlock = x->request->command.landlock != 0,
                               .terminal = x->request->command.terminal != 0,
                               .cols = x->request->command.cols,
                               .rows = x->request->command.rows };
    char *rest;
    size_t len;
    int r;

    if (x->fds_len != COMMAND_FDS || argc == 0 || argc > STRINGS_MAX || envc > STRINGS_MAX)
        return gb_fail_plain(err, EPROTO, "a command needs five descriptors and a name");
    if ((r = file_read(x->fds[4], BLOCK_MAX, &block, &len, err)) < 0)
        return r;
    strings = calloc((size_t) argc + envc + 2, sizeof *strings);
    if (!strings)
        return gb_fail(err, ENOMEM, "start a command");
    rest = strings_cut(block, block + len, argc, strings);
    if (!rest || !strings_cut(rest, block + len, envc, strings + argc + 1))
        return gb_fail_plain(err, EPROTO, "a command lacks some of its strings");
    command.argv = strings;
    command.envp = strings + argc + 1;
    memcpy(command.stdio, x->fds, sizeof command.stdio);
    command.control = x->fds[3];
    r = entry_start_command(cgroups, box, &command, &x->reply_fds[0], err);
    explicit_bzero(block, len); /* another session's child starts as a copy of our memory */
    if (r < 0)
        return r;
    x->reply_fds_len = 1;
    x->reply_fds_owned = true;
    return 0;
}

int builder_serve_session(struct cgroup_root *cgroups, struct box_entry *box, struct exchange *x,
                          struct gb_err *err)
{
    int r;

    if (x->request->op == BOX_SIGNAL_NEW)
        return serve_signal_new(box, x, err);
    if (x->request->op == BOX_SIGNAL_SESSION)
        return entry_signal_session(box, x->request->signal.pgid, x->request->signal.signal, err);
    if (x->request->op == BOX_COMMAND)
        return serve_command(cgroups, box, x, err);
    x->reply_fds_owned = true;
    if (x->request->op == BOX_LISTEN) {
        r = entry_listen_inside(box, (uint16_t) x->request->listen.port, &x->reply_fds[0], err);
        x->reply_fds_len = r == 0;
        return r;
    }
    if (x->request->op == BOX_METERS) {
        x->reply.meters.present =
            cgroup_open_meters(cgroups, &box->cgroup, x->reply_fds, &x->reply_fds_len);
        return 0;
    }
    r = entry_procs(box, &x->reply_fds[0], &x->reply.usage.files, err);
    x->reply_fds_len = r == 0;
    return r;
}

static int serve_stat(struct box_entry *box, struct exchange *x, struct gb_err *err)
{
    struct scan_record record;
    int r = entry_stat(box, x->request->file.path, &record, err);

    if (r < 0)
        return r;
    x->reply.stat.size = record.size;
    x->reply.stat.mtime_ns = record.mtime_ns;
    x->reply.stat.inode = record.inode;
    x->reply.stat.mode = record.mode;
    return 0;
}

int builder_serve_file(struct box_entry *box, struct exchange *x, struct gb_err *err)
{
    const struct builder_request *request = x->request;
    const char *path = request->file.path;
    bool flag = request->file.flags != 0, more = false;
    int r;

    x->reply_fds_owned = true;
    if (request->op == BOX_STAT)
        return serve_stat(box, x, err);
    if (request->op == BOX_MKDIR)
        return entry_mkdir(box, path, flag, err);
    if (request->op == BOX_RENAME)
        return entry_rename(box, path, request->file.to, flag, err);
    if (request->op == BOX_LINK)
        return x->fds_len == 1 ? entry_link(box, x->fds[0], path, err)
                               : gb_fail_plain(err, EPROTO, "a link needs one file");
    if (request->op == BOX_OPEN) {
        r = entry_open(box, path, request->file.flags, request->file.mode, &x->reply_fds[0], err);
        x->reply_fds_len = r == 0;
        return r;
    }
    if (request->op == BOX_LIST) {
        r = entry_walk(box, path, (unsigned) request->file.flags, &x->reply_fds[0],
                       &x->reply.usage.files, &more, err);
        x->reply_fds_len = r == 0;
    } else {
        r = entry_remove(box, path, flag, &more, err);
    }
    x->reply.usage.files_incomplete = more;
    return r;
}
