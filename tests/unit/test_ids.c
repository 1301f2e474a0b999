/*
 * Host ids for boxes. Taking and giving back is tried on pools made by hand; finding them, in
 * children that live in user namespaces of known maps and in network namespaces of their own, so
 * that no engine on this machine holds or misses a block.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/box/ids.h"

#include "base/banned.h"

#define BLOCK 4096u /* as engine/builder/ids.c has it */

/* ---- pools made by hand ---- */

static struct id_pool pool_of(uint32_t first, uint32_t count)
{
    struct id_pool pool = { .mode = ID_RANGE, .first = first, .count = count, .lock_fd = -EBADF };

    pool.used = calloc((count + 63) / 64, sizeof *pool.used);
    assert_non_null(pool.used);
    return pool;
}

static void assert_next(struct id_pool *pool, uint32_t id)
{
    uint32_t got = 77;

    assert_int_equal(id_take(pool, &got), 0);
    assert_int_equal(got, id);
}

static void assert_none_left(struct id_pool *pool)
{
    uint32_t got = 77;

    assert_int_equal(id_take(pool, &got), -EAGAIN);
    assert_int_equal(got, 77);
}

static void test_take_all(void **state)
{
    static const uint32_t counts[] = { 1, 2, 63, 64, 65, 128, 130, BLOCK };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        struct id_pool pool = pool_of(1000, counts[i]);

        for (uint32_t j = 0; j < counts[i]; j++)
            assert_next(&pool, 1000 + j);
        assert_none_left(&pool);
        /* Back in any order, they come again in theirs. */
        for (uint32_t j = counts[i]; j > 0; j--)
            id_give_back(&pool, 1000 + j - 1);
        for (uint32_t j = 0; j < counts[i]; j++)
            assert_next(&pool, 1000 + j);
        assert_none_left(&pool);
        id_pool_release(&pool);
        assert_null(pool.used);
    }
}

/* An id rests as long as possible before its next box. */
static void test_order(void **state)
{
    struct id_pool pool = pool_of(500, 5);

    (void) state;
    assert_next(&pool, 500);
    assert_next(&pool, 501);
    id_give_back(&pool, 500);
    id_give_back(&pool, 501);
    assert_next(&pool, 502);
    id_give_back(&pool, 502);
    assert_next(&pool, 503);
    assert_next(&pool, 504);
    assert_next(&pool, 500);
    id_give_back(&pool, 503);
    assert_next(&pool, 501);
    assert_next(&pool, 502);
    assert_next(&pool, 503);
    assert_none_left(&pool);
    id_give_back(&pool, 502);
    assert_next(&pool, 502);
    assert_none_left(&pool);
    id_pool_release(&pool);
}

static void test_give_back_what_was_not_taken(void **state)
{
    static const uint32_t strangers[] = { 0, 499, 502, 563, 564, UINT32_MAX };
    struct id_pool pool = pool_of(500, 2);

    (void) state;
    assert_next(&pool, 500);
    assert_next(&pool, 501);
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++)
        id_give_back(&pool, strangers[i]);
    assert_none_left(&pool);
    id_give_back(&pool, 501);
    id_give_back(&pool, 501);
    assert_next(&pool, 501);
    assert_none_left(&pool);
    id_pool_release(&pool);
}

/* Ids at the upper end of what a number holds. */
static void test_last_ids(void **state)
{
    struct id_pool pool = pool_of(UINT32_MAX - 2, 2);

    (void) state;
    assert_next(&pool, UINT32_MAX - 2);
    assert_next(&pool, UINT32_MAX - 1);
    assert_none_left(&pool);
    id_give_back(&pool, UINT32_MAX);
    assert_none_left(&pool);
    id_pool_release(&pool);
}

static void test_single(void **state)
{
    struct id_pool pool = { .mode = ID_SINGLE, .lock_fd = -EBADF };

    (void) state;
    for (int i = 0; i < 3; i++)
        assert_next(&pool, 0);
    id_give_back(&pool, 0);
    assert_next(&pool, 0);
    id_pool_release(&pool);
    id_pool_release(&pool);
}

/* ---- children in namespaces ---- */

/* What a child tells us: the line of the check that failed, and what it saw. */
struct seen {
    int line, result;
    enum id_mode mode;
    uint32_t first, count;
    char msg[200];
};

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            seen->line = __LINE__;                                                                 \
            return;                                                                                \
        }                                                                                          \
    } while (0)

typedef void child_body(struct seen *seen);

/* What no setting of the machine gives to an ordinary user is skipped in any case. */
static _Noreturn void skip_because(const char *reason, int error)
{
    if (getenv("GB_MUST_WORK") && geteuid() == 0)
        fail_msg("%s: %s", reason, strerror(error));
    print_message("# skipped: %s: %s\n", reason, strerror(error));
    skip();
    abort(); /* skip() does not return, but cmocka does not say so */
}

static int map_write(pid_t pid, const char *name, const char *text)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int) pid, name);
    return io_write_text_at(AT_FDCWD, path, text);
}

/* Both sides of a child that leaves its namespaces: it says that it has (or why not), we write its
 * maps, then it goes on. */
static _Noreturn void child_run(int sock_in, int sock_out, child_body *body, struct seen *seen)
{
    int error = unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 ? errno : 0;
    char go;

    if (io_write_all(sock_out, &error, sizeof error) < 0 || error)
        _exit(1);
    if (read(sock_in, &go, 1) != 1)
        _exit(1);
    body(seen);
    _exit(0);
}

static int child_maps(pid_t pid, const char *uid_map, const char *gid_map)
{
    int r;

    /* Without privileges the one needs the other. */
    if (geteuid() != 0)
        (void) map_write(pid, "setgroups", "deny");
    r = map_write(pid, "gid_map", gid_map);
    return r < 0 ? r : map_write(pid, "uid_map", uid_map);
}

/* Runs @body under these maps and copies what it saw; skips the test where that cannot be had. */
static void in_namespaces(const char *uid_map, const char *gid_map, child_body *body,
                          struct seen *ret_seen)
{
    struct seen *seen =
        mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ready[2], go[2], error = EIO, mapped = 0, status;
    pid_t pid;

    assert_ptr_not_equal(seen, MAP_FAILED);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void) close(go[1]); /* else its own copy would keep it waiting if we died */
        child_run(go[0], ready[1], body, seen);
    }
    (void) close(ready[1]);
    (void) !read(ready[0], &error, sizeof error);
    if (error == 0)
        mapped = child_maps(pid, uid_map, gid_map);
    if (error == 0 && mapped == 0)
        (void) !write(go[1], "g", 1);
    (void) close(ready[0]);
    (void) close(go[0]);
    (void) close(go[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    *ret_seen = *seen;
    (void) munmap(seen, sizeof *seen);
    if (error)
        skip_because("no user namespaces", error);
    if (mapped < 0)
        skip_because("no right to map these ids", -mapped);
    assert_int_equal(status, 0);
    if (ret_seen->line)
        fail_msg("line %d in the child; %s", ret_seen->line, ret_seen->msg);
}

static void body_open(struct seen *seen)
{
    struct gb_err err = { 0 };
    struct id_pool pool;

    seen->result = id_pool_open(&pool, &err);
    memcpy(seen->msg, err.msg, sizeof seen->msg);
    CHECK(seen->result == 0);
    seen->mode = pool.mode;
    seen->first = pool.first;
    seen->count = pool.count;
    CHECK((pool.lock_fd >= 0) == (pool.mode != ID_SINGLE));
    CHECK(pool.lock_fd < 0 || (fcntl(pool.lock_fd, F_GETFD) & FD_CLOEXEC));
    id_pool_release(&pool);
    CHECK(pool.lock_fd == -EBADF);
}

/* As rootless without newuidmap: the user's own id, and no other. */
static void test_one_id_mapped(void **state)
{
    struct seen seen;
    char uid_map[32], gid_map[32];

    (void) state;
    snprintf(uid_map, sizeof uid_map, "0 %u 1", (unsigned) geteuid());
    snprintf(gid_map, sizeof gid_map, "0 %u 1", (unsigned) getegid());
    in_namespaces(uid_map, gid_map, body_open, &seen);
    assert_int_equal(seen.mode, ID_SINGLE);
    assert_int_equal(seen.count, 0);
}

static const struct map_case {
    const char *name, *uid_map, *gid_map;
    enum id_mode mode;
    uint32_t start, total, count; /* the ids there are, and how many a pool takes */
} map_cases[] = {
    { "a container", "0 100000 65536", "0 100000 65536", ID_RANGE, 1, 65535, 1023 },
    { "newuidmap", "0 1000 1\n1 100000 65536\n", "0 1000 1\n1 100000 65536\n", ID_RANGE, 1, 65536,
      1024 },
    { "many engines", "0 100000 4097", "0 100000 4097", ID_RANGE, 1, 4096, 256 },
    { "a block, exactly", "0 100000 257", "0 100000 257", ID_RANGE, 1, 256, 256 },
    { "large blocks", "0 100000 524289", "0 100000 524289", ID_RANGE, 1, 524288, BLOCK },
    { "less than a block", "0 100000 11", "0 100000 11", ID_RANGE, 1, 10, 10 },
    { "just two", "0 100000 2", "0 100000 2", ID_RANGE, 1, 1, 1 },
    { "just one", "0 100000 1", "0 100000 1", ID_SINGLE, 0, 0, 0 },
    { "the largest of several", "0 1000 1\n1 200000 10\n100 300000 50\n500 400000 20\n",
      "0 1000 1\n100 300000 50\n", ID_RANGE, 100, 50, 50 },
    { "fewer groups than users", "0 100000 101", "0 100000 11", ID_RANGE, 1, 10, 10 },
    { "fewer users than groups", "0 100000 11", "0 100000 101", ID_RANGE, 1, 10, 10 },
    { "users and groups apart", "0 1000 1\n1 100000 50\n", "0 1000 1\n500 100000 50\n", ID_SINGLE,
      0, 0, 0 },
    { "one group only", "0 100000 65536", "0 100000 1", ID_SINGLE, 0, 0, 0 },
    { "one user only", "0 100000 1", "0 100000 65536", ID_SINGLE, 0, 0, 0 },
    { "all there are", "0 0 4294967295", "0 0 4294967295", ID_ROOT, 1900000000, 524288, BLOCK },
    { "all users, one group", "0 0 4294967295", "0 0 1", ID_SINGLE, 0, 0, 0 },
    { "all users, some groups", "0 0 4294967295", "0 0 101", ID_RANGE, 1, 100, 100 },
};

static void test_maps(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(map_cases); i++) {
        const struct map_case *c = &map_cases[i];
        struct seen seen;

        in_namespaces(c->uid_map, c->gid_map, body_open, &seen);
        if (seen.mode != c->mode || seen.count != c->count)
            fail_msg("%s: mode %d, %u ids from %u", c->name, seen.mode, seen.count, seen.first);
        if (c->count == 0)
            continue;
        /* Some block of them, on its own bounds and whole. */
        if (seen.first < c->start || (seen.first - c->start) % c->count != 0 ||
            seen.first - c->start + seen.count > c->total)
            fail_msg("%s: %u ids from %u", c->name, seen.count, seen.first);
    }
}

static bool disjoint(const struct id_pool *a, const struct id_pool *b)
{
    return a->first + a->count <= b->first || b->first + b->count <= a->first;
}

/* As many engines as there are blocks, and one more. */
static void body_all_blocks(struct seen *seen)
{
    enum { POOLS = 4 };
    struct id_pool pools[POOLS], more;
    struct gb_err err = { 0 };
    uint32_t first;

    for (int i = 0; i < POOLS; i++) {
        CHECK(id_pool_open(&pools[i], &err) == 0);
        for (int j = 0; j < i; j++)
            CHECK(disjoint(&pools[i], &pools[j]));
    }
    CHECK(id_pool_open(&more, &err) == -EAGAIN);
    CHECK(err.code == EAGAIN && strstr(err.msg, "too many engines"));
    id_pool_release(&more); /* accepts what was not opened */
    first = pools[2].first;
    id_pool_release(&pools[2]);
    CHECK(id_pool_open(&more, &err) == 0);
    CHECK(more.first == first);
}

static void test_pools_do_not_share(void **state)
{
    struct seen seen;

    (void) state;
    in_namespaces("0 100000 1025", "0 100000 1025", body_all_blocks, &seen);
}

/* A block is free again when its owner is dead, whatever it died of. */
static void body_owner_dies(struct seen *seen)
{
    struct gb_err err = { 0 };
    struct id_pool pool;
    int ready[2], status;
    pid_t pid;
    char byte;

    CHECK(pipe2(ready, O_CLOEXEC) == 0);
    pid = fork();
    if (pid == 0) {
        if (id_pool_open(&pool, &err) == 0)
            (void) !write(ready[1], "r", 1);
        (void) pause();
        _exit(0);
    }
    CHECK(pid > 0);
    (void) close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    CHECK(id_pool_open(&pool, &err) == -EAGAIN);
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
    CHECK(id_pool_open(&pool, &err) == 0);
    CHECK(pool.first == 1 && pool.count == 10);
}

static void test_owner_dies(void **state)
{
    struct seen seen;

    (void) state;
    in_namespaces("0 100000 11", "0 100000 11", body_owner_dies, &seen);
}

/* Whatever namespace the tests are in: the real thing, beside whoever else is there. */
static void test_here(void **state)
{
    struct id_pool a, b;
    struct gb_err err = { 0 };
    uint32_t id;

    (void) state;
    assert_int_equal(id_pool_open(&a, &err), 0);
    if (a.mode == ID_SINGLE) {
        id_pool_release(&a);
        skip_because("one id only", EPERM);
    }
    assert_int_equal(id_pool_open(&b, &err), 0);
    assert_int_equal(a.mode, b.mode);
    assert_true(disjoint(&a, &b));
    if (a.mode == ID_ROOT)
        assert_true(a.first >= 1000000000 && a.count == BLOCK); /* far above those of people */
    for (uint32_t i = 0; i < a.count; i++) {
        assert_int_equal(id_take(&a, &id), 0);
        assert_true(id >= a.first && id - a.first < a.count && id != 0);
    }
    assert_int_equal(id_take(&a, &id), -EAGAIN);
    id_pool_release(&a);
    id_pool_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_all),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_give_back_what_was_not_taken),
        cmocka_unit_test(test_last_ids),
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_one_id_mapped),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_pools_do_not_share),
        cmocka_unit_test(test_owner_dies),
        cmocka_unit_test(test_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
