/* Unpacked wheels: what comes out of a box, how layers are made of it, and what stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "service/package/trees.h"

#include "base/banned.h"

#define DAY_US INT64_C(86400000000)

struct place {
    char dir[40];
    struct layers *layers;
};

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    struct gb_err err;

    *state = place;
    if (!place)
        return -1;
    snprintf(place->dir, sizeof place->dir, "/tmp/gb-trees-XXXXXX");
    return mkdtemp(place->dir) ? layers_open(place->dir, &place->layers, &err) : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void) st, (void) kind, (void) at;
    return remove(path);
}

static int teardown(void **state)
{
    struct place *place = *state;

    layers_close(place->layers);
    (void) nftw(place->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(place);
    return 0;
}

/* ---- packs ---- */

static void put(int fd, const void *data, size_t len)
{
    assert_int_equal(io_write_all(fd, data, len), 0);
}

static void put_header(int fd, const char *sign, uint8_t executable, uint16_t path_len,
                       uint64_t size)
{
    uint16_t len = htole16(path_len);

    size = htole64(size);
    put(fd, sign, 4);
    put(fd, &executable, 1);
    put(fd, &len, 2);
    put(fd, &size, 8);
}

static void put_file(int fd, const char *path, const char *text)
{
    put_header(fd, "GBTF", path[0] == 'b', (uint16_t) strlen(path), strlen(text));
    put(fd, path, strlen(path));
    put(fd, text, strlen(text));
}

static int pack_new(void)
{
    int fd = memfd_create("pack", MFD_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

/* "path=text" each. */
static int pack_of(const char *const *files)
{
    int fd = pack_new();

    for (; *files; files++) {
        char path[256];

        snprintf(path, sizeof path, "%.*s", (int) strcspn(*files, "="), *files);
        put_file(fd, path, strchr(*files, '=') + 1);
    }
    put_header(fd, "GBTE", 0, 0, 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static int unpack(struct place *place, int pack, struct tree_room *room)
{
    struct layer_work work = { .fd = -EBADF };
    struct gb_err err;
    int r;

    assert_int_equal(lseek(pack, 0, SEEK_SET), 0);
    assert_int_equal(layer_work_begin(place->layers, &work, &err), 0);
    r = tree_unpack(pack, work.fd, room, &err);
    layer_work_abort(&work);
    return r;
}

static void test_bad_packs(void **state)
{
    static const char *const paths[] = { "/x",  "../x", "a/../x", "a//x", "a/",   "./x",
                                         "a/.", "..",   ".",      "a\nb", "a\\b", "a\x7f" };
    struct place *place = *state;
    const struct tree_room much = { 1000, 1000 };

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        autoclose int fd = pack_new();
        struct tree_room room = much;

        put_file(fd, paths[i], "x");
        put_header(fd, "GBTE", 0, 0, 0);
        if (unpack(place, fd, &room) != -EPROTO)
            fail_msg("accepted: %s", paths[i]);
    }
    for (int i = 0; i < 7; i++) {
        static const int expected[] = {
            -EPROTO, -EPROTO, -EPROTO, -EPROTO, -EEXIST, -EFBIG, -EPROTO
        };
        autoclose int fd = pack_new();
        struct tree_room room = much;

        switch (i) {
        case 0: /* nothing */
            break;
        case 1: /* another sign */
            put_header(fd, "ZIPF", 0, 1, 1);
            break;
        case 2: /* it ends in the middle of a file */
            put_header(fd, "GBTF", 0, 1, 10);
            put(fd, "x123", 4);
            break;
        case 3: /* no end */
            put_file(fd, "x", "text");
            break;
        case 4: /* twice the same */
            put_file(fd, "x", "1");
            put_file(fd, "x", "2");
            break;
        case 5: /* sizes that overflow */
            put_header(fd, "GBTF", 0, 1, UINT64_MAX);
            put(fd, "x", 1);
            break;
        case 6: /* a NUL in a path */
            put_header(fd, "GBTF", 0, 3, 0);
            put(fd, "a\0b", 3);
            break;
        }
        assert_int_equal(unpack(place, fd, &room), expected[i]);
    }
}

static void test_room(void **state)
{
    static const char *const files[] = { "a/x=12345", "bin/y=12345", NULL };
    struct place *place = *state;
    autoclose int pack = pack_of(files);
    struct tree_room room = { 10, 2 };

    assert_int_equal(unpack(place, pack, &room), 0);
    assert_int_equal(room.bytes, 0);
    assert_int_equal(room.files, 0);
    room = (struct tree_room){ 9, 2 };
    assert_int_equal(unpack(place, pack, &room), -EFBIG);
    room = (struct tree_room){ 10, 1 };
    assert_int_equal(unpack(place, pack, &room), -E2BIG);
}

/* ---- trees and layers ---- */

static void tree_make(struct place *place, const char *name, const char *const *files,
                      struct tree *ret_tree)
{
    struct tree_batch batch = { .layers = place->layers };
    struct tree_room room = { 100000, 1000 };
    autoclose int pack = pack_of(files);
    char key[LAYER_KEY_MAX];
    struct gb_err err;

    tree_key(name, "abi", "", key);
    assert_int_equal(tree_batch_add(&batch, key, pack, &room, &err), 0);
    assert_int_equal(tree_get(place->layers, key, ret_tree, &err), -ENOENT); /* not yet */
    assert_int_equal(tree_batch_publish(&batch, &err), 0);
    tree_batch_release(&batch);
    assert_int_equal(tree_get(place->layers, key, ret_tree, &err), 0);
    assert_string_equal(ret_tree->key, key);
}

static void text_is(int dir, const char *path, const char *text)
{
    char buf[64];

    assert_int_equal(io_read_text_at(dir, path, buf, sizeof buf), strlen(text));
    assert_string_equal(buf, text);
}

static void test_compose(void **state)
{
    static const char *const one[] = { "m/a.py=one", "common.txt=same", "clash.txt=first",
                                       "bin/tool=#!", NULL };
    static const char *const two[] = { "m/b.py=two", "common.txt=same", "clash.txt=second", NULL };
    static const char *const dir[] = { "clash.txt/x=a directory", NULL };
    struct place *place = *state;
    struct tree trees[3];
    struct layer_work work = { .fd = -EBADF };
    char clash[CLASH_MAX];
    struct gb_err err;
    struct stat st;

    tree_make(place, "one", one, &trees[0]);
    tree_make(place, "two", two, &trees[1]);
    tree_make(place, "dir", dir, &trees[2]);
    assert_int_equal(trees[0].bytes, 3 + 4 + 5 + 2);
    assert_int_equal(trees[0].files, 4);
    assert_int_equal(layer_work_begin(place->layers, &work, &err), 0);
    assert_int_equal(trees_compose(trees, 2, work.fd, clash, &err), 0);
    assert_string_equal(clash, "clash.txt");
    text_is(work.fd, "m/a.py", "one");
    text_is(work.fd, "m/b.py", "two");
    text_is(work.fd, "clash.txt", "second"); /* the later one's; both trees are as they were */
    text_is(trees[0].fd, "site/clash.txt", "first");
    text_is(trees[1].fd, "site/clash.txt", "second");
    assert_int_equal(fstatat(work.fd, "m/a.py", &st, 0), 0);
    assert_int_equal(st.st_nlink, 2);
    assert_int_equal(st.st_mode & 0777, 0644);
    assert_int_equal(fstatat(work.fd, "bin/tool", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0755);
    assert_int_equal(trees_compose(&trees[2], 1, work.fd, clash, &err), -ENOTDIR);
    layer_work_abort(&work);
    for (size_t i = 0; i < ARRAY_LEN(trees); i++)
        tree_put(&trees[i]);
}

static int trees_left(struct place *place)
{
    char path[80];
    autoclosedir DIR *dir = NULL;
    int count = 0;

    snprintf(path, sizeof path, "%s/packages/trees", place->dir);
    dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    return count - 2;
}

static void tree_age(struct tree *tree, int days)
{
    const struct timespec at[2] = { { .tv_sec = time(NULL) - days * 86400 },
                                    { .tv_sec = time(NULL) - days * 86400 } };

    assert_int_equal(futimens(tree->fd, at), 0);
}

/* A layer of one tree; the caller has it in use. */
static struct layer *layer_of(struct place *place, const struct tree *tree, int64_t bytes)
{
    json_t *record = json_pack("{s:[{s:s,s:s,s:I}],s:I}", "packages", "name", "x", "tree",
                               tree->key, "bytes", (json_int_t) bytes, "bytes", (json_int_t) bytes);
    struct layer_work work = { .fd = -EBADF };
    struct layer *layer = NULL;
    char clash[CLASH_MAX], key[LAYER_KEY_MAX];
    struct gb_err err;

    assert_int_equal(layer_work_begin(place->layers, &work, &err), 0);
    assert_int_equal(trees_compose(tree, 1, work.fd, clash, &err), 0);
    layers_hash(tree->key, strlen(tree->key), key);
    assert_int_equal(layer_work_publish(&work, key, record, &layer, &err), 0);
    json_decref(record);
    return layer;
}

static void prune(struct place *place, int64_t bytes)
{
    struct gb_err err;

    assert_int_equal(layers_prune(place->layers, bytes, 30 * DAY_US, NULL, &err), 0);
}

static void test_pruning(void **state)
{
    static const char *const files[] = { "x.py=x", NULL };
    struct place *place = *state;
    struct layers_stats stats;
    struct tree tree, loose, used;
    struct layer *layer;

    tree_make(place, "named", files, &tree);
    tree_make(place, "loose", files, &loose);
    tree_make(place, "used", files, &used);
    layer = layer_of(place, &tree, 1);
    layers_get_stats(place->layers, &stats);
    assert_int_equal(stats.bytes, 1);
    prune(place, 1000);
    assert_int_equal(trees_left(place), 3); /* that of an interrupted install may be wanted again */
    tree_age(&tree, 2);
    tree_age(&loose, 2);
    tree_age(&used, 2);
    tree_put(&tree);
    tree_put(&loose);
    prune(place, 1000);
    assert_int_equal(trees_left(place), 2); /* the layer's, and the one in use */
    tree_put(&used);
    prune(place, 1); /* too much in all: at once */
    assert_int_equal(trees_left(place), 1);
    prune(place, 0);
    assert_int_equal(trees_left(place), 1); /* its layer is in use */
    layer_unref(layer);
    prune(place, 0);
    assert_int_equal(trees_left(place), 0);
}

static void test_discard(void **state)
{
    static const char *const files[] = { "x.py=x", NULL };
    struct place *place = *state;
    struct layers_stats stats;
    struct tree tree;
    struct layer *layer;

    tree_make(place, "tree", files, &tree);
    layer = layer_of(place, &tree, 1);
    (void) layer_ref(layer);
    layer_discard(layer); /* somebody else has it */
    layers_get_stats(place->layers, &stats);
    assert_int_equal(stats.count, 1);
    layer_discard(layer);
    layers_get_stats(place->layers, &stats);
    assert_int_equal(stats.count, 0);
    assert_int_equal(trees_left(place), 1);
    tree_put(&tree);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bad_packs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_compose, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pruning, setup, teardown),
        cmocka_unit_test_setup_teardown(test_discard, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
