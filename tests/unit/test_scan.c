/* The walk over a workspace, on directories of our own: what is listed, what is passed over, and
 * where it stops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/box/box.h"
#include "engine/shared/wire.h"

#include "base/banned.h"

/* As engine/scan.c has them. */
#define SCAN_ENTRIES_MAX 20000
#define SCAN_DEPTH_MAX   32

struct place {
    char dir[128];
    struct box_entry box;
};

/* What a scan said, with its records in memory. */
struct listing {
    uint32_t count;
    bool incomplete;
    char *data;
    size_t len;
};

static int place_setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    const char *tmp = getenv("TMPDIR");

    if (!place)
        return -1;
    snprintf(place->dir, sizeof place->dir, "%s/glovebox-test-scan-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(place->dir)) {
        free(place);
        return -1;
    }
    place->box.workspace = open(place->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *state = place;
    return place->box.workspace < 0 ? -1 : 0;
}

/* By descriptor, since a path may be longer than can be named at once. Takes over @fd. */
static int remove_below(int fd)
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    int r = dir ? 0 : -1;

    while (r == 0 && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(fd, entry->d_name, 0) == 0)
            continue;
        r = remove_below(openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (r == 0)
            r = unlinkat(fd, entry->d_name, AT_REMOVEDIR);
    }
    if (dir)
        (void) closedir(dir);
    return r;
}

static int place_teardown(void **state)
{
    struct place *place = *state;
    int r = remove_below(open(place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));

    if (r == 0)
        r = rmdir(place->dir);
    (void) close(place->box.workspace);
    free(place);
    return r;
}

/* ---- making things ---- */

static void file_make(int dir_fd, const char *path, const char *content)
{
    autoclose int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
}

static int dir_make(int dir_fd, const char *name)
{
    int fd;

    assert_int_equal(mkdirat(dir_fd, name, 0755), 0);
    fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* Makes @levels directories of this @name, each in the one before; the caller closes the last. */
static int dirs_make(int dir_fd, const char *name, int levels)
{
    int at = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);

    for (int i = 0; i < levels; i++) {
        int next = dir_make(at, name);

        (void) close(at);
        at = next;
    }
    return at;
}

/* ---- reading a listing ---- */

static struct listing scan(const struct box_entry *box)
{
    struct listing listing = { 0 };
    struct gb_err err = { 0 };
    struct stat st;
    int fd = -EBADF;

    if (entry_scan(box, &fd, &listing.count, &listing.incomplete, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    listing.len = (size_t) st.st_size;
    listing.data = malloc(listing.len + 1);
    assert_non_null(listing.data);
    assert_int_equal(pread(fd, listing.data, listing.len, 0), listing.len);
    assert_int_equal(close(fd), 0);
    return listing;
}

/* Whether @path is listed, and how often; checks that the records are as many as were counted. */
static unsigned listing_find(const struct listing *listing, const char *path,
                             struct scan_record *ret_record)
{
    size_t at = 0, want = strlen(path);
    unsigned found = 0, records = 0;

    while (at < listing->len) {
        struct scan_record record;

        assert_true(listing->len - at >= sizeof record);
        memcpy(&record, listing->data + at, sizeof record);
        at += sizeof record;
        assert_true(record.path_len > 0 && listing->len - at >= record.path_len);
        if (record.path_len == want && memcmp(listing->data + at, path, want) == 0) {
            found++;
            *ret_record = record;
        }
        at += record.path_len;
        records++;
    }
    assert_int_equal(records, listing->count);
    return found;
}

static void assert_listed(const struct listing *listing, const char *path, int64_t size)
{
    struct scan_record record = { 0 };

    if (listing_find(listing, path, &record) != 1)
        fail_msg("'%s' is not there", path);
    assert_int_equal(record.size, size);
}

/* ---- tests ---- */

static void test_empty(void **state)
{
    struct place *place = *state;
    struct listing listing = scan(&place->box);

    assert_int_equal(listing.count, 0);
    assert_int_equal(listing.len, 0);
    assert_false(listing.incomplete);
    free(listing.data);
}

static void test_files_and_directories(void **state)
{
    struct place *place = *state;
    autoclose int sub = dirs_make(place->box.workspace, "sub", 2);
    struct scan_record record = { 0 };
    struct listing listing;
    struct stat st;

    (void) close(dir_make(place->box.workspace, "empty"));
    file_make(place->box.workspace, "a", "");
    file_make(place->box.workspace, ".hidden", "123");
    file_make(place->box.workspace, "...", "1");
    file_make(sub, "deep.txt", "12345");
    listing = scan(&place->box);
    assert_int_equal(listing.count, 4);
    assert_false(listing.incomplete);
    assert_listed(&listing, "a", 0);
    assert_listed(&listing, ".hidden", 3);
    assert_listed(&listing, "...", 1);
    assert_listed(&listing, "sub/sub/deep.txt", 5);

    assert_int_equal(fstatat(sub, "deep.txt", &st, 0), 0);
    assert_int_equal(listing_find(&listing, "sub/sub/deep.txt", &record), 1);
    assert_int_equal(record.inode, st.st_ino);
    assert_int_equal(record.mode, st.st_mode & 0777);
    assert_int_equal(record.mtime_ns, st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec);
    free(listing.data);
}

static void socket_make(int dir_fd, const char *name)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/%s", dir_fd, name);
    assert_int_equal(bind(fd, (struct sockaddr *) &addr, sizeof addr), 0);
}

/* Neither followed nor opened: a FIFO would hold us for ever. */
static void test_links_and_the_like(void **state)
{
    struct place *place = *state;
    int ws = place->box.workspace;
    struct listing listing;

    (void) close(dir_make(ws, "dir"));
    file_make(ws, "dir/real", "1234");
    assert_int_equal(symlinkat("dir/real", ws, "to_file"), 0);
    assert_int_equal(symlinkat("dir", ws, "to_dir"), 0);
    assert_int_equal(symlinkat("/", ws, "to_root"), 0);
    assert_int_equal(symlinkat("..", ws, "to_parent"), 0);
    assert_int_equal(symlinkat("loop", ws, "loop"), 0);
    assert_int_equal(symlinkat("gone", ws, "dangling"), 0);
    assert_int_equal(mkfifoat(ws, "fifo", 0666), 0);
    socket_make(ws, "socket");
    assert_int_equal(linkat(ws, "dir/real", ws, "hard", 0), 0);

    listing = scan(&place->box);
    assert_int_equal(listing.count, 2);
    assert_false(listing.incomplete);
    assert_listed(&listing, "dir/real", 4);
    assert_listed(&listing, "hard", 4);
    free(listing.data);
}

/* Any byte but NUL and the slash may be in a name. */
static void test_names(void **state)
{
    static const char *const names[] = {
        "\xff\xfe", "\xc3", "\xed\xa0\x80", " ", "\n", "\\", "\x1b]0;title\x07", "-rf", "*", "\x7f",
    };
    struct place *place = *state;
    struct listing listing;
    char all[256], longest[256];

    memset(longest, 'n', 255);
    longest[255] = '\0';
    file_make(place->box.workspace, longest, "1");
    for (int i = 1; i < 256; i++)
        all[i - 1] = i == '/' ? '_' : (char) i;
    all[255] = '\0';
    file_make(place->box.workspace, all, "12");
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        file_make(place->box.workspace, names[i], "123");

    listing = scan(&place->box);
    assert_int_equal(listing.count, ARRAY_LEN(names) + 2);
    assert_false(listing.incomplete);
    assert_listed(&listing, longest, 1);
    assert_listed(&listing, all, 2);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_listed(&listing, names[i], 3);
    free(listing.data);
}

static void path_repeat(char *buf, size_t size, const char *name, int levels, const char *last)
{
    size_t used = 0;

    for (int i = 0; i < levels; i++)
        used += (size_t) snprintf(buf + used, size - used, "%s/", name);
    snprintf(buf + used, size - used, "%s", last);
}

static void test_depth(void **state)
{
    struct place *place = *state;
    autoclose int deepest = dirs_make(place->box.workspace, "d", SCAN_DEPTH_MAX);
    struct scan_record record;
    struct listing listing;
    char path[256];

    file_make(deepest, "file", "123");
    listing = scan(&place->box);
    assert_int_equal(listing.count, 1);
    assert_false(listing.incomplete);
    path_repeat(path, sizeof path, "d", SCAN_DEPTH_MAX, "file");
    assert_listed(&listing, path, 3);
    free(listing.data);

    /* One deeper is left out, and said so; what is beside it is not. */
    (void) close(dir_make(deepest, "d"));
    file_make(deepest, "d/too_deep", "1");
    file_make(place->box.workspace, "top", "1");
    listing = scan(&place->box);
    assert_int_equal(listing.count, 2);
    assert_true(listing.incomplete);
    assert_listed(&listing, path, 3);
    assert_listed(&listing, "top", 1);
    path_repeat(path, sizeof path, "d", SCAN_DEPTH_MAX + 1, "too_deep");
    assert_int_equal(listing_find(&listing, path, &record), 0);
    free(listing.data);
}

/* The longest path of a reply is WIRE_PATH_MAX with its end. */
static void test_long_paths(void **state)
{
    enum { LEVELS = 15 }; /* of 256 bytes with their slashes: 3840, so 255 more will fit */
    struct place *place = *state;
    struct listing listing;
    char name[256], path[2 * WIRE_PATH_MAX];
    autoclose int deepest = -EBADF;

    memset(name, 'x', 255);
    name[255] = '\0';
    deepest = dirs_make(place->box.workspace, name, LEVELS);
    file_make(deepest, name, "123");
    listing = scan(&place->box);
    assert_int_equal(listing.count, 1);
    assert_false(listing.incomplete);
    path_repeat(path, sizeof path, name, LEVELS, name);
    assert_int_equal(strlen(path), WIRE_PATH_MAX - 1);
    assert_listed(&listing, path, 3);
    free(listing.data);

    /* The same as a directory: what is in it has no room. */
    assert_int_equal(unlinkat(deepest, name, 0), 0);
    (void) close(dirs_make(deepest, name, 2));
    file_make(place->box.workspace, "top", "1");
    listing = scan(&place->box);
    assert_int_equal(listing.count, 1);
    assert_true(listing.incomplete);
    assert_listed(&listing, "top", 1);
    free(listing.data);
}

/* Entries of every kind count; links to one file are the cheapest to make. */
static void test_entries(void **state)
{
    struct place *place = *state;
    autoclose int sub = dir_make(place->box.workspace, "sub");
    struct listing listing;
    char name[32];

    file_make(sub, "0", "");
    for (int i = 1; i < SCAN_ENTRIES_MAX - 1; i++) { /* "sub" is one too */
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(linkat(sub, "0", sub, name, 0), 0);
    }
    listing = scan(&place->box);
    assert_int_equal(listing.count, SCAN_ENTRIES_MAX - 1);
    assert_false(listing.incomplete);
    free(listing.data);

    /* One more, and it is not a file. */
    assert_int_equal(symlinkat("0", sub, "link"), 0);
    listing = scan(&place->box);
    assert_true(listing.count >= SCAN_ENTRIES_MAX - 2);
    assert_true(listing.count <= SCAN_ENTRIES_MAX - 1);
    assert_true(listing.incomplete);
    free(listing.data);

    /* Beside the full directory: wherever the walk meets it, it stays within its bound. */
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "beside%d", i);
        file_make(place->box.workspace, name, "");
    }
    listing = scan(&place->box);
    assert_true(listing.count <= SCAN_ENTRIES_MAX - 1);
    assert_true(listing.incomplete);
    free(listing.data);
}

/* The scan as a user who owns nothing here; shared memory brings its answer back. */
static void scan_as_nobody(const struct box_entry *box, int *ret_result, uint32_t *ret_count)
{
    struct {
        int result;
        uint32_t count;
    } *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    pid_t pid;

    assert_ptr_not_equal(seen, MAP_FAILED);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool incomplete;
        int fd;

        if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
            _exit(1);
        seen->result = entry_scan(box, &fd, &seen->count, &incomplete, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    *ret_result = seen->result;
    *ret_count = seen->count;
    assert_int_equal(munmap(seen, sizeof *seen), 0);
}

/* What may not be entered is passed over; it does not spoil the rest. */
static void test_directories_without_permission(void **state)
{
    struct place *place = *state;
    int ws = place->box.workspace, result = -1;
    uint32_t count = 77;
    struct listing listing;

    assert_int_equal(chmod(place->dir, 0755), 0);
    (void) close(dir_make(ws, "closed"));
    (void) close(dir_make(ws, "open"));
    file_make(ws, "closed/inside", "1");
    file_make(ws, "open/inside", "1");
    file_make(ws, "top", "1");
    assert_int_equal(fchmodat(ws, "closed", 0, 0), 0);

    scan_as_nobody(&place->box, &result, &count);
    /* The builder's eyes see all of it. */
    listing = geteuid() == 0 ? scan(&place->box) : (struct listing){ .count = 3 };
    assert_int_equal(fchmodat(ws, "closed", 0700, 0), 0);
    assert_int_equal(result, 0);
    assert_int_equal(count, 2);
    assert_int_equal(listing.count, 3);
    free(listing.data);
}

static size_t count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void test_descriptors(void **state)
{
    struct place *place = *state;
    struct box_entry nowhere = { .workspace = -EBADF };
    struct gb_err err = { 0 };
    uint32_t count = 77;
    bool incomplete = true;
    int fd = 77;
    size_t before;

    (void) close(dirs_make(place->box.workspace, "d", SCAN_DEPTH_MAX + 3));
    before = count_descriptors();
    free(scan(&place->box).data);
    assert_int_equal(count_descriptors(), before);

    /* A failure writes no outputs. */
    assert_int_equal(entry_scan(&nowhere, &fd, &count, &incomplete, &err), -EBADF);
    assert_int_equal(err.code, EBADF);
    assert_int_equal(fd, 77);
    assert_int_equal(count, 77);
    assert_true(incomplete);
    assert_int_equal(count_descriptors(), before);
}

#define PLACE_TEST(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_empty),
        PLACE_TEST(test_files_and_directories),
        PLACE_TEST(test_links_and_the_like),
        PLACE_TEST(test_names),
        PLACE_TEST(test_depth),
        PLACE_TEST(test_long_paths),
        PLACE_TEST(test_entries),
        PLACE_TEST(test_directories_without_permission),
        PLACE_TEST(test_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
