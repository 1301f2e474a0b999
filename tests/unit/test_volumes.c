/* The rules for volumes: which source is allowed by which entry, and which places there are. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/autoclean.h"
#include "engine/volumes.h"

#include "base/banned.h"

static const struct volume_root roots[] = {
    { "/srv/sets", false },
    { "/srv/results/", true },
    { "/srv/sets/deep", true }, /* not in a service, but `glovebox run` may have it */
};

static int settle(const char *source, const char *target, enum volume_mode *mode)
{
    struct volume volume = { source, target, *mode };
    struct gb_err err = { 0 };
    int r = volumes_settle(roots, ARRAY_LEN(roots), &volume, 1, NULL, &err);

    *mode = volume.mode;
    assert_true(r == 0 || (err.code == -r && err.msg[0]));
    return r;
}

static void test_sources(void **state)
{
    static const struct {
        const char *source;
        enum volume_mode asked;
        int expected;
        enum volume_mode given;
    } rows[] = {
        { "/srv/sets", VOLUME_RO, 0, VOLUME_RO },
        { "/srv/sets/", VOLUME_AUTO, 0, VOLUME_RO },
        { "/srv/sets/a/b c", VOLUME_AUTO, 0, VOLUME_RO },
        { "/srv/sets/...", VOLUME_RO, 0, VOLUME_RO },
        { "/srv/sets/..a", VOLUME_RO, 0, VOLUME_RO },
        { "/srv/sets/deep", VOLUME_RW, 0, VOLUME_RW },
        { "/srv/sets/deep/er", VOLUME_AUTO, 0, VOLUME_RW },
        { "/srv/sets/deeper", VOLUME_AUTO, 0, VOLUME_RO },
        { "/srv/results", VOLUME_RW, 0, VOLUME_RW },
        { "/srv/results/x", VOLUME_RO, 0, VOLUME_RO },
        { "/srv/sets", VOLUME_RW, -EACCES, VOLUME_RW },
        { "/srv/setsx", VOLUME_RO, -EACCES, VOLUME_RO },
        { "/srv/set", VOLUME_RO, -EACCES, VOLUME_RO },
        { "/srv", VOLUME_RO, -EACCES, VOLUME_RO },
        { "/", VOLUME_RO, -EACCES, VOLUME_RO },
        { "///", VOLUME_RO, -EACCES, VOLUME_RO },
        { "/etc/shadow", VOLUME_AUTO, -EACCES, VOLUME_AUTO },
        { "", VOLUME_RO, -EINVAL, VOLUME_RO },
        { "srv/sets", VOLUME_RO, -EINVAL, VOLUME_RO },
        { "/srv/sets/..", VOLUME_RO, -EINVAL, VOLUME_RO },
        { "/srv/sets/../sets", VOLUME_RO, -EINVAL, VOLUME_RO },
        { "/srv/sets/.", VOLUME_RO, -EINVAL, VOLUME_RO },
        { "/srv/./sets", VOLUME_RO, -EINVAL, VOLUME_RO },
        { "/srv//sets", VOLUME_RO, -EINVAL, VOLUME_RO },
        { "//srv/sets", VOLUME_RO, -EINVAL, VOLUME_RO },
        { "/srv/sets/a\nb", VOLUME_RO, -EINVAL, VOLUME_RO },
        { "/srv/sets/\x7f", VOLUME_RO, -EINVAL, VOLUME_RO },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum volume_mode mode = rows[i].asked;

        assert_int_equal(settle(rows[i].source, "/data", &mode), rows[i].expected);
        assert_int_equal(mode, rows[i].given);
    }
}

static void test_targets(void **state)
{
    static const char *const good[] = { "/data",  "/data/",     "/mnt/a/b",         "/home/user",
                                        "/opt/x", "/srv",       "/workspace/a",     "/workspace2",
                                        "/usrx",  "/data/.hid", "/workspace/a/b/c", "/\xc3\xa4" };
    static const char *const bad[] = {
        "",        "data",   "/",      "//",        "/usr",       "/usr/local/x",    "/proc",
        "/proc/1", "/sys/x", "/dev/x", "/etc",      "/bin",       "/lib64/x",        "/tmp",
        "/tmp/x",  "/var/x", "/run/x", "/root",     "/workspace", "/workspace/",     "/.empty",
        "/.x",     "/a/..",  "/a/./b", "/a//b",     "/..",        "/workspace/../a", "/a\tb",
        "/boot/x", "/sbin",  "/lib",   "/libx32/a", "/lib32",
    };
    char path[VOLUME_TARGET_MAX + 2];
    enum volume_mode mode = VOLUME_RO;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(settle("/srv/sets", good[i], &mode), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(settle("/srv/sets", bad[i], &mode), -EINVAL);
    }
    memset(path, 'x', sizeof path);
    path[0] = '/';
    path[VOLUME_TARGET_MAX - 1] = '\0';
    assert_int_equal(settle("/srv/sets", path, &mode), 0);
    path[VOLUME_TARGET_MAX - 1] = 'x';
    path[VOLUME_TARGET_MAX] = '\0';
    assert_int_equal(settle("/srv/sets", path, &mode), -EINVAL);
}

static void test_lists(void **state)
{
    struct volume list[VOLUMES_MAX + 1];
    char targets[VOLUMES_MAX + 1][16];
    struct gb_err err;
    size_t at;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        snprintf(targets[i], sizeof targets[i], "/d%zu", i);
        list[i] = (struct volume){ "/srv/sets", targets[i], VOLUME_RO };
    }
    assert_int_equal(volumes_settle(roots, 3, list, 0, &at, &err), 0);
    assert_int_equal(volumes_settle(roots, 3, list, VOLUMES_MAX, &at, &err), 0);
    assert_int_equal(volumes_settle(roots, 3, list, VOLUMES_MAX + 1, &at, &err), -E2BIG);
    assert_int_equal(volumes_settle(NULL, 0, list, 1, &at, &err), -EACCES);
    list[3].target = "/d1/in";
    assert_int_equal(volumes_settle(roots, 3, list, 5, &at, &err), -EINVAL);
    assert_int_equal(at, 3);
    list[3].target = "/d1/";
    assert_int_equal(volumes_settle(roots, 3, list, 5, &at, &err), -EINVAL);
    list[0].target = "/d10/in";
    list[3].target = "/d3";
    assert_int_equal(volumes_settle(roots, 3, list, VOLUMES_MAX, &at, &err), -EINVAL);
    assert_int_equal(at, 10);
    list[0].target = "/d0";
    list[2].source = "/etc";
    assert_int_equal(volumes_settle(roots, 3, list, 5, &at, &err), -EACCES);
    assert_int_equal(at, 2);
}

static void test_entries(void **state)
{
    static const struct {
        const char *text, *path;
        bool writable;
    } rows[] = {
        { "/a", "/a", false },     { "/a:rw", "/a", true },       { "/a:ro", "/a", false },
        { "/a:b", "/a:b", false }, { "/a:rw:", "/a:rw:", false }, { "/a:rw:ro", "/a:rw", false },
        { ":rw", ":rw", false },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct volume_root root;
        char text[32];

        snprintf(text, sizeof text, "%s", rows[i].text);
        volume_root_parse(text, &root);
        assert_string_equal(root.path, rows[i].path);
        assert_int_equal(root.writable, rows[i].writable);
    }
}

static int check(const char *one, const char *two)
{
    const struct volume_root list[] = { { one, false }, { two ? two : "", true } };
    struct gb_err err = { 0 };

    return volume_roots_check(list, two ? 2 : 1, &err);
}

static void test_directories(void **state)
{
    char place[] = "/tmp/gb-volumes-XXXXXX", a[64], b[64], ab[64], file[64], link[64];
    struct gb_err err;
    FILE *made;

    (void) state;
    assert_non_null(mkdtemp(place));
    snprintf(a, sizeof a, "%s/a", place);
    snprintf(ab, sizeof ab, "%s/a/b", place);
    snprintf(b, sizeof b, "%s/ab", place);
    snprintf(file, sizeof file, "%s/file", place);
    snprintf(link, sizeof link, "%s/link", place);
    assert_int_equal(mkdir(a, 0755), 0);
    assert_int_equal(mkdir(ab, 0755), 0);
    assert_int_equal(mkdir(b, 0755), 0);
    assert_int_equal(symlink(a, link), 0);
    assert_non_null(made = fopen(file, "we"));
    (void) fclose(made);

    assert_int_equal(volume_roots_check(NULL, 0, &err), 0);
    assert_int_equal(check(a, NULL), 0);
    assert_int_equal(check(a, b), 0); /* the one's name begins as the other's, no more */
    assert_int_equal(check(link, NULL), 0);
    assert_int_equal(check(a, ab), -EINVAL);
    assert_int_equal(check(ab, a), -EINVAL);
    assert_int_equal(check(a, a), -EINVAL);
    assert_int_equal(check(ab, link), -EINVAL);
    assert_int_equal(check(file, NULL), -ENOTDIR);
    assert_int_equal(check("/", NULL), -EINVAL);
    assert_int_equal(check("/proc", NULL), -EINVAL);
    assert_int_equal(check("/proc/self", NULL), -EINVAL);
    assert_int_equal(check("/sys", NULL), -EINVAL);
    assert_int_equal(check("/no/such/place", NULL), -ENOENT);
    assert_int_equal(check("tmp", NULL), -EINVAL);

    assert_int_equal(unlink(file), 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(rmdir(ab), 0);
    assert_int_equal(rmdir(a), 0);
    assert_int_equal(rmdir(b), 0);
    assert_int_equal(rmdir(place), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources),     cmocka_unit_test(test_targets),
        cmocka_unit_test(test_lists),       cmocka_unit_test(test_entries),
        cmocka_unit_test(test_directories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
