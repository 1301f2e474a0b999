/* Parts of shelves in boxes: at once, read-only, one above the other. */
#include "engine_harness.h"

#include <sys/stat.h>

#include "base/io.h"

#include "base/banned.h"

static char shelf_dir[] = "/tmp/glovebox-test-shelf.XXXXXX";
static char wheels_dir[] = "/tmp/glovebox-test-wheels.XXXXXX";

static void put(const char *dir, const char *name, const char *file, const char *text)
{
    char path[256];
    int fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    (void) mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s/%s", dir, name, file);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    (void) close(fd);
}

static void take_away(const char *dir, const char *name, const char *file)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s/%s", dir, name, file);
    (void) unlink(path);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    (void) rmdir(path);
}

static int shelf_setup(void **state)
{
    struct engine_config config = { .preload = "",
                                    .cgroups = CGROUP_AUTO,
                                    .landlock = true,
                                    .shelves = { shelf_dir, wheels_dir } };
    struct gb_err err;

    (void) state;
    umask(022);
    if (!mkdtemp(shelf_dir) || !mkdtemp(wheels_dir) || chmod(wheels_dir, 0755) < 0)
        return -1;
    put(shelf_dir, "one", "alpha.py", "value = 'one'\n");
    put(shelf_dir, "two", "alpha.py", "value = 'two'\n");
    put(wheels_dir, "sub", "note.txt", "a wheel\n");
    if (engine_open(&config, &engine, &err) < 0 || engine_wait_ready(engine, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        engine_close(engine);
        exit(SKIP);
    }
    return 0;
}

static int shelf_teardown(void **state)
{
    engine_close(engine);
    (void) state;
    take_away(shelf_dir, "one", "alpha.py");
    take_away(shelf_dir, "two", "alpha.py");
    take_away(shelf_dir, "late", "beta.py");
    take_away(wheels_dir, "sub", "note.txt");
    (void) rmdir(shelf_dir);
    (void) rmdir(wheels_dir);
    return 0;
}

static void mounts(struct place *place, unsigned shelf, const char *name, unsigned at)
{
    struct gb_err err;

    if (box_mount_shelf(place->box, shelf, name, at, &err) < 0)
        fail_msg("%s", err.msg);
}

static void test_live(void **state)
{
    struct place *place = *state;

    prints(place,
           "import os\n"
           "try:\n    import alpha\nexcept ImportError: print('none')",
           "none\n");
    mounts(place, 0, "one", 0);
    prints(place, "import alpha; print(alpha.value, alpha.__file__)", "one /packages/alpha.py\n");
    assert_printed(command(place, "python3 -c 'import alpha; print(alpha.value)'"), "one\n");
    mounts(place, 0, "two", 0);
    assert_printed(command(place, "cat /packages/alpha.py"), "value = 'two'\n");
    /* made after the engine was opened */
    put(shelf_dir, "late", "beta.py", "value = 3\n");
    mounts(place, 0, "late", 0);
    prints(place, "import beta; print(beta.value)", "3\n");
}

static void test_read_only(void **state)
{
    struct place *place = *state;

    mounts(place, 0, "one", 0);
    prints(
        place,
        "import errno, os\n"
        "for call in (lambda: open('/packages/x', 'w'), lambda: os.unlink('/packages/alpha.py'),\n"
        "             lambda: os.chmod('/packages/alpha.py', 0o777),\n"
        "             lambda: open('/packages/alpha.py', 'a')):\n"
        "    try:\n        call(); print('ESCAPED')\n"
        "    except OSError as e: assert e.errno in (errno.EROFS, errno.EACCES, errno.EPERM), e\n"
        "options = [l.split()[5] for l in open('/proc/self/mountinfo')\n"
        "           if l.split()[4] == '/packages']\n"
        "print(len(options), all(w in options[0].split(',') for w in ('ro', 'nosuid', 'nodev')))",
        "1 True\n");
}

static void test_whole(void **state)
{
    struct place *place = *state;

    mounts(place, 1, "", 2);
    prints(place, "print(open('/packages/.2/sub/note.txt').read(), end='')", "a wheel\n");
}

static void test_others_see_nothing(void **state)
{
    struct place *place = *state;
    struct place other = { 0 };
    struct gb_err err;

    mounts(place, 0, "one", 0);
    if (box_acquire(engine, &limits, &other.box, &err) < 0)
        fail_msg("%s", err.msg);
    assert_printed(
        command(&other, "ls /packages /.empty; grep -c packages /proc/self/mountinfo; true"),
        "/.empty:\n\n/packages:\n0\n");
    outcome_release(&other.outcome);
    box_release(other.box);
}

static void test_bad(void **state)
{
    static const char *const names[] = { "..", ".one", "one/alpha.py", "/etc", "a b", "nowhere" };
    struct place *place = *state;
    struct gb_err err;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_true(box_mount_shelf(place->box, 0, names[i], 0, &err) < 0);
    assert_int_equal(box_mount_shelf(place->box, 0, "nowhere", 0, &err), -ENOENT);
    assert_int_equal(box_mount_shelf(place->box, 2, "", 0, &err), -EINVAL);
    assert_int_equal(box_mount_shelf(place->box, 0, "one", SHELVES_MAX, &err), -EINVAL);
    /* none of it has hurt the shelf */
    mounts(place, 0, "one", 0);
    prints(place, "import alpha; print(alpha.value)", "one\n");
}

static void test_builder_replaced(void **state)
{
    struct place *place = *state;
    struct engine_info info;

    engine_get_info(engine, &info);
    assert_int_equal(kill(info.builder_pid, SIGKILL), 0);
    mounts(place, 0, "one", 0);
    prints(place, "import alpha; print(alpha.value)", "one\n");
}

#define PLACE_TEST(t) cmocka_unit_test_setup_teardown(t, place_setup, place_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_live),
        PLACE_TEST(test_read_only),
        PLACE_TEST(test_whole),
        PLACE_TEST(test_bad),
        PLACE_TEST(test_others_see_nothing),
        PLACE_TEST(test_builder_replaced),
    };
    int r = harness_main(argc, argv);

    return r >= 0 ? r : cmocka_run_group_tests(tests, shelf_setup, shelf_teardown);
}
