/* Workspaces on disk: the same tests for both kinds, as far as this host and this user have them.
 */
#include <dirent.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "engine_harness.h"

#include "base/io.h"
#include "engine/disk/disk.h"

#include "base/banned.h"

#define KIB      INT64_C(1024)
#define MIB      (1024 * KIB)
#define QUOTA    (8 * MIB)
#define INODES   400
#define HOLD     "hold" /* argument: be a supervisor that is going to be killed */
#define WAIT_US  (120 * USEC_PER_SEC)
#define WAIT_NOT 20 /* ms between two looks */

static char directory[64];
static enum disk_kind kind;
static struct place *place;

/* ---- what is left ---- */

static size_t entries_in(const char *path)
{
    DIR *dir = opendir(path);
    size_t count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    (void) closedir(dir);
    return count - 2;
}

/* Loop devices whose file lies in our directory; everybody else's are none of our business. */
static size_t loops_ours(void)
{
    DIR *dir = opendir("/sys/block");
    struct dirent *entry;
    size_t count = 0;

    while (dir && (entry = readdir(dir))) {
        char path[300], text[4096];

        snprintf(path, sizeof path, "/sys/block/%s/loop/backing_file", entry->d_name);
        if (io_read_text_at(AT_FDCWD, path, text, sizeof text) > 0 &&
            strncmp(text, directory, strlen(directory)) == 0)
            count++;
    }
    if (dir)
        (void) closedir(dir);
    return count;
}

static bool is_mounted(void)
{
    autofree char *text = malloc(1 << 20);
    int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    assert_non_null(text);
    n = io_read_all(fd, text, (1 << 20) - 1);
    (void) close(fd);
    assert_true(n > 0);
    text[n] = '\0';
    return strstr(text, directory) || strstr(text, "/dev/loop");
}

static void wait_for_nothing(void)
{
    int64_t until = clock_now_us() + WAIT_US;

    while ((entries_in(directory) > 0 || loops_ours() > 0) && clock_now_us() < until)
        (void) poll(NULL, 0, WAIT_NOT);
    assert_int_equal(entries_in(directory), 0);
    assert_int_equal(loops_ours(), 0);
}

/* ---- an engine and a box ---- */

static int engine_start(void **state)
{
    struct engine_config config = { .preload = "",
                                    .cgroups = CGROUP_AUTO,
                                    .landlock = true,
                                    .disk_dir = directory,
                                    .disk_kind = kind };
    struct engine_info info;
    struct gb_err err;

    (void) state;
    if (engine_open(&config, &engine, &err) < 0 || engine_wait_ready(engine, &err) < 0)
        fail_msg("%s", err.msg);
    engine_get_info(engine, &info);
    assert_int_equal(info.disk_kind, kind);
    return 0;
}

static int engine_stop(void **state)
{
    (void) state;
    engine_close(engine);
    engine = NULL;
    wait_for_nothing();
    return 0;
}

static void box_open_disk(const struct limits *with)
{
    struct box_options options = { .disk = true };
    struct gb_err err;

    place = calloc(1, sizeof *place);
    assert_non_null(place);
    if (box_acquire_with(engine, with, &options, &place->box, &err) < 0)
        fail_msg("%s", err.msg);
    resident_again(place);
}

static int box_setup(void **state)
{
    limits_default(&limits);
    limits.wall_us = WALL_US;
    limits.disk_bytes = QUOTA;
    limits.disk_inodes = INODES;
    limits.file_bytes = 1024 * MIB;
    box_open_disk(&limits);
    *state = place;
    return 0;
}

static int box_teardown(void **state)
{
    void *now = place; /* a test may have taken another box */

    (void) state;
    (void) place_teardown(&now);
    place = NULL;
    assert_int_equal(loops_ours(), 0);
    assert_false(is_mounted());
    return 0;
}

static void box_again(const struct limits *with)
{
    outcome_release(&place->outcome);
    resident_free(place->resident);
    box_release(place->box);
    free(place);
    box_open_disk(with);
}

/* ---- ordinary life ---- */

static void test_files(void **state)
{
    struct file_list list;
    struct gb_err err;
    int fd;

    prints(place, "import os; print(os.listdir('.'), os.stat('.').st_uid, os.getcwd())",
           "[] 1000 /workspace\n");
    assert_ok(cell(place, "os.makedirs('a/b'); open('a/b/c', 'w').write('x' * 100000)"));
    assert_int_equal(place->outcome.files_len, 1);
    assert_string_equal(place->outcome.files[0].path, "a/b/c");
    assert_printed(command(place, "wc -c < a/b/c"), "100000\n");
    assert_int_equal(box_file_rename(place->box, "a/b/c", "d/e", false, &err), 0);
    assert_int_equal(box_file_list(place->box, "", true, NULL, 10, &list, &err), 0);
    assert_int_equal(list.len, 4); /* a, a/b, d, d/e */
    file_list_release(&list);
    assert_int_equal(box_open_read(place->box, "d/e", &fd, &err), 0);
    (void) close(fd);
    assert_int_equal(box_file_remove(place->box, "a", true, &err), 0);
    prints(place, "print(sorted(os.listdir('.')))", "['d']\n");
    (void) state;
}

/* The walls of the mount: no device, no other identity, no way out. */
static void test_mount(void **state)
{
    (void) state;
    prints(place,
           "line = [l.split() for l in open('/proc/self/mountinfo') if ' /workspace ' in l]\n"
           "print(len(line), 'nosuid' in line[0][5], 'nodev' in line[0][5])",
           "1 True True\n");
    if (kind == DISK_IMAGE)
        prints(place,
               "import os; s = os.statvfs('.')\n"
               "size = s.f_bavail * s.f_frsize; files = s.f_favail\n"
               "print(size >= 8 << 20, size < 10 << 20, files >= 400, files < 600)",
               "True True True True\n");
    prints(place,
           "import os\n"
           "try: os.listdir('/.empty/x')\n"
           "except OSError as e: print(e.strerror, os.listdir('/.empty'))",
           "No such file or directory []\n");
    assert_int_not_equal(command(place, "touch ../x")->exit_code, 0);
    assert_printed(command(place, "ln -s /etc/passwd l; mkfifo f; echo done"), "done\n");
}

static void test_loss_keeps_files(void **state)
{
    (void) state;
    assert_ok(cell(place, "open('kept', 'w').write('here')"));
    assert_true(cell(place, "import os; os._exit(3)")->lost);
    resident_again(place);
    prints(place, "print(open('kept').read())", "here\n");
}

static void test_builder_dies(void **state)
{
    struct engine_info info;
    struct gb_err err;

    (void) state;
    assert_ok(cell(place, "open('kept', 'w').write('here')"));
    engine_get_info(engine, &info);
    assert_int_equal(kill(info.builder_pid, SIGKILL), 0);
    assert_int_equal(box_file_rename(place->box, "kept", "moved", false, &err), 0);
    assert_printed(command(place, "cat moved"), "here");
    box_again(&limits);
    prints(place, "import os; print(os.listdir('.'))", "[]\n");
}

/* ---- quotas ---- */

static void test_bytes(void **state)
{
    struct outcome *o;

    (void) state;
    /* In steps that our watch can see, and more than there may ever be: so slowly that a watch
     * which is held up for a moment is not too late. */
    o = cell(place, "import time\n"
                    "with open('fill', 'wb', 0) as f:\n"
                    "    for _ in range(800):\n"
                    "        f.write(b'x' * (1 << 16)); time.sleep(0.02)\n");
    assert_int_equal(o->status, RUN_DISK);
    assert_int_equal(o->limit, LIMIT_DISK_BYTES);
    assert_false(o->lost);
    /* It can be emptied again, and then be used. */
    assert_ok(
        cell(place, "import os; print(os.path.getsize('fill') < 48 << 20); os.unlink('fill')"));
    assert_string_equal(text_of(&place->outcome.out), "True\n");
    assert_ok(cell(place, "open('ok', 'wb').write(b'x' * (4 << 20))"));
}

static void test_inodes(void **state)
{
    struct outcome *o;

    (void) state;
    o = cell(place, "import time, os\n"
                    "os.mkdir('d')\n"
                    "for n in range(4000):\n"
                    "    open(f'd/{n}', 'x').close()\n"
                    "    if n % 100 == 0: time.sleep(0.05)\n");
    assert_int_equal(o->status, RUN_DISK);
    assert_int_equal(o->limit, LIMIT_DISK_INODES);
    assert_ok(command(place, "rm -r d"));
    assert_ok(cell(place, "open('ok', 'x').close()"));
}

/* One that ends before anybody looks is told all the same. */
static void test_fast(void **state)
{
    struct outcome *o;

    (void) state;
    o = cell(place, "f = open('fill', 'wb', 0)\n"
                    "for _ in range(12): f.write(b'x' * (1 << 20))\n");
    assert_int_equal(o->status, RUN_DISK);
    assert_int_equal(o->limit, LIMIT_DISK_BYTES);
}

/* More than the box has memory. */
static void test_large(void **state)
{
    struct limits large = limits;

    (void) state;
    large.disk_bytes = 300 * MIB;
    large.memory_bytes = 64 * MIB;
    box_again(&large);
    prints(place,
           "import os\n"
           "with open('large', 'wb', 0) as f:\n"
           "    for _ in range(200): f.write(b'x' * (1 << 20))\n"
           "print(os.path.getsize('large') >> 20, sum(1 for _ in iter(lambda f=open('large', 'rb'):"
           " f.read(1 << 20), b'')))",
           "200 200\n");
}

static void test_uploads(void **state)
{
    static char data[1 << 20];
    struct upload *upload;
    struct gb_err err;
    int r = 0;

    (void) state;
    assert_int_equal(upload_begin(place->box, "in/fits", 0644, &upload, &err), 0);
    assert_int_equal(io_write_all(upload_fd(upload), data, sizeof data), 0);
    assert_int_equal(upload_commit(upload, &err), 0);
    upload_free(upload);
    prints(place, "import os; print(os.path.getsize('in/fits'), os.stat('in/fits').st_uid)",
           "1048576 1000\n");
    /* Too much is refused while it is written, or at the end; nothing of it stays. */
    assert_int_equal(upload_begin(place->box, "in/large", 0644, &upload, &err), 0);
    for (int i = 0; i < 12 && r == 0; i++)
        r = io_write_all(upload_fd(upload), data, sizeof data);
    if (r == 0)
        r = upload_commit(upload, &err);
    assert_int_equal(r, -ENOSPC);
    upload_free(upload);
    prints(place, "print(os.listdir('in'))", "['fits']\n");
    assert_ok(cell(place, "open('rest', 'wb').write(b'x' * (6 << 20))"));
}

static void test_too_much(void **state)
{
    struct box_options options = { .disk = true };
    struct limits huge = limits;
    struct box *box;
    struct gb_err err;

    (void) state;
    huge.disk_bytes = INT64_C(1) << 50;
    assert_int_equal(box_acquire_with(engine, &huge, &options, &box, &err), -ENOSPC);
    assert_non_null(strstr(err.msg, "free"));
}

/* Few bytes and many inodes, and the other way round. */
static void test_sizes(void **state)
{
    static const int64_t sizes[][2] = {
        { 64 * KIB, 16 },       { 64 * KIB, 131072 }, { 1024 * MIB, 16 },
        { 1024 * MIB, 131072 }, { 129 * MIB, 5000 },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct limits with = limits;
        char code[200];

        with.disk_bytes = sizes[i][0];
        with.disk_inodes = sizes[i][1];
        box_again(&with);
        if (kind == DISK_WATCHED)
            continue;
        snprintf(code, sizeof code,
                 "import os; s = os.statvfs('.'); free = s.f_bavail * s.f_frsize\n"
                 "print(%lld <= free <= %lld, s.f_favail >= %lld, os.listdir('.'))",
                 (long long) sizes[i][0], (long long) (sizes[i][0] * 105 / 100 + 2 * MIB),
                 (long long) sizes[i][1]);
        prints(place, code, "True True []\n");
    }
}

/* ---- what only a watch can get wrong ---- */

static void test_hidden(void **state)
{
    struct outcome *o;

    if (kind != DISK_WATCHED)
        return;
    (void) state;
    /* A file without a name, kept open. */
    o = cell(place, "import os\n"
                    "f = open('x', 'wb', 0); os.unlink('x')\n"
                    "for _ in range(12): f.write(b'x' * (1 << 20))\n");
    assert_int_equal(o->status, RUN_DISK);
    assert_ok(cell(place, "f.close()"));
    /* Many names of one file are one file. */
    assert_ok(cell(place, "open('a', 'wb').write(b'x' * (5 << 20))\n"
                          "for n in range(5): os.link('a', f'a{n}')\n"));
    assert_ok(cell(place, "for n in os.listdir('.'): os.unlink(n)"));
    /* Too deep to be followed. */
    o = cell(place, "for n in range(200): os.mkdir('d'); os.chdir('d')\n"
                    "import time; time.sleep(60)\n");
    assert_int_equal(o->status, RUN_DISK);
    assert_int_equal(o->limit, LIMIT_DISK_INODES);
}

static void test_denied(void **state)
{
    struct outcome *o;

    (void) state;
    o = cell(place, "import os\n"
                    "os.mkdir('d'); f = open('d/x', 'wb', 0); os.chmod('d', 0)\n"
                    "for _ in range(12): f.write(b'x' * (1 << 20))\n");
    assert_int_equal(o->status, RUN_DISK);
    assert_int_equal(o->limit, LIMIT_DISK_BYTES);
}

/* ---- what is left of hostile trees ---- */

static void test_hostile(void **state)
{
    struct limits with = limits;

    (void) state;
    with.disk_bytes = 256 * MIB;
    with.disk_inodes = 100000;
    box_again(&with);
    /* Deep, wide, closed, sticky, with names that nobody would choose. A watched one is ended for
     * its depth, which is as good an end as any. */
    (void) cell(place, "import os\n"
                       "os.mkdir('wide')\n"
                       "for n in range(5000): open(b'wide/\\n\\xff*?' + str(n).encode(), 'x')\n"
                       "for m in (0, 0o1000, 0o555, 0o1777):\n"
                       "    os.mkdir(f'm{m}'); open(f'm{m}/-rf', 'x'); os.mkdir(f'm{m}/sub')\n"
                       "    open(f'm{m}/sub/x', 'x'); os.chmod(f'm{m}/sub', m)\n"
                       "    os.symlink('/', f'm{m}/root'); os.mkfifo(f'm{m}/fifo')\n"
                       "    os.chmod(f'm{m}', m)\n"
                       "for n in range(4000): os.mkdir('d' * 200); os.chdir('d' * 200)\n");
}

static void tree_make(int dir, int depth)
{
    int at = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < depth; i++) {
        int next;

        assert_int_equal(mkdirat(at, "d", 0700), 0);
        next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        (void) close(at);
        at = next;
    }
    assert_int_equal(symlinkat("/", at, "root"), 0);
    (void) close(at);
}

static void test_trash(void **state)
{
    char path[96];
    bool more = true;
    int rounds = 0, dir, bystander;

    (void) state;
    snprintf(path, sizeof path, "%s/t", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(dir, "work", 0700), 0);
    assert_int_equal(mkdirat(dir, "keep", 0700), 0);
    bystander = openat(dir, "keep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(symlinkat("../keep", dir, DISK_TRASH "link"), 0);
    tree_make(dir, 0);
    {
        int work = openat(dir, "work", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        tree_make(work, 2000);
        (void) close(work);
    }
    assert_int_equal(disk_trash_put(dir, dir, "work"), 0);
    assert_int_equal(disk_trash_put(dir, dir, "work"), -ENOENT);
    while (more && rounds++ < 10000)
        assert_int_equal(disk_trash_empty(dir, 100, &more), 0);
    assert_false(more);
    assert_true(rounds > 10); /* it did stop in between */
    assert_int_equal(entries_in(path), 2);
    assert_int_equal(unlinkat(dir, "root", 0), 0);
    assert_int_equal(unlinkat(dir, "keep", AT_REMOVEDIR), 0);
    (void) close(bystander);
    (void) close(dir);
    assert_int_equal(rmdir(path), 0);
}

/* ---- the dead ---- */

/* Holds a box until it is killed. */
static _Noreturn void hold_main(char **argv)
{
    snprintf(directory, sizeof directory, "%s", argv[2]);
    kind = (enum disk_kind)(argv[3][0] - '0');
    (void) engine_start(NULL);
    (void) box_setup((void *[]){ NULL });
    assert_ok(
        cell(place, "import os\nopen('x', 'wb').write(b'x' * (1 << 20)); os.makedirs('a/b/c')"));
    {
        struct engine_info info;

        engine_get_info(engine, &info);
        printf("%d\n", info.builder_pid);
        (void) fflush(stdout);
    }
    for (;;)
        (void) pause();
}

static pid_t hold_start(pid_t *ret_builder)
{
    char number[2] = { (char) ('0' + kind), '\0' }, text[16] = "";
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        (void) dup2(ends[1], 1);
        execl("/proc/self/exe", "test", HOLD, directory, number, (char *) NULL);
        _exit(127);
    }
    (void) close(ends[1]);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    (void) close(ends[0]);
    *ret_builder = (pid_t) strtol(text, NULL, 10);
    assert_true(*ret_builder > 1);
    return pid;
}

static void test_supervisor_dies(void **state)
{
    pid_t builder, pid;

    (void) state;
    pid = hold_start(&builder);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    wait_for_nothing();
}

/* Collected or not: not every PID 1 takes away what it inherits. */
static bool is_dead(pid_t pid)
{
    char path[32], text[512];
    const char *rest;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (io_read_text_at(AT_FDCWD, path, text, sizeof text) < 0)
        return true;
    rest = strrchr(text, ')');
    return rest && rest[1] == ' ' && (rest[2] == 'Z' || rest[2] == 'X');
}

/* Nobody is left to clean up: the next engine does. */
static void test_both_die(void **state)
{
    pid_t builder, pid;

    pid = hold_start(&builder);
    assert_int_equal(kill(builder, SIGSTOP), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(kill(builder, SIGKILL), 0);
    /* Its lock goes with it, and until then it counts as a living neighbour. */
    for (int64_t until = clock_now_us() + WAIT_US; clock_now_us() < until;) {
        if (is_dead(builder))
            break;
        (void) poll(NULL, 0, WAIT_NOT);
    }
    if (kind == DISK_WATCHED)
        assert_true(entries_in(directory) > 0);
    (void) engine_start(state);
    (void) engine_stop(state);
}

/* A living neighbour is left alone. */
static void test_neighbour(void **state)
{
    pid_t builder, pid;

    pid = hold_start(&builder);
    (void) engine_start(state);
    assert_int_equal(entries_in(directory), 2);
    engine_close(engine);
    engine = NULL;
    assert_int_equal(entries_in(directory), 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    wait_for_nothing();
}

/* ---- bad places ---- */

static void refuses(const char *path, enum disk_kind wanted, const char *why)
{
    struct engine_config config = { .preload = "", .disk_dir = path, .disk_kind = wanted };
    struct engine *never;
    struct gb_err err;

    assert_true(engine_open(&config, &never, &err) < 0);
    if (!strstr(err.msg, why))
        fail_msg("'%s' does not say '%s'", err.msg, why);
}

static void test_places(void **state)
{
    char path[96], link[96], memory[] = "/dev/shm/glovebox-test-XXXXXX";
    struct statfs fs;

    (void) state;
    refuses("relative", DISK_NONE, "absolute");
    refuses("/proc/no/such/place", DISK_NONE, "cannot create the directory");
    snprintf(path, sizeof path, "%s/sub", directory);
    snprintf(link, sizeof link, "%s/link", directory);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(symlink(path, link), 0);
    refuses(path, DISK_NONE, "chmod 700");
    refuses(link, DISK_NONE, "cannot open the directory");
    assert_int_equal(unlink(link), 0);
    assert_int_equal(rmdir(path), 0);
    if (mkdtemp(memory)) {
        if (statfs(memory, &fs) == 0 && fs.f_type == 0x01021994)
            refuses(memory, DISK_NONE, "in memory");
        assert_int_equal(rmdir(memory), 0);
    }
    if (geteuid() != 0)
        refuses(directory, DISK_IMAGE, "only root");
}

/* An engine without a place. */
static void test_no_place(void **state)
{
    struct engine_config config = { .preload = "", .cgroups = CGROUP_AUTO, .landlock = true };
    struct box_options options = { .disk = true };
    struct engine_info info;
    struct box *box;
    struct gb_err err;

    (void) state;
    assert_int_equal(engine_open(&config, &engine, &err), 0);
    engine_get_info(engine, &info);
    assert_int_equal(info.disk_kind, DISK_NONE);
    limits_default(&limits);
    assert_int_equal(box_acquire_with(engine, &limits, &options, &box, &err), -EINVAL);
    engine_close(engine);
    engine = NULL;
}

/* ---- main ---- */

static int run_kind(enum disk_kind with)
{
#define ON_DISK(test) cmocka_unit_test_setup_teardown(test, box_setup, box_teardown)
    const struct CMUnitTest living[] = {
        ON_DISK(test_files),   ON_DISK(test_mount),        ON_DISK(test_loss_keeps_files),
        ON_DISK(test_bytes),   ON_DISK(test_inodes),       ON_DISK(test_fast),
        ON_DISK(test_large),   ON_DISK(test_uploads),      ON_DISK(test_too_much),
        ON_DISK(test_sizes),   ON_DISK(test_hidden),       ON_DISK(test_denied),
        ON_DISK(test_hostile), ON_DISK(test_builder_dies),
    };
    const struct CMUnitTest dead[] = {
        cmocka_unit_test(test_supervisor_dies),
        cmocka_unit_test(test_both_die),
        cmocka_unit_test(test_neighbour),
    };
    const char *name = with == DISK_IMAGE ? "image" : "watched";
    int failed;

    kind = with;
    failed = cmocka_run_group_tests_name(name, living, engine_start, engine_stop);
    return failed + cmocka_run_group_tests_name(name, dead, NULL, NULL);
}

static bool can_isolate(enum disk_kind *ret_best)
{
    struct engine_config config = { .preload = "", .cgroups = CGROUP_AUTO, .disk_dir = directory };
    struct engine_info info;
    struct gb_err err;

    if (engine_open(&config, &engine, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return false;
    }
    engine_get_info(engine, &info);
    engine_close(engine);
    engine = NULL;
    if (info.disk_kind == DISK_WATCHED)
        fprintf(stderr, "no images: %s\n", info.disk_note);
    *ret_best = info.disk_kind;
    return true;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest places[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_no_place),
        cmocka_unit_test(test_trash),
    };
    enum disk_kind best;
    int r = harness_main(argc, argv);

    if (r >= 0)
        return r;
    if (argc == 4 && strcmp(argv[1], HOLD) == 0)
        hold_main(argv);
    snprintf(directory, sizeof directory, "%s", "/var/tmp/glovebox-test-disk-XXXXXX");
    if (!mkdtemp(directory))
        return SKIP;
    if (!can_isolate(&best)) {
        (void) rmdir(directory);
        return SKIP;
    }
    r = cmocka_run_group_tests_name("places", places, NULL, NULL);
    if (best == DISK_IMAGE)
        r += run_kind(DISK_IMAGE);
    r += run_kind(DISK_WATCHED);
    (void) rmdir(directory);
    return r;
}
