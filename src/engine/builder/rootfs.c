/*
 * The skeleton: one small root file system, created once by the builder.
 *
 * Theory of operation. The builder leaves the host's file system for good: it creates a mount
 * namespace whose root is a tmpfs with the host's /usr (read-only, recursively), a handful of
 * device nodes, copies of those files of /etc that programs look for, and empty directories where a
 * box mounts its own file systems. Then it pivots there. Templates are its children, so they import
 * from the same files that their clones will see; a box is a copy of this namespace plus a few
 * mounts, so creating one is cheap and the rest of the host is never reachable, not even for a
 * process that failed to be sealed.
 *
 * A template whose interpreter is not in /usr has a separate skeleton (template_root.c): the same
 * with a few more files and directories of the host, read-only and at the same paths. So has a
 * template with packages of its own: a virtual environment over the system's Python, with the
 * packages mounted as its site-packages. Programs in such a box, and Pythons that they start, find
 * those and not the host's.
 *
 * /proc stays mounted (the host's instance, for us): the kernel lets a user namespace mount a new
 * procfs only where an unobstructed one is already visible. A box mounts its own over it.
 */
#include "engine/builder/rootfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/box/volumes.h"
#include "engine/seal/skeleton.h"

#include "base/banned.h"

#define ETC_FILE_MAX  (4L << 20)
#define ETC_DEPTH_MAX 6
#define VENV_IN_ROOT  "opt/python" /* VENV_PLACE, seen from the new root */
#define VENV_SITE_MAX (sizeof VENV_IN_ROOT + VENV_LIB_MAX + 32)

static const struct {
    const char *path, *target;
} links[] = {
    { "dev/fd", "/proc/self/fd" },
    { "dev/stdin", "/proc/self/fd/0" },
    { "dev/stdout", "/proc/self/fd/1" },
    { "dev/stderr", "/proc/self/fd/2" },
    { "dev/ptmx", "pts/ptmx" },
    { "etc/mtab", "/proc/self/mounts" },
    { "var/tmp", "/tmp" },
    /* Debian has no /usr/bin/python. The directory is the last in PATH. */
    { "opt/bin/python", "/usr/bin/python3" },
};

/* The last is the terminal of whoever opens it, if it has one; a host may lack it. */
static const char *const devices[] = { "null", "zero", "full", "random", "urandom", "tty" };

/* Usually links into /usr; if they are real directories they are bind-mounted like /usr. */
static const char *const usr_aliases[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

/* Copied from the host, with everything beneath. Programs need them: without nsswitch no localhost,
 * without alternatives no BLAS, without fonts no text in charts. */
static const char *const etc_copies[] = {
    "alternatives",    "ca-certificates.conf",
    "debian_version",  "fonts",
    "gai.conf",        "host.conf",
    "ld.so.cache",     "ld.so.conf",
    "ld.so.conf.d",    "locale.alias",
    "localtime",       "magic",
    "matplotlibrc",    "mime.types",
    "nsswitch.conf",   "os-release",
    "protocols",       "python3",
    "python3.9",       "python3.10",
    "python3.11",      "python3.12",
    "python3.13",      "python3.14",
    "services",        "ssl/certs",
    "ssl/openssl.cnf", "timezone",
};

static const struct {
    const char *path, *text;
} texts[] = {
    { "etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"
                    "user:x:1000:1000:user:/workspace:/bin/sh\n"
                    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
    { "etc/group", "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n" },
    { "etc/hosts", "127.0.0.1 localhost " SKELETON_HOSTNAME "\n::1 localhost ip6-localhost\n" },
    { "etc/hostname", SKELETON_HOSTNAME "\n" },
    { "etc/resolv.conf", "" },
    { "etc/shells", "/bin/sh\n/bin/bash\n" },
    /* For templates: what a library learns when it is imported, its clones know. A box has its own
     * /sys. */
    { "sys/devices/system/cpu/online", "0\n" },
};

static int sys_open_tree(const char *path, unsigned flags)
{
    return (int) syscall(SYS_open_tree, AT_FDCWD, path, flags);
}

static int sys_move_mount(int from_fd, int to_dir, const char *to)
{
    return (int) syscall(SYS_move_mount, from_fd, "", to_dir, to, MOVE_MOUNT_F_EMPTY_PATH);
}

static int sys_mount_setattr(int fd, const char *path, unsigned flags, uint64_t set)
{
    struct mount_attr attr = { .attr_set = set };

    return (int) syscall(SYS_mount_setattr, fd, path, flags, &attr, sizeof attr);
}

static int put_file(int root, const char *path, const char *data, size_t len)
{
    autoclose int fd =
        openat(root, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);

    if (fd < 0)
        return -errno;
    return io_write_all(fd, data, len);
}

static int copy_regular(int from_dir, const char *name, int to_dir)
{
    autoclose int in = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    autoclose int out = -EBADF;
    char chunk[65536];
    ssize_t n;

    if (in < 0)
        return errno == EACCES ? 0 : -errno;
    out = openat(to_dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (out < 0)
        return -errno;
    while ((n = io_read_all(in, chunk, sizeof chunk)) > 0) {
        int r = io_write_all(out, chunk, (size_t) n);

        if (r < 0)
            return r;
    }
    return (int) n;
}

static int copy_link(int from_dir, const char *name, int to_dir)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from_dir, name, target, sizeof target - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, to_dir, name) < 0 && errno != EEXIST ? -errno : 0;
}

static int copy_entry(int from_dir, const char *name, int to_dir, int depth);

static int copy_directory(int from_dir, const char *name, int to_dir, int depth)
{
    int from = openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    autoclose int to = -EBADF;
    struct dirent *entry;
    DIR *dir;
    int r;

    if (from < 0)
        return errno == EACCES ? 0 : -errno;
    r = dir_open_fd(from, &dir);
    if (r < 0)
        return r;
    if ((mkdirat(to_dir, name, 0755) < 0 && errno != EEXIST) ||
        (to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        r = -errno;
    while (r == 0 && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = copy_entry(from, entry->d_name, to, depth - 1);
    (void) closedir(dir);
    return r;
}

/* Copies regular files; missing, unreadable, special and huge ones are skipped. */
static int copy_entry(int from_dir, const char *name, int to_dir, int depth)
{
    struct stat st;

    if (depth <= 0)
        return 0;
    if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT || errno == EACCES ? 0 : -errno;
    if (S_ISLNK(st.st_mode))
        return copy_link(from_dir, name, to_dir);
    if (S_ISDIR(st.st_mode))
        return copy_directory(from_dir, name, to_dir, depth);
    if (S_ISREG(st.st_mode) && st.st_size <= ETC_FILE_MAX)
        return copy_regular(from_dir, name, to_dir);
    return 0;
}

static int fill_etc(int root, struct gb_err *err)
{
    autoclose int from = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autoclose int to = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = 0;

    if (from < 0 || to < 0)
        return gb_fail(err, errno, "open /etc");
    if (mkdirat(to, "ssl", 0755) < 0)
        return gb_fail(err, errno, "create /etc/ssl in the box's root");
    for (size_t i = 0; i < ARRAY_LEN(etc_copies) && r == 0; i++) {
        const char *name = etc_copies[i], *slash = strchr(name, '/');

        if (slash) {
            autoclose int sub_from = openat(from, "ssl", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            autoclose int sub_to = openat(to, "ssl", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

            if (sub_from >= 0 && sub_to >= 0)
                r = copy_entry(sub_from, slash + 1, sub_to, ETC_DEPTH_MAX);
        } else {
            r = copy_entry(from, name, to, ETC_DEPTH_MAX);
        }
        if (r < 0)
            return gb_fail(err, -r, "copy /etc/%s into the box's root", name);
    }
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        r = put_file(root, texts[i].path, texts[i].text, strlen(texts[i].text));
        if (r < 0)
            return gb_fail(err, -r, "write %s", texts[i].path);
    }
    return 0;
}

/* Attaches a copy of the host's @path read-only at @name. Recursive in both respects: a bind mount
 * with writable submounts would be a hole, and one without locked submounts is refused. */
static int bind_tree(int root, int from, const char *path, const char *name, struct gb_err *err)
{
    autoclose int tree = (int) syscall(SYS_open_tree, from, from >= 0 ? "" : path,
                                       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
                                           (from >= 0 ? AT_EMPTY_PATH : 0));

    if (tree < 0)
        return gb_fail(err, errno, "open the mount of %.120s (open_tree)", path);
    if (sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE,
                          MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) < 0)
        return gb_fail(err, errno, "make %.100s read-only (mount_setattr, Linux 5.12)", path);
    if (sys_move_mount(tree, root, name) < 0)
        return gb_fail(err, errno, "attach %.120s", path);
    return 0;
}

static int bind_read_only(int root, const char *name, struct gb_err *err)
{
    char path[64];

    snprintf(path, sizeof path, "/%s", name);
    return bind_tree(root, AT_FDCWD, path, name, err);
}

static int bind_usr(int root, struct gb_err *err)
{
    int r = bind_read_only(root, "usr", err);

    for (size_t i = 0; i < ARRAY_LEN(usr_aliases) && r == 0; i++) {
        const char *name = usr_aliases[i];
        char path[32], target[PATH_MAX];
        ssize_t n;

        snprintf(path, sizeof path, "/%s", name);
        n = readlink(path, target, sizeof target - 1);
        if (n >= 0) {
            target[n] = '\0';
            if (symlinkat(target, root, name) < 0)
                return gb_fail(err, errno, "link %s", path);
        } else if (errno == EINVAL) {
            if (mkdirat(root, name, 0755) < 0)
                return gb_fail(err, errno, "create %s", path);
            r = bind_read_only(root, name, err);
        }
    }
    return r;
}

static int bind_devices(int root, struct gb_err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        autoclose int tree = -EBADF;
        char path[32];
        int r;

        snprintf(path, sizeof path, "/dev/%s", devices[i]);
        if (i == ARRAY_LEN(devices) - 1 && access(path, F_OK) < 0)
            continue;
        r = put_file(root, path + 1, "", 0);
        if (r < 0)
            return gb_fail(err, -r, "create %s", path);
        tree = sys_open_tree(path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (tree < 0)
            return gb_fail(err, errno, "open the mount of %s (open_tree)", path);
        if (sys_mount_setattr(tree, "", AT_EMPTY_PATH, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC) < 0 ||
            sys_move_mount(tree, root, path + 1) < 0)
            return gb_fail(err, errno, "attach %s", path);
    }
    return 0;
}

static int bind_proc(int root, struct gb_err *err)
{
    autoclose int tree = sys_open_tree("/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

    if (tree < 0)
        return gb_fail(err, errno, "open the mount of /proc (open_tree)");
    if (sys_move_mount(tree, root, "proc") < 0)
        return gb_fail(err, errno, "attach /proc");
    return 0;
}

static int fill_directories(int root, struct gb_err *err)
{
    for (size_t i = 0; i < SKELETON_DIRECTORIES; i++) {
        const struct skeleton_directory *directory = &skeleton_directories[i];

        if (mkdirat(root, directory->path, directory->mode) < 0)
            return gb_fail(err, errno, "create /%s in the box's root", directory->path);
    }
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (symlinkat(links[i].target, root, links[i].path) < 0)
            return gb_fail(err, errno, "link /%s in the box's root", links[i].path);
    return 0;
}

/* After the files of a template, which may be in a home directory of that name. */
static int link_workspace(int root, struct gb_err *err)
{
    for (size_t i = 0; i < SKELETON_ALIASES; i++)
        if (symlinkat("/workspace", root, skeleton_aliases[i]) < 0 && errno != EEXIST)
            return gb_fail(err, errno, "link /%s in the box's root", skeleton_aliases[i]);
    return 0;
}

static int pivot(int root, struct gb_err *err)
{
    if (fchdir(root) < 0)
        return gb_fail(err, errno, "enter the box's root");
    /* New and old root at the same place: afterwards the old one is on top and is unmounted. */
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        return gb_fail(err, errno, "change to the new root (pivot_root)");
    if (umount2(".", MNT_DETACH) < 0)
        return gb_fail(err, errno, "detach the host's root");
    if (chdir("/") < 0)
        return gb_fail(err, errno, "change to the directory /");
    if (sys_mount_setattr(AT_FDCWD, "/", 0,
                          MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) < 0)
        return gb_fail(err, errno, "make the box's root read-only");
    return 0;
}

/* ---- files of a template outside /usr ---- */

/* A directory of the new root, created if missing; never through a link, which would lead out of
 * it. Takes @dir. */
static int step_into(int dir, const char *name)
{
    int next = -1, error;

    if (mkdirat(dir, name, 0755) == 0 || errno == EEXIST)
        next = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    error = errno;
    (void) close(dir);
    return next < 0 ? -error : next;
}

/* Opens the directory above the last part of @path in the new root; the parts end where a slash
 * was. */
static int open_above(int root, char *path, char **ret_name)
{
    char *name = path + 1, *slash;
    int dir = fcntl(root, F_DUPFD_CLOEXEC, 0);

    while (dir >= 0 && (slash = strchr(name, '/'))) {
        *slash = '\0';
        dir = step_into(dir, name);
        name = slash + 1;
    }
    *ret_name = name;
    return dir;
}

static int place_link(int from, int dir, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, "", target, sizeof target - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, dir, name) < 0 ? -errno : 0;
}

/* Its path was resolved when the operator named it: a link in it by now would lead somewhere the
 * operator did not allow. */
static int open_extra(const char *path, int *ret_fd, struct stat *ret_st, struct gb_err *err)
{
    struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                            .resolve = RESOLVE_NO_SYMLINKS };
    autoclose int fd = (int) syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);

    if (fd < 0 || fstat(fd, ret_st) < 0)
        return errno == ELOOP
                   ? gb_fail_plain(err, ELOOP, "%.120s now contains a symbolic link", path)
                   : gb_fail(err, errno, "open %.120s", path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* One more file or directory of the host, or a link, at the same path. */
static int bind_extra(int root, const char *path, struct gb_err *err)
{
    autofree char *copy = strdup(path);
    autoclose int from = -EBADF, dir = -EBADF;
    struct stat st;
    char *name;
    int r;

    if (!copy)
        return gb_fail(err, ENOMEM, "bind %.120s", path);
    if ((r = open_extra(path, &from, &st, err)) < 0)
        return r;
    dir = open_above(root, copy, &name);
    if (dir < 0)
        return gb_fail(err, -dir, "create the mount point %.120s", path);
    if (S_ISLNK(st.st_mode))
        r = place_link(from, dir, name);
    else if (S_ISDIR(st.st_mode))
        r = mkdirat(dir, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
    else
        r = S_ISREG(st.st_mode) ? put_file(dir, name, "", 0) : -EINVAL;
    if (r < 0)
        return gb_fail(err, -r, "create the mount point %.120s", path);
    return S_ISLNK(st.st_mode) ? 0 : bind_tree(dir, from, path, name, err);
}

/* ---- the virtual environment of a template ---- */

static int venv_make(int root, const char *lib, char site[VENV_SITE_MAX])
{
    static const char *const above[] = { "opt", VENV_IN_ROOT, VENV_IN_ROOT "/bin",
                                         VENV_IN_ROOT "/lib" };
    static const char cfg[] = "home = /usr/bin\ninclude-system-site-packages = false\n";
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(above) && r == 0; i++)
        r = mkdirat(root, above[i], 0755) < 0 && errno != EEXIST ? -errno : 0;
    snprintf(site, VENV_SITE_MAX, VENV_IN_ROOT "/lib/%s", lib);
    if (r == 0 && mkdirat(root, site, 0755) < 0)
        r = -errno;
    snprintf(site, VENV_SITE_MAX, VENV_IN_ROOT "/lib/%s/site-packages", lib);
    if (r == 0 && (mkdirat(root, site, 0755) < 0 ||
                   symlinkat("/usr/bin/python3", root, VENV_IN_ROOT "/bin/python3") < 0 ||
                   symlinkat("python3", root, VENV_IN_ROOT "/bin/python") < 0))
        r = -errno;
    return r < 0 ? r : put_file(root, VENV_IN_ROOT "/pyvenv.cfg", cfg, strlen(cfg));
}

static int bind_venv(int root, int set, const struct skeleton_more *more, struct gb_err *err)
{
    char site[VENV_SITE_MAX];
    int r = venv_make(root, more->venv_lib, site);

    if (r < 0)
        return gb_fail(err, -r, "create " VENV_PLACE " in the box's root");
    return set >= 0 ? bind_tree(root, set, more->packages, site, err) : 0;
}

static int bind_more(int root, int set, const struct skeleton_more *more, struct gb_err *err)
{
    int r = 0;

    for (const char *const *bind = more->binds; *bind && r == 0; bind++)
        r = bind_extra(root, *bind, err);
    return r < 0 || !more->venv_lib[0] ? r : bind_venv(root, set, more, err);
}

int skeleton_enter(const char *disk_dir, const struct skeleton_more *more, int *ret_disk,
                   int volumes_fd, struct volume_trees *volumes, struct shelf_set *shelves,
                   const int *shelf_fds, size_t shelf_fds_len, struct gb_err *err)
{
    autoclose int root = -EBADF, disk = -EBADF, set = -EBADF, words = -EBADF;
    struct stat st;
    int r;

    if (unshare(CLONE_NEWNS) < 0)
        return gb_fail(err, errno, "create a mount namespace");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return gb_fail(err, errno, "make mounts private");
    if (disk_dir[0]) {
        disk = sys_open_tree(disk_dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
        if (disk < 0)
            return gb_fail(err, errno, "open the mount of %.100s (open_tree)", disk_dir);
    }
    if (shelf_fds_len > 0 && (r = shelf_take(shelves, shelf_fds, shelf_fds_len, err)) < 0)
        return r;
    if (volumes_fd >= 0 && (r = volume_trees_take(volumes, volumes_fd, err)) < 0)
        return r;
    if (more->packages[0] && (r = open_extra(more->packages, &set, &st, err)) < 0)
        return r;
    if (more->locales[0] && (r = open_extra(more->locales, &words, &st, err)) < 0 && r != -ENOENT)
        return r; /* boxes can do without them */
    /* The tmpfs needs a mount point until the pivot; any directory will do. */
    if (mount("glovebox", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64m") < 0)
        return gb_fail(err, errno, "mount the box's root");
    umask(022);
    root = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return gb_fail(err, errno, "open the box's root");
    if ((r = fill_directories(root, err)) < 0 || (r = fill_etc(root, err)) < 0 ||
        (r = bind_usr(root, err)) < 0 || (r = bind_devices(root, err)) < 0 ||
        (r = bind_proc(root, err)) < 0)
        return r;
    if ((r = bind_more(root, set, more, err)) < 0)
        return r;
    if (words >= 0 && (r = bind_tree(root, words, more->locales, &BOX_LOCALES[1], err)) < 0)
        return r;
    if ((r = link_workspace(root, err)) < 0 || (r = pivot(root, err)) < 0)
        return r;
    if (disk_dir[0])
        *ret_disk = TAKE_FD(disk);
    return 0;
}

int skeleton_isolate(struct gb_err *err)
{
    /* Builder and templates get no network, System V objects or host name either: whatever a
     * template learns (platform.node() is cached), its tenants know. */
    if (unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        return gb_fail(err, errno, "create network, IPC and UTS namespaces");
    if (sethostname(SKELETON_HOSTNAME, strlen(SKELETON_HOSTNAME)) < 0)
        return gb_fail(err, errno, "set the host name");
    return 0;
}
