/*
 * Workspaces as images: a separate file system for each box.
 *
 * Theory of operation. An empty ext4 is created with mke2fs once for each requested size, and kept
 * as a blank; the workspace of a box is a copy of its few dozen KiB of metadata in a sparse file (2
 * ms; mke2fs takes 20). The file has no name. A loop device is attached to it, the file system is
 * mounted, and both are closed at once: from then on only the mount keeps the loop device
 * (autoclear), and only that keeps the file. The mount is passed on as a descriptor and attached
 * only in the box's mount namespace, so it is not visible on the host, and nothing is left behind,
 * whoever is killed.
 *
 * The kernel parses only images that mke2fs created and we copied; a tenant changes them through
 * the mounted file system and cannot access their bytes. There is no journal and there are no
 * barriers: these files need not survive a crash. Space of deleted files is returned to the host
 * (discard). The loop device reads and writes past the page cache (direct I/O), else every page
 * would be in memory twice.
 *
 * Runs in the supervisor, by any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/disk/disk.h"

#include "base/banned.h"

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define TIB (MIB * MIB)

#define BLOCK        (4 * KIB)
#define GROUP_BYTES  (128 * MIB) /* of blocks of that size */
#define GROUP_INODES INT64_C(32768)
#define GROUP_OVERHEAD                                                                             \
    (16 * BLOCK) /* bitmaps, copies of superblock and descriptors, generously                      \
                  */
#define INODE_BYTES  INT64_C(256)
#define INODES_OWN   16         /* reserved by the file system itself */
#define RESERVED_MAX (16 * MIB) /* the kernel reserves 2 %, but no more than this */
#define IMAGE_MAX    (8 * TIB)

#define BLANKS      4
#define LOOP_TRIES  64
#define MKFS_MS     60000
#define TRIAL_BYTES MIB
#define COPY_CHUNK  (128 * KIB)

struct blank {
    int64_t bytes, inodes; /* as asked for */
    int fd;                /* -EBADF: none */
    uint64_t used;
};

struct disk_images {
    pthread_mutex_t lock;
    int dir;
    uint64_t turn;
    struct blank blanks[BLANKS];
};

int64_t disk_image_slack(int64_t bytes)
{
    int64_t slack = bytes / 4;

    return slack < 2 * MIB ? slack : 2 * MIB;
}

/* ---- creating one with mke2fs ---- */

/* The size of an image that has room for that much in addition to its own metadata. */
static int64_t image_size(int64_t bytes, int64_t inodes)
{
    int64_t size = bytes + (inodes + INODES_OWN) * INODE_BYTES + 64 * BLOCK;
    int64_t reserved;

    size += (size / GROUP_BYTES + inodes / GROUP_INODES + 2) * GROUP_OVERHEAD;
    reserved = size / 48;
    size += reserved < RESERVED_MAX ? reserved : RESERVED_MAX;
    return (size + BLOCK - 1) / BLOCK * BLOCK;
}

/* A group can hold only so many inodes: with many inodes for few bytes, groups are smaller. */
static int64_t group_blocks(int64_t size, int64_t inodes)
{
    int64_t blocks = GROUP_BYTES / BLOCK;
    int64_t groups = (inodes + INODES_OWN) / (GROUP_INODES * 3 / 4) + 1;

    if (size / BLOCK / groups < blocks)
        blocks = size / BLOCK / groups / 8 * 8;
    return blocks < 256 ? 256 : blocks;
}

static int spawn_mke2fs(int image, int64_t blocks_per_group, int64_t inodes, pid_t *ret_pid)
{
    static const char *const places[] = { "/usr/sbin/mke2fs", "/sbin/mke2fs" };
    static char *const envp[] = { (char *) "MKE2FS_CONFIG=/dev/null", NULL };
    char groups[24], count[24];
    /* Without features that only cost time and space here. Inode tables are holes, which read as
     * zeros. */
    char *argv[] = { (char *) "mke2fs",
                     (char *) "-q",
                     (char *) "-F",
                     (char *) "-b",
                     (char *) "4096",
                     (char *) "-m",
                     (char *) "0",
                     (char *) "-I",
                     (char *) "256",
                     (char *) "-g",
                     groups,
                     (char *) "-N",
                     count,
                     (char *) "-O",
                     (char *) "none,extents,flex_bg,uninit_bg,filetype,sparse_super,large_file,"
                              "huge_file,dir_index,dir_nlink,extra_isize",
                     (char *) "-E",
                     (char *) "lazy_itable_init=1,nodiscard",
                     (char *) "/proc/self/fd/3",
                     NULL };
    posix_spawn_file_actions_t actions;
    int r = ENOENT;

    snprintf(groups, sizeof groups, "%lld", (long long) blocks_per_group);
    snprintf(count, sizeof count, "%lld", (long long) inodes + INODES_OWN);
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, image, 3);
    for (size_t i = 0; i < ARRAY_LEN(places) && r == ENOENT; i++)
        r = posix_spawn(ret_pid, places[i], &actions, NULL, argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

static int wait_mke2fs(pid_t pid, struct gb_err *err)
{
    autoclose int pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
    struct pollfd gone = { .fd = pidfd, .events = POLLIN };
    siginfo_t info = { 0 };

    if (pidfd >= 0 && poll(&gone, 1, MKFS_MS) <= 0)
        (void) syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    while (waitid(P_PID, (id_t) pid, &info, WEXITED) < 0)
        if (errno != EINTR)
            return gb_fail(err, errno, "wait for mke2fs");
    if (info.si_code != CLD_EXITED || info.si_status != 0)
        return gb_fail_plain(err, EIO, "mke2fs cannot create a file system here");
    return 0;
}

static int image_new(const struct disk_images *images, int64_t size, int *ret_fd,
                     struct gb_err *err)
{
    autoclose int fd = openat(images->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0 &&
        fd <= 3) { /* mke2fs gets it as descriptor 3, so it must have another number here */
        int above = fcntl(fd, F_DUPFD_CLOEXEC, 4);

        (void) close(fd);
        fd = above;
    }
    if (fd < 0 || ftruncate(fd, size) < 0)
        return gb_fail(err, errno, "create a file for a workspace");
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* ---- mounting ---- */

static int loop_configure(int loop, int image)
{
    struct loop_config config = {
        .fd = (uint32_t) image,
        .block_size = BLOCK,
        .info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
    };

    if (ioctl(loop, LOOP_CONFIGURE, &config) == 0)
        return 0;
    if (errno != EINVAL)
        return -errno;
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR; /* not every file system supports direct I/O */
    return ioctl(loop, LOOP_CONFIGURE, &config) < 0 ? -errno : 0;
}

/* -EBUSY: another process took the device between our two calls. */
static int loop_try(int control, int image, int *ret_loop)
{
    autoclose int loop = -EBADF;
    int number = ioctl(control, LOOP_CTL_GET_FREE), r;
    char path[32];

    if (number < 0)
        return -errno;
    snprintf(path, sizeof path, "/dev/loop%d", number);
    loop = open(path, O_RDWR | O_CLOEXEC);
    if (loop < 0)
        return -errno;
    r = loop_configure(loop, image);
    if (r == 0)
        *ret_loop = TAKE_FD(loop);
    return r;
}

static int loop_attach(int image, int *ret_loop)
{
    /* Every thread that asks gets the same free device, so a burst of new sessions would fail for
     * those that lose that race too often: one at a time. */
    static pthread_mutex_t attaching = PTHREAD_MUTEX_INITIALIZER;
    autoclose int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    int r = -EBUSY;

    if (control < 0)
        return -errno;
    for (int i = 0; i < LOOP_TRIES && r == -EBUSY; i++) {
        pthread_mutex_lock(&attaching);
        r = loop_try(control, image, ret_loop);
        pthread_mutex_unlock(&attaching);
    }
    return r;
}

static int mount_loop(int loop, int *ret_mount)
{
    static const char *const options[] = { "noinit_itable", "nobarrier", "discard" };
    autoclose int context = (int) syscall(SYS_fsopen, "ext4", FSOPEN_CLOEXEC);
    char source[32];
    int fd;

    snprintf(source, sizeof source, "/proc/self/fd/%d", loop);
    if (context < 0 || syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "source", source, 0) < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (syscall(SYS_fsconfig, context, FSCONFIG_SET_FLAG, options[i], NULL, 0) < 0)
            return -errno;
    if (syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    fd = (int) syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0)
        return -errno;
    *ret_mount = fd;
    return 0;
}

static int image_mount(int image, int *ret_mount, struct gb_err *err)
{
    autoclose int loop = -EBADF;
    int r = loop_attach(image, &loop);

    if (r == -ENOENT || r == -ENODEV)
        return gb_fail_plain(err, -r,
                             "no free loop device: /dev/loop-control and /dev/loop* are "
                             "missing or too few");
    if (r < 0)
        return gb_fail(err, -r, "attach a loop device");
    r = mount_loop(loop, ret_mount);
    return r < 0 ? gb_fail(err, -r, "mount an ext4 image") : 0;
}

/* ---- blanks ---- */

/* mke2fs always creates lost+found, which is of no use here. */
static int blank_tidy(int image, struct gb_err *err)
{
    autoclose int mount = -EBADF;
    int r = image_mount(image, &mount, err);

    if (r < 0)
        return r;
    if (unlinkat(mount, "lost+found", AT_REMOVEDIR) < 0 && errno != ENOENT)
        return gb_fail(err, errno, "empty a new file system");
    return 0;
}

static int blank_make(const struct disk_images *images, int64_t bytes, int64_t inodes, int *ret_fd,
                      struct gb_err *err)
{
    int64_t size = image_size(bytes, inodes);
    autoclose int fd = -EBADF;
    pid_t pid;
    int r = image_new(images, size, &fd, err);

    if (r < 0)
        return r;
    r = spawn_mke2fs(fd, group_blocks(size, inodes), inodes, &pid);
    if (r < 0)
        return gb_fail(err, -r, "start mke2fs (Debian: e2fsprogs)");
    if ((r = wait_mke2fs(pid, err)) < 0 || (r = blank_tidy(fd, err)) < 0)
        return r;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* The lock is held; the descriptor stays the blank's. */
static int blank_find(struct disk_images *images, int64_t bytes, int64_t inodes, int *ret_fd,
                      struct gb_err *err)
{
    struct blank *oldest = &images->blanks[0];
    int fd = -EBADF, r;

    for (size_t i = 0; i < BLANKS; i++) {
        struct blank *blank = &images->blanks[i];

        if (blank->fd >= 0 && blank->bytes == bytes && blank->inodes == inodes) {
            blank->used = ++images->turn;
            *ret_fd = blank->fd;
            return 0;
        }
        if (blank->used < oldest->used)
            oldest = blank;
    }
    r = blank_make(images, bytes, inodes, &fd, err);
    if (r < 0)
        return r;
    gb_closep(&oldest->fd);
    *oldest = (struct blank){ bytes, inodes, fd, ++images->turn };
    *ret_fd = fd;
    return 0;
}

/* Copies everything but holes. */
static int copy_data(int from, int to)
{
    autofree char *chunk = malloc(COPY_CHUNK);
    off_t at = 0;

    if (!chunk)
        return -ENOMEM;
    while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(from, at, SEEK_HOLE);

        if (end < 0 || lseek(to, at, SEEK_SET) < 0)
            return -errno;
        while (at < end) {
            size_t want = end - at < COPY_CHUNK ? (size_t) (end - at) : COPY_CHUNK;
            ssize_t n = pread(from, chunk, want, at);
            int r = n <= 0 ? (n < 0 ? -errno : -EIO) : io_write_all(to, chunk, (size_t) n);

            if (r < 0)
                return r;
            at += n;
        }
    }
    return errno == ENXIO ? 0 : -errno;
}

int disk_image_make(struct disk_images *images, int64_t bytes, int64_t inodes, int *ret_mount,
                    struct gb_err *err)
{
    autoclose int image = -EBADF;
    int template, r;

    if (bytes > IMAGE_MAX)
        return gb_fail_plain(err, EFBIG, "a workspace on disk can have at most %lld TiB",
                             (long long) (IMAGE_MAX / TIB));
    pthread_mutex_lock(&images->lock);
    r = blank_find(images, bytes, inodes, &template, err);
    if (r == 0)
        r = image_new(images, image_size(bytes, inodes), &image, err);
    if (r == 0 && (r = copy_data(template, image)) < 0)
        r = gb_fail(err, -r, "copy an image");
    pthread_mutex_unlock(&images->lock);
    return r < 0 ? r : image_mount(image, ret_mount, err);
}

int disk_images_open(int dir_fd, struct disk_images **ret_images, struct gb_err *err)
{
    struct disk_images *images = calloc(1, sizeof *images);
    int mount, r;

    if (!images)
        return gb_fail(err, ENOMEM, "keep images");
    pthread_mutex_init(&images->lock, NULL);
    images->dir = dir_fd;
    for (size_t i = 0; i < BLANKS; i++)
        images->blanks[i].fd = -EBADF;
    r = disk_image_make(images, TRIAL_BYTES, INODES_OWN, &mount, err);
    if (r < 0) {
        disk_images_close(images);
        return r;
    }
    (void) close(mount);
    *ret_images = images;
    return 0;
}

void disk_images_close(struct disk_images *images)
{
    if (!images)
        return;
    for (size_t i = 0; i < BLANKS; i++)
        gb_closep(&images->blanks[i].fd);
    pthread_mutex_destroy(&images->lock);
    free(images);
}
