/*
 * One conformance suite for every cgroup backend that can be had here: `none` always, v1 and v2
 * where the host has them, and each of these once more as an ordinary user in groups that root
 * delegated to it. Exits with 77 when there was nothing but `none`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "cgroup_harness.h"
#include "engine/cgroup/cgroup.h"
#include "engine/cgroup/internal.h"
#include "engine/limits.h"

#include "base/banned.h"

#define USER_ID 65534

static bool delegated; /* we are an ordinary user in a group of our own */

/* ---- parsers ---- */

static void test_mount_parse(void **state)
{
    static const struct {
        const char *line;
        bool v2;
        const char *root, *point, *options;
    } good[] = {
        { "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n", false, "/",
          "/sys/fs/cgroup/memory", "rw,memory" },
        { "41 31 0:38 / /sys/fs/cgroup rw shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate", true,
          "/", "/sys/fs/cgroup", "rw,nsdelegate" },
        { "1 2 0:3 /docker/a\\040b /mnt/c\\134d rw - cgroup none rw,cpu,cpuacct", false,
          "/docker/a b", "/mnt/c\\d", "rw,cpu,cpuacct" },
    };
    static const char *const bad[] = {
        "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755",
        "1 2 0:3 / /mnt rw - cgroup none",
        "1 2 0:3 / /mnt rw shared:1 cgroup none rw",
        "1 2 0:3 / /mnt rw -",
        "1 2 0:3 /",
        "",
    };
    struct cgroup_mount m;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        autofree char *line = strdup(good[i].line);

        assert_true(cgroup_mount_parse(line, &m));
        assert_int_equal(m.v2, good[i].v2);
        assert_string_equal(m.root, good[i].root);
        assert_string_equal(m.point, good[i].point);
        assert_string_equal(m.options, good[i].options);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        autofree char *line = strdup(bad[i]);

        assert_false(cgroup_mount_parse(line, &m));
    }
}

/* Equal, or both NULL. */
static void assert_same(const char *got, const char *want)
{
    assert_string_equal(got ? got : "(null)", want ? want : "(null)");
}

static void test_self_parse(void **state)
{
    static const struct {
        const char *line, *controller, *path;
    } cases[] = {
        { "4:memory:/a/b\n", "memory", "/a/b" },
        { "4:memory:/a/b\n", "mem", NULL },
        { "4:memory:/a/b\n", NULL, NULL },
        { "2:cpu,cpuacct:/", "cpuacct", "/" },
        { "2:cpu,cpuacct:/", "cpu", "/" },
        { "2:cpuacct:/", "cpu", NULL },
        { "0::/user.slice/x:y", NULL, "/user.slice/x:y" },
        { "0::/user.slice", "memory", NULL },
        { "9:name=systemd:/", "systemd", NULL },
        { "1:memory:relative", "memory", NULL },
        { "1:memory", "memory", NULL },
        { "", NULL, NULL },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autofree char *line = strdup(cases[i].line);

        assert_same(cgroup_self_parse(line, cases[i].controller), cases[i].path);
    }
}

static void test_path_below(void **state)
{
    (void) state;
    assert_same(cgroup_path_below("/", "/"), "");
    assert_same(cgroup_path_below("/", "/a/b"), "a/b");
    assert_same(cgroup_path_below("/a", "/a"), "");
    assert_same(cgroup_path_below("/a", "/a/b"), "b");
    assert_same(cgroup_path_below("/a", "/ab"), NULL);
    assert_same(cgroup_path_below("/a", "/"), NULL);
    assert_same(cgroup_path_below("/", "/../x"), NULL);
    assert_same(cgroup_path_below("/..", "/"), NULL);
}

static void test_names(void **state)
{
    (void) state;
    assert_true(cgroup_engine_name_ok("glovebox.0123456789abcdef"));
    assert_false(cgroup_engine_name_ok("glovebox.0123456789abcdeF"));
    assert_false(cgroup_engine_name_ok("glovebox.0123456789abcde"));
    assert_false(cgroup_engine_name_ok("glovebox.0123456789abcdef/.."));
    assert_false(cgroup_engine_name_ok("glovebox.self.0123456789abcdef"));
    assert_true(cgroup_leaf_name_ok("glovebox.self.0123456789abcdef"));
    assert_false(cgroup_leaf_name_ok("glovebox.0123456789abcdef"));
    assert_int_equal(cgroup_list_controllers("rw,cpu,cpuacct", ','), CG_CPU | CG_CPUACCT);
    assert_int_equal(cgroup_list_controllers("cpuset io memory pids", ' '), CG_MEMORY | CG_PIDS);
}

/* ---- every backend ---- */

static void test_root(void **state)
{
    struct cgroup_root *first = root_of(mode), *second = root_of(mode);
    int fds[CGROUP_FDS_MAX], count;

    (void) state;
    assert_true(cgroup_engine_name_ok(cgroup_root_name(first)));
    assert_string_not_equal(cgroup_root_name(first), cgroup_root_name(second));
    count = cgroup_root_lock_fds(first, fds);
    assert_int_equal(count, first->n_hiers);
    for (int i = 0; i < count; i++) {
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        assert_int_equal(faccessat(first->hiers[i].parent_fd, cgroup_root_name(first), F_OK, 0), 0);
    }
    cgroup_root_close(first);
    if (mode != CGROUP_OFF)
        assert_true(engine_exists(second, cgroup_root_name(second)));
    cgroup_root_close(second);
    cgroup_root_close(NULL);
}

static void test_bad_names(void **state)
{
    static const char *const names[] = {
        "",
        ".",
        "..",
        "a/b",
        "../a",
        "cgroup.procs",
        "012345678901234567890123456789012345678901234567",
    };
    struct fixture *f = *state;
    struct cgroup_root *again = NULL;
    struct gb_err err = { 0 };
    struct cgroup cg;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_int_equal(cgroup_make(f->root, names[i], &f->l, &cg, &err), -EINVAL);
        assert_int_equal(cgroup_adopt(f->root, names[i], &cg, &err), -EINVAL);
    }
    assert_int_equal(cgroup_root_reopen(mode, "../glovebox", &again, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "../glovebox"));
    assert_null(again);
}

static void test_make_twice(void **state)
{
    struct fixture *f = *state;
    struct cgroup other;

    assert_int_equal(cgroup_make(f->root, "box", &f->l, &other, NULL), -EEXIST);
    assert_int_equal(group_exists(f->root, "box"), mode != CGROUP_OFF);
    assert_int_equal(cgroup_remove(f->root, &f->cg, PATIENCE), 0);
    assert_false(group_exists(f->root, "box"));
    assert_int_equal(cgroup_make(f->root, "box", &f->l, &f->cg, NULL), 0);
}

static void test_remove_waits(void **state)
{
    struct fixture *f = *state;
    int32_t said;
    pid_t pid = start(f->root, &f->cg, (struct body){ .run = body_touch }, &said);

    assert_int_equal(said, 1);
    assert_int_equal(cgroup_remove(f->root, &f->cg, 0), mode == CGROUP_OFF ? 0 : -EBUSY);
    for (int i = 0; i < CGROUP_FDS_MAX; i++)
        assert_true(f->cg.dir_fds[i] < 0);
    end(pid);
    assert_int_equal(cgroup_remove(f->root, &f->cg, PATIENCE), 0);
    assert_false(group_exists(f->root, "box"));
    f->removed = true;
}

static int count_fds(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Descriptors opened by everything that a root and a group do are closed again. */
static void test_no_leaks(void **state)
{
    int before = count_fds();
    struct cgroup_root *root = root_of(mode);
    struct limits l = small_limits();
    int fds[CGROUP_FDS_MAX], count;
    struct cgroup cg, twin;

    (void) state;
    assert_int_equal(cgroup_make(root, "box", &l, &cg, NULL), 0);
    count = cgroup_open_procs(root, &cg, fds, NULL);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    assert_int_equal(cgroup_make(root, "box", &l, &twin, NULL), -EEXIST);
    assert_int_equal(cgroup_adopt(root, "nothing", &twin, NULL), mode == CGROUP_OFF ? 0 : -ENOENT);
    assert_int_equal(cgroup_remove(root, &cg, PATIENCE), 0);
    cgroup_root_close(root);
    assert_int_equal(count_fds(), before);
}

/* ---- none ---- */

static void test_none(void **state)
{
    const struct cgroup_usage unknown = { -1, -1, -1, -1, -1, -1, -1, -1 };
    struct fixture *f = *state;
    struct cgroup_root *again = NULL;
    int fds[CGROUP_FDS_MAX];
    struct cgroup_usage u = { 0 };
    struct cgroup same;

    assert_string_equal(cgroup_root_note(f->root), "");
    assert_int_equal(cgroup_clone_fd(f->root, &f->cg), -EBADF);
    assert_int_equal(cgroup_open_procs(f->root, &f->cg, fds, NULL), 0);
    assert_int_equal(cgroup_usage(f->root, &f->cg, &u), 0);
    assert_memory_equal(&u, &unknown, sizeof u);
    assert_int_equal(cgroup_root_reopen(CGROUP_OFF, cgroup_root_name(f->root), &again, NULL), 0);
    assert_int_equal(cgroup_adopt(again, "box", &same, NULL), 0);
    assert_int_equal(cgroup_remove(again, &same, 0), 0);
    cgroup_root_close(again);
}

/* ---- v1 and v2 ---- */

static void assert_limits(const struct cgroup_root *root, const struct cgroup *cg,
                          const struct limits *l)
{
    int memory = cgroup_dir_of(root, cg, CG_MEMORY), pids = cgroup_dir_of(root, cg, CG_PIDS);
    int cpu = cgroup_dir_of(root, cg, CG_CPU);
    char text[64], want[64];

    assert_int_equal(
        cgroup_read_int(memory, mode == CGROUP_V2 ? "memory.max" : "memory.limit_in_bytes"),
        l->memory_bytes);
    if (mode == CGROUP_V1 && faccessat(memory, "memory.memsw.limit_in_bytes", F_OK, 0) == 0)
        assert_int_equal(cgroup_read_int(memory, "memory.memsw.limit_in_bytes"), l->memory_bytes);
    if (mode == CGROUP_V2 && faccessat(memory, "memory.swap.max", F_OK, 0) == 0)
        assert_int_equal(cgroup_read_int(memory, "memory.swap.max"), 0);
    if (pids >= 0)
        assert_int_equal(cgroup_read_int(pids, "pids.max"), l->pids + CGROUP_OWN_PIDS);
    if (cpu >= 0 && mode == CGROUP_V1) {
        assert_int_equal(cgroup_read_int(cpu, "cpu.cfs_period_us"), 100000);
        assert_int_equal(cgroup_read_int(cpu, "cpu.cfs_quota_us"), l->cpu_milli * 100);
    } else if (cpu >= 0) {
        snprintf(want, sizeof want, "%lld 100000", (long long) l->cpu_milli * 100);
        assert_true(io_read_text_at(cpu, "cpu.max", text, sizeof text) > 0);
        assert_string_equal(text, want);
    }
}

static void test_limits_set(void **state)
{
    static const int64_t sizes[] = { 512 * MIB, 16 * MIB, 128 * MIB, 32 * MIB };
    struct fixture *f = *state;

    assert_limits(f->root, &f->cg, &f->l);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        f->l.memory_bytes = sizes[i];
        f->l.pids = 3 + (int64_t) i;
        f->l.cpu_milli = 10 + (int64_t) i * 700;
        assert_int_equal(cgroup_remove(f->root, &f->cg, 0), 0);
        assert_int_equal(cgroup_make(f->root, "box", &f->l, &f->cg, NULL), 0);
        assert_limits(f->root, &f->cg, &f->l);
    }
}

static void test_usage(void **state)
{
    struct fixture *f = *state;
    struct cgroup_usage u = { 0 };
    int32_t said;
    pid_t pid;

    assert_int_equal(cgroup_usage(f->root, &f->cg, &u), 0);
    assert_int_equal(u.oom_kills, 0);
    assert_int_equal(u.pids, 0);
    pid = start(f->root, &f->cg, (struct body){ .run = body_touch, .bytes = 8 * MIB }, &said);
    assert_int_equal(said, 1);
    assert_int_equal(cgroup_usage(f->root, &f->cg, &u), 0);
    assert_int_equal(u.pids, 1);
    assert_int_equal(u.pids_refused, 0);
    assert_in_range(u.memory_bytes, 7 * MIB, f->l.memory_bytes);
    assert_true(u.cpu_us > 0);
    end(pid);
    assert_int_equal(cgroup_usage(f->root, &f->cg, &u), 0);
    assert_in_range(u.memory_peak_bytes, 7 * MIB, f->l.memory_bytes);
    assert_int_equal(u.pids_peak, 1);
    /* Killed by us, not for memory. */
    assert_int_equal(u.oom_kills, 0);
    assert_int_equal(cgroup_remove(f->root, &f->cg, PATIENCE), 0);
    assert_true(cgroup_usage(f->root, &f->cg, &u) < 0);
    f->removed = true;
}

static void test_pids(void **state)
{
    struct fixture *f = *state;
    struct cgroup_usage u = { 0 };
    int32_t said;
    /* The first process stands for the box's PID 1, which does not count. The limit has room for
     * one more that does not either. */
    pid_t pid = start(f->root, &f->cg, (struct body){ .run = body_forks }, &said);

    assert_int_equal(said, f->l.pids + CGROUP_OWN_PIDS - 1);
    assert_int_equal(cgroup_usage(f->root, &f->cg, &u), 0);
    assert_int_equal(u.pids, f->l.pids + CGROUP_OWN_PIDS);
    assert_int_equal(u.pids_peak, f->l.pids + CGROUP_OWN_PIDS);
    assert_true(u.pids_refused > 0);
    end(pid);
}

static void test_oom(void **state)
{
    struct fixture *f = *state;
    struct cgroup_usage u = { 0 };
    int32_t said;

    assert_killed(
        start(f->root, &f->cg, (struct body){ .run = body_touch, .bytes = 64 * MIB }, &said));
    assert_int_equal(said, -1);
    assert_int_equal(cgroup_usage(f->root, &f->cg, &u), 0);
    assert_true(u.oom_kills > 0);
    assert_true(u.ooms >= u.oom_kills);
    assert_in_range(u.memory_peak_bytes, 15 * MIB, 16 * MIB);
}

/* ---- engines that die ---- */

static void test_sweep(void **state)
{
    struct engine dead = engine_start(false), live;
    struct cgroup_root *root;

    (void) state;
    end(dead.pid);
    assert_false(box_is_dead(&dead, 0));
    live = engine_start(false); /* sweeps the other */
    root = root_of(mode);
    assert_false(engine_exists(root, dead.name));
    assert_true(box_is_dead(&dead, (int) (PATIENCE / USEC_PER_MSEC)));
    assert_true(engine_exists(root, live.name));
    assert_false(box_is_dead(&live, 0));
    end(live.pid);
    assert_true(engine_exists(root, live.name));
    cgroup_root_close(root);
    root = root_of(mode);
    assert_false(engine_exists(root, live.name));
    assert_true(box_is_dead(&live, (int) (PATIENCE / USEC_PER_MSEC)));
    cgroup_root_close(root);
    close(dead.box_fd);
    close(live.box_fd);
}

/* The builder dies, the supervisor lives and holds the lock: nobody sweeps, a new builder goes on.
 */
static void test_reopen(void **state)
{
    struct engine e = engine_start(true);
    struct cgroup_root *other, *root = NULL;
    struct gb_err err = { 0 };
    struct limits l = small_limits();
    struct cgroup_usage u = { 0 };
    struct cgroup cg;

    (void) state;
    end(e.pid);
    other = root_of(mode);
    assert_true(engine_exists(other, e.name));
    if (cgroup_root_reopen(mode, e.name, &root, &err) < 0)
        fail_msg("reopen: %s", err.msg);
    assert_string_equal(cgroup_root_name(root), e.name);
    assert_int_equal(cgroup_root_mode(root), mode);
    assert_int_equal(root->n_hiers, other->n_hiers);
    assert_int_equal(kill(e.keeper, SIGKILL), 0);
    assert_int_equal(cgroup_adopt(root, "box", &cg, &err), 0);
    assert_limits(root, &cg, &l);
    assert_int_equal(cgroup_usage(root, &cg, &u), 0);
    assert_int_equal(u.pids, 1);
    assert_false(box_is_dead(&e, 0));
    assert_int_equal(syscall(SYS_pidfd_send_signal, e.box_fd, SIGKILL, NULL, 0), 0);
    assert_int_equal(cgroup_remove(root, &cg, PATIENCE), 0);
    cgroup_root_close(root);
    assert_false(engine_exists(other, e.name));
    assert_int_equal(cgroup_root_reopen(mode, e.name, &root, &err), -ENOENT);
    assert_true(strlen(err.msg) > 0);
    cgroup_root_close(other);
    close(e.box_fd);
}

/* ---- v2, in a group that is ours ---- */

static int64_t children_of_own(void)
{
    int64_t count = 0;
    int fd;
    unsigned unused;

    assert_int_equal(cgroup_place_open(NULL, PLACE_OWN, &fd, &unused), 0);
    count = cgroup_read_key(fd, "cgroup.stat", "nr_descendants");
    close(fd);
    return count;
}

static void test_v2_leaf(void **state)
{
    char before[4096], during[4096], after[4096];
    struct cgroup_root *root;
    struct gb_err err = { 0 };
    pid_t stranger;

    (void) state;
    assert_true(io_read_text_at(AT_FDCWD, "/proc/self/cgroup", before, sizeof before) > 0);
    root = root_of(CGROUP_V2);
    assert_true(io_read_text_at(AT_FDCWD, "/proc/self/cgroup", during, sizeof during) > 0);
    assert_non_null(strstr(during, CGROUP_LEAF_PREFIX));
    assert_int_equal(children_of_own(), 2);
    cgroup_root_close(root);
    assert_true(io_read_text_at(AT_FDCWD, "/proc/self/cgroup", after, sizeof after) > 0);
    assert_string_equal(after, before);
    assert_int_equal(children_of_own(), 0);

    stranger = fork();
    assert_true(stranger >= 0);
    if (stranger == 0) {
        pause();
        _exit(0);
    }
    assert_int_equal(cgroup_root_open(CGROUP_V2, &root, &err), -EBUSY);
    assert_non_null(strstr(err.msg, "other processes share our cgroup"));
    end(stranger);
    assert_int_equal(children_of_own(), 0);
}

static bool in_a_leaf(void)
{
    char text[4096];

    assert_true(io_read_text_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) > 0);
    return strstr(text, CGROUP_LEAF_PREFIX) != NULL;
}

/* What the child of a rootless supervisor does on its behalf; we are the supervisor. */
static void test_v2_step_aside(void **state)
{
    int to[2], from[2];
    pid_t child;
    char word;

    (void) state;
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = cgroup_step_aside();

        close(to[1]);
        (void) !write(from[1], fd >= 0 ? "y" : "n", 1);
        (void) !read(to[0], &word, 1);
        if (fd >= 0)
            cgroup_step_back(fd);
        _exit(0);
    }
    close(to[0]);
    assert_int_equal(read(from[0], &word, 1), 1);
    assert_int_equal(word, 'y');
    assert_true(in_a_leaf());
    assert_int_equal(children_of_own(), 1);
    close(to[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_false(in_a_leaf());
    assert_int_equal(children_of_own(), 0);
    close(from[0]);
    close(from[1]);
}

/* ---- choice ---- */

static void test_auto(void **state)
{
    static const enum cgroup_mode order[] = { CGROUP_V2, CGROUP_V1, CGROUP_OFF };
    enum cgroup_mode best = CGROUP_OFF;
    struct cgroup_root *root = NULL;
    struct gb_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(order) && best == CGROUP_OFF; i++) {
        if (cgroup_root_open(order[i], &root, &err) == 0) {
            best = order[i];
            cgroup_root_close(root);
            if (best == CGROUP_OFF)
                break;
            continue;
        }
        assert_non_null(strstr(err.msg, " cannot be used: "));
        assert_int_not_equal(err.code, 0);
    }
    assert_int_equal(cgroup_root_open(CGROUP_AUTO, &root, &err), 0);
    assert_int_equal(cgroup_root_mode(root), best);
    if (best == CGROUP_OFF) {
        assert_non_null(strstr(cgroup_root_note(root), "no control groups (v2: "));
        assert_non_null(strstr(cgroup_root_note(root), "; v1: "));
    }
    cgroup_root_close(root);
}

/* ---- running ---- */

#define WITH_GROUP(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
#define EVERY_BACKEND                                                                              \
    cmocka_unit_test(test_root), cmocka_unit_test(test_auto), cmocka_unit_test(test_no_leaks),     \
        WITH_GROUP(test_bad_names), WITH_GROUP(test_make_twice), WITH_GROUP(test_remove_waits)
#define REAL_BACKEND                                                                               \
    WITH_GROUP(test_limits_set), WITH_GROUP(test_usage), WITH_GROUP(test_pids),                    \
        WITH_GROUP(test_oom), cmocka_unit_test(test_sweep), cmocka_unit_test(test_reopen)

static int run_parsers_and_none(void)
{
    const struct CMUnitTest parsers[] = {
        cmocka_unit_test(test_mount_parse),
        cmocka_unit_test(test_self_parse),
        cmocka_unit_test(test_path_below),
        cmocka_unit_test(test_names),
    };
    const struct CMUnitTest none[] = { EVERY_BACKEND, WITH_GROUP(test_none) };

    mode = CGROUP_OFF;
    return cmocka_run_group_tests_name("cgroup_parse", parsers, NULL, NULL) +
           cmocka_run_group_tests_name("cgroup_none", none, NULL, NULL);
}

static int run_real(void)
{
    const struct CMUnitTest tests[] = { EVERY_BACKEND, REAL_BACKEND };
    const struct CMUnitTest leaf[] = { cmocka_unit_test(test_v2_leaf),
                                       cmocka_unit_test(test_v2_step_aside) };
    char name[40];
    int failed;

    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return 1;
    snprintf(name, sizeof name, "cgroup_%s%s", mode == CGROUP_V2 ? "v2" : "v1",
             delegated ? "_user" : "");
    failed = _cmocka_run_group_tests(name, tests, ARRAY_LEN(tests), NULL, NULL);
    if (mode == CGROUP_V2 && delegated)
        failed += cmocka_run_group_tests_name("cgroup_v2_leaf", leaf, NULL, NULL);
    /* Orphans of killed engines came to us. */
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    return failed;
}

static bool available(enum cgroup_mode wanted)
{
    struct cgroup_root *root;
    struct gb_err err = { 0 };

    if (cgroup_root_open(wanted, &root, &err) < 0) {
        fprintf(stderr, "# %s\n", err.msg);
        return false;
    }
    cgroup_root_close(root);
    return true;
}

/* Gives @name beneath @parent_fd to the ordinary user and moves @pid there. */
static int delegate(int parent_fd, const char *name, pid_t pid)
{
    static const char *const files[] = { "cgroup.procs", "tasks", "cgroup.subtree_control",
                                         "cgroup.threads" };
    autoclose int fd = -EBADF;

    if (mkdirat(parent_fd, name, 0755) < 0)
        return -errno;
    fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fchown(fd, USER_ID, USER_ID) < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        (void) !fchownat(fd, files[i], USER_ID, USER_ID, 0);
    return cgroup_write_int(fd, "cgroup.procs", pid);
}

static _Noreturn void user_main(int go)
{
    int32_t value;

    if (read(go, &value, sizeof value) != (ssize_t) sizeof value)
        _exit(1);
    close(go);
    if (setgroups(0, NULL) < 0 || setresgid(USER_ID, USER_ID, USER_ID) < 0 ||
        setresuid(USER_ID, USER_ID, USER_ID) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
        _exit(1);
    delegated = true;
    fflush(NULL);
    exit(run_real() ? 1 : 0);
}

/* The same suite as an ordinary user in groups that are its own. */
static int run_real_as_user(void)
{
    struct cgroup_root *root;
    int32_t value = 1;
    char name[32];
    int p[2], r = 0, status = 1;
    pid_t pid;

    if (geteuid() != 0 || cgroup_root_open(mode, &root, NULL) < 0 || pipe2(p, O_CLOEXEC) < 0)
        return 0;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        close(p[1]);
        user_main(p[0]);
    }
    close(p[0]);
    snprintf(name, sizeof name, "gbtest.%d", (int) pid);
    for (int i = 0; i < root->n_hiers && r == 0; i++)
        r = delegate(root->hiers[i].parent_fd, name, pid);
    if (r < 0)
        fprintf(stderr, "delegate: %s\n", strerror(-r));
    else
        (void) !write(p[1], &value, sizeof value);
    close(p[1]);
    waitpid(pid, &status, 0);
    for (int i = 0; i < root->n_hiers; i++) {
        r = cgroup_rmdir_wait(root->hiers[i].parent_fd, name, clock_now_us() + PATIENCE);
        if (r < 0) {
            fprintf(stderr, "left behind: cgroup %s: %s\n", name, strerror(-r));
            status = 1;
        }
    }
    cgroup_root_close(root);
    return status ? 1 : 0;
}

int main(void)
{
    static const enum cgroup_mode modes[] = { CGROUP_V1, CGROUP_V2 };
    int failed = run_parsers_and_none(), ran = 0;

    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        if (!available(modes[i]))
            continue;
        mode = modes[i];
        ran++;
        failed += run_real();
        failed += run_real_as_user();
    }
    if (failed)
        return 1;
    if (ran == 0) {
        fprintf(stderr, "only `none` was tested: no cgroup backend can be had here\n");
        return getenv("GB_MUST_WORK") ? 1 : 77;
    }
    return 0;
}
