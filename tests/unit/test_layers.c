/* The store of package layers: what is there whole, what stays, and what goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "service/package/layers.h"

#include "base/banned.h"

#define EVER  INT64_MAX
#define DAY_S INT64_C(86400)

struct place {
    char dir[40];
    struct layers *layers;
};

/* ---- what others do meanwhile ---- */

/* Calls of the store in the middle of which somebody else may act. They are the C library's, and
 * this program has its own in their place. */
enum moment {
    BEFORE_SYNC,
    BEFORE_SHARED,
    BEFORE_EXCLUSIVE,
    EXCLUSIVE,
    BEFORE_MOVE,
    MOVED,
    MOMENTS
};

static void (*meanwhile[MOMENTS])(struct place *place); /* each happens once */
static struct place *where;

static void happen(enum moment moment)
{
    void (*act)(struct place *) = meanwhile[moment];

    meanwhile[moment] = NULL;
    if (act)
        act(where);
}

static void let(struct place *place, enum moment moment, void (*act)(struct place *place))
{
    where = place;
    meanwhile[moment] = act;
}

int syncfs(int fd)
{
    happen(BEFORE_SYNC);
    return (int) syscall(SYS_syncfs, fd);
}

/* Of directories: those of layers, finished or not. */
int flock(int fd, int operation)
{
    struct stat st;
    bool is_layer = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    int r;

    if (is_layer)
        happen(operation & LOCK_SH ? BEFORE_SHARED : BEFORE_EXCLUSIVE);
    r = (int) syscall(SYS_flock, fd, operation);
    if (is_layer && r == 0 && operation & LOCK_EX)
        happen(EXCLUSIVE);
    return r;
}

int renameat2(int oldfd, const char *old, int newfd, const char *new, unsigned flags)
{
    int r;

    happen(BEFORE_MOVE);
    r = (int) syscall(SYS_renameat2, oldfd, old, newfd, new, flags);
    happen(MOVED);
    return r;
}

static void die(struct place *place)
{
    (void) place;
    _exit(0);
}

/* ---- the store ---- */

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    struct gb_err err;

    *state = place;
    if (!place)
        return -1;
    snprintf(place->dir, sizeof place->dir, "/tmp/gb-layers-XXXXXX");
    return mkdtemp(place->dir) ? layers_open(place->dir, &place->layers, &err) : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void) st;
    (void) kind;
    (void) at;
    return remove(path);
}

static int teardown(void **state)
{
    struct place *place = *state;
    int r;

    memset(meanwhile, 0, sizeof meanwhile);
    layers_close(place->layers);
    r = nftw(place->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(place);
    return r;
}

/* "DIR/packages/REST"; good until the next call. */
static const char *within(const struct place *place, const char *part, const char *name)
{
    static char path[300];

    snprintf(path, sizeof path, "%s/packages/%s/%s", place->dir, part, name);
    return path;
}

static bool there(const struct place *place, const char *part, const char *name)
{
    return access(within(place, part, name), F_OK) == 0;
}

static const char *record_of(const char *key)
{
    static char name[LAYER_KEY_MAX + 8];

    snprintf(name, sizeof name, "%s.json", key);
    return name;
}

static void key_of(const char *text, char ret_key[LAYER_KEY_MAX])
{
    layers_hash(text, strlen(text), ret_key);
}

static void fill(int dir, const char *text)
{
    autoclose int fd = openat(dir, "module.py", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* A layer of that many bytes, by its word; the caller's to release. */
static struct layer *publish(struct place *place, const char *word, int64_t bytes)
{
    json_t *record = json_pack("{s:I,s:s}", "bytes", (json_int_t) bytes, "word", word);
    char key[LAYER_KEY_MAX];
    struct layer_work work;
    struct layer *layer;
    struct gb_err err;

    key_of(word, key);
    assert_int_equal(layer_work_begin(place->layers, &work, &err), 0);
    fill(work.fd, word);
    if (layer_work_publish(&work, key, record, &layer, &err) < 0)
        fail_msg("%s", err.msg);
    json_decref(record);
    assert_string_equal(layer_key(layer), key);
    return layer;
}

/* One that nobody has, last used so long ago. */
static void leave(struct place *place, const char *word, int64_t bytes, int64_t ago_s,
                  char ret_key[LAYER_KEY_MAX])
{
    struct timespec times[2] = { { .tv_sec = time(NULL) - ago_s }, { 0 } };

    times[1] = times[0];
    layer_unref(publish(place, word, bytes));
    key_of(word, ret_key);
    assert_int_equal(utimensat(AT_FDCWD, within(place, "records", record_of(ret_key)), times, 0),
                     0);
}

static unsigned prune(struct place *place, int64_t bytes, int64_t age_s)
{
    unsigned removed = 99;
    struct gb_err err;

    assert_int_equal(layers_prune(place->layers, bytes, age_s * USEC_PER_SEC, &removed, &err), 0);
    return removed;
}

static unsigned entries(const struct place *place, const char *part)
{
    DIR *dir = opendir(within(place, part, ""));
    const struct dirent *entry;
    unsigned found = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        found += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void) closedir(dir);
    return found;
}

static void test_publish_and_get(void **state)
{
    struct place *place = *state;
    struct layer *layer = publish(place, "one", 10), *again;
    struct layers_stats stats;
    char key[LAYER_KEY_MAX], file[LAYER_KEY_MAX + 16];
    struct gb_err err;

    key_of("one", key);
    snprintf(file, sizeof file, "%s/module.py", key);
    assert_true(there(place, "layers", file));
    assert_int_equal(layer_get(place->layers, key, &again, &err), 0);
    assert_ptr_equal(layer, again);
    assert_string_equal(json_string_value(json_object_get(layer_record(again), "word")), "one");
    layer_unref(again);
    /* Whoever comes second has the first one's. */
    again = publish(place, "one", 999);
    assert_ptr_equal(layer, again);
    assert_int_equal(entries(place, "work"), 0);
    layers_get_stats(place->layers, &stats);
    assert_int_equal(stats.count, 1);
    assert_int_equal(stats.bytes, 10);
    layer_unref(again);
    layer_unref(layer);
    key_of("nobody made this", key);
    assert_int_equal(layer_get(place->layers, key, &layer, &err), -ENOENT);
}

static void test_abort(void **state)
{
    struct place *place = *state;
    struct layer_work work;
    struct gb_err err;

    assert_int_equal(layer_work_begin(place->layers, &work, &err), 0);
    fill(work.fd, "x");
    assert_int_equal(entries(place, "work"), 1);
    layer_work_abort(&work);
    layer_work_abort(&work); /* once more is nothing */
    assert_int_equal(entries(place, "work"), 0);
    assert_int_equal(entries(place, "layers"), 0);
}

static void test_bad_keys(void **state)
{
    static const char *const bad[] = { "",
                                       ".",
                                       "../x",
                                       "../../../etc/passwd",
                                       "abc",
                                       "0123456789abcdef0123456789abcdef0123456789abcdef"
                                       "0123456789abcdeF",
                                       "0123456789abcdef0123456789abcdef0123456789abcdef"
                                       "0123456789abcdef0",
                                       "/123456789abcdef0123456789abcdef0123456789abcdef"
                                       "0123456789abcdef" };
    struct place *place = *state;
    json_t *json = json_object(), *got = NULL;
    struct layer_work work;
    struct layer *layer;
    struct gb_err err;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(layer_get(place->layers, bad[i], &layer, &err), -EINVAL);
        assert_int_equal(layer_work_begin(place->layers, &work, &err), 0);
        assert_int_equal(layer_work_publish(&work, bad[i], json, &layer, &err), -EINVAL);
        assert_int_equal(layers_request_put(place->layers, bad[i], json, &err), -EINVAL);
        assert_int_equal(layers_request_get(place->layers, bad[i], EVER, &got), -ENOENT);
    }
    json_decref(json);
    assert_int_equal(entries(place, "work") + entries(place, "layers") + entries(place, "records") +
                         entries(place, "requests"),
                     0);
    assert_int_equal(entries(place, ".."), 1); /* nothing beside packages */
    assert_int_equal(entries(place, "."), 8);
}

static void test_age(void **state)
{
    struct place *place = *state;
    char old[LAYER_KEY_MAX], young[LAYER_KEY_MAX];

    leave(place, "old", 10, 31 * DAY_S, old);
    leave(place, "young", 10, 29 * DAY_S, young);
    assert_int_equal(prune(place, EVER, 60 * DAY_S), 0);
    assert_int_equal(prune(place, EVER, 30 * DAY_S), 1);
    assert_false(there(place, "layers", old) || there(place, "records", record_of(old)));
    assert_true(there(place, "layers", young));
    assert_int_equal(entries(place, "work"), 0);
}

static void test_size(void **state)
{
    struct place *place = *state;
    char first[LAYER_KEY_MAX], second[LAYER_KEY_MAX], third[LAYER_KEY_MAX];

    leave(place, "b", 100, 2 * DAY_S, second);
    leave(place, "c", 100, 1 * DAY_S, third);
    leave(place, "a", 100, 3 * DAY_S, first);
    assert_int_equal(prune(place, 300, 90 * DAY_S), 0);
    assert_int_equal(prune(place, 250, 90 * DAY_S), 1); /* the longest unused */
    assert_false(there(place, "layers", first));
    assert_int_equal(prune(place, 0, 90 * DAY_S), 2);
    assert_false(there(place, "layers", second) || there(place, "layers", third));
}

static void test_in_use(void **state)
{
    struct place *place = *state;
    struct layer *held = publish(place, "held", 100);
    char key[LAYER_KEY_MAX];

    key_of("held", key);
    assert_int_equal(prune(place, 0, 0), 0);
    assert_true(there(place, "layers", key));
    layer_unref(layer_ref(held));
    assert_int_equal(prune(place, 0, 0), 0);
    layer_unref(held);
    assert_int_equal(prune(place, 0, 0), 1);
    assert_false(there(place, "layers", key));
    layer_unref(publish(place, "held", 100)); /* can be made once more */
    assert_true(there(place, "layers", key));
}

/* Another process has the store open too, and a layer in use. */
static void test_in_use_elsewhere(void **state)
{
    struct place *place = *state;
    int ready[2], go[2], status;
    char key[LAYER_KEY_MAX], byte;
    pid_t pid;

    leave(place, "shared", 100, 90 * DAY_S, key);
    assert_int_equal(pipe(ready) + pipe(go), 0);
    pid = fork();
    if (pid == 0) {
        struct layers *layers;
        struct layer *layer;
        struct gb_err err;
        bool ok = layers_open(place->dir, &layers, &err) == 0 &&
                  layer_get(layers, key, &layer, &err) == 0;

        (void) !write(ready[1], ok ? "y" : "n", 1);
        (void) close(go[1]);
        (void) !read(go[0], &byte, 1);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_int_equal(prune(place, 0, 0), 0);
    assert_true(there(place, "layers", key));
    (void) close(go[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(prune(place, 0, 0), 1); /* its end was enough */
    (void) close(go[0]);
    (void) close(ready[0]);
    (void) close(ready[1]);
}

static void test_half_made(void **state)
{
    struct place *place = *state;
    struct layer_work ours;
    struct layers *other;
    struct gb_err err;
    int status;
    pid_t pid;

    assert_int_equal(layer_work_begin(place->layers, &ours, &err), 0);
    pid = fork();
    if (pid == 0) {
        struct layers *layers;
        struct layer_work work;

        (void) close(ours.fd); /* or our lock would be its own */
        if (layers_open(place->dir, &layers, &err) < 0 ||
            layer_work_begin(layers, &work, &err) < 0 || mkdirat(work.fd, "half", 0700) < 0)
            _exit(1);
        _exit(0); /* as if it were killed */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(entries(place, "work"), 2);
    assert_int_equal(layers_open(place->dir, &other, &err), 0);
    assert_int_equal(entries(place, "work"), 1); /* somebody works on that one */
    layers_close(other);
    layer_work_abort(&ours);
    assert_int_equal(entries(place, "work"), 0);
}

/* ---- races ---- */

static void prune_all(struct place *place)
{
    assert_int_equal(prune(place, 0, 0), 0);
}

/* From its record on until its maker has it in use, a layer is not a stray one. */
static void test_pruned_while_it_is_stored(void **state)
{
    static const enum moment moments[] = { BEFORE_SYNC, BEFORE_SHARED };
    struct place *place = *state;
    char key[LAYER_KEY_MAX];

    key_of("new", key);
    for (size_t i = 0; i < ARRAY_LEN(moments); i++) {
        json_t *record = json_pack("{s:i}", "bytes", 10);
        struct layer_work work;
        struct layer *layer = NULL;
        struct gb_err err = { 0 };

        assert_int_equal(layer_work_begin(place->layers, &work, &err), 0);
        fill(work.fd, "new");
        let(place, moments[i], prune_all);
        if (layer_work_publish(&work, key, record, &layer, &err) < 0)
            fail_msg("moment %u: %s", moments[i], err.msg);
        assert_null(meanwhile[moments[i]]);
        json_decref(record);
        assert_true(there(place, "layers", key) && there(place, "records", record_of(key)));
        layer_unref(layer);
        assert_int_equal(prune(place, 0, 0), 1);
    }
}

static void open_another(struct place *place)
{
    struct layers *other;
    struct gb_err err;

    assert_int_equal(layers_open(place->dir, &other, &err), 0);
    layers_close(other);
}

/* The directory of a layer to be is made, and then locked: in between it looks left behind. */
static void test_swept_while_it_begins(void **state)
{
    struct place *place = *state;

    let(place, BEFORE_SHARED, open_another);
    layer_unref(publish(place, "new", 10));
    assert_null(meanwhile[BEFORE_SHARED]);
    assert_int_equal(entries(place, "work"), 0);
}

static struct {
    pthread_t thread;
    char key[LAYER_KEY_MAX];
    struct layer *layer;
    int result;
} reader;

static void name_it(struct place *place)
{
    json_t *set =
        json_pack("{s:[s],s:s,s:s}", "requirements", "x", "key", reader.key, "python", "p");
    struct gb_err err;

    assert_int_equal(set_put(place->layers, "key_1", set, &err), 0);
    json_decref(set);
}

static void *get_main(void *arg)
{
    struct place *place = arg;
    struct gb_err err;

    reader.result = layer_get(place->layers, reader.key, &reader.layer, &err);
    return NULL;
}

/* It is given the time to fail; that it waits cannot be seen otherwise. */
static void get_it(struct place *place)
{
    reader.result = 1;
    assert_int_equal(pthread_create(&reader.thread, NULL, get_main, place), 0);
    (void) usleep(200000);
}

/* What is looked at and stays must not seem to be gone meanwhile. */
static void test_wanted_while_it_is_looked_at(void **state)
{
    struct place *place = *state;

    leave(place, "named", 100, 90 * DAY_S, reader.key);
    let(place, BEFORE_EXCLUSIVE, name_it);
    let(place, EXCLUSIVE, get_it);
    assert_int_equal(prune(place, 0, 0), 0);
    assert_null(meanwhile[EXCLUSIVE]);
    assert_int_equal(pthread_join(reader.thread, NULL), 0);
    assert_int_equal(reader.result, 0);
    layer_unref(reader.layer);
    /* Known to be named, it is not locked at all. */
    let(place, EXCLUSIVE, get_it);
    assert_int_equal(prune(place, 0, 0), 0);
    assert_non_null(meanwhile[EXCLUSIVE]);
}

/* Two threads that miss a layer have one in the end. */
static void test_one_of_each(void **state)
{
    struct place *place = *state;
    struct layer *layer;
    struct gb_err err;

    leave(place, "shared", 100, 1, reader.key);
    let(place, BEFORE_SHARED, get_it);
    assert_int_equal(layer_get(place->layers, reader.key, &layer, &err), 0);
    assert_int_equal(pthread_join(reader.thread, NULL), 0);
    assert_int_equal(reader.result, 0);
    assert_ptr_equal(reader.layer, layer);
    layer_unref(layer);
    assert_int_equal(prune(place, 0, 0), 0);
    layer_unref(reader.layer);
    assert_int_equal(prune(place, 0, 0), 1);
}

/* Another one removes the same rubbish: nothing of it is put aside for ever. */
static void take_away(struct place *place)
{
    char from[300];

    snprintf(from, sizeof from, "%s", within(place, "work", "trash-900000/inner"));
    assert_int_equal(rename(from, within(place, "work", "trash-900001")), 0);
}

static void test_rubbish_for_two(void **state)
{
    struct place *place = *state;

    assert_int_equal(mkdir(within(place, "work", "trash-900000"), 0700), 0);
    assert_int_equal(mkdir(within(place, "work", "trash-900000/inner"), 0700), 0);
    assert_int_equal(mkdir(within(place, "work", "trash-900000/inner/most"), 0700), 0);
    let(place, BEFORE_MOVE, take_away);
    assert_int_equal(prune(place, 0, 0), 0);
    assert_null(meanwhile[BEFORE_MOVE]);
    assert_int_equal(entries(place, "work"), 0);
}

/* ---- what the dead leave ---- */

static void wait_for_end(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_killed_while_it_stores(void **state)
{
    struct place *place = *state;
    struct layers_stats stats;
    pid_t pid = fork();

    if (pid == 0) {
        let(place, BEFORE_SYNC, die);
        (void) publish(place, "half", 100);
        _exit(1);
    }
    wait_for_end(pid);
    assert_int_equal(entries(place, "work") + entries(place, "records"), 2);
    assert_int_equal(entries(place, "layers"), 0);
    assert_int_equal(prune(place, EVER, 30 * DAY_S), 1); /* however young */
    assert_int_equal(entries(place, "work") + entries(place, "records"), 0);
    layers_get_stats(place->layers, &stats);
    assert_int_equal(stats.bytes, 0);
    layer_unref(publish(place, "half", 100));
}

static void test_killed_while_it_removes(void **state)
{
    static const enum moment moments[] = { BEFORE_MOVE, MOVED };
    struct place *place = *state;
    char key[LAYER_KEY_MAX];

    for (size_t i = 0; i < ARRAY_LEN(moments); i++) {
        pid_t pid;

        leave(place, "old", 100, 90 * DAY_S, key);
        pid = fork();
        if (pid == 0) {
            let(place, moments[i], die);
            (void) prune(place, 0, 0);
            _exit(1);
        }
        wait_for_end(pid);
        assert_int_equal(prune(place, 0, 0), 1);
        assert_int_equal(
            entries(place, "work") + entries(place, "records") + entries(place, "layers"), 0);
    }
}

static void test_killed_while_it_writes(void **state)
{
    static const char *const parts[] = { "records", "requests", "sets" };
    struct timespec old[2] = { { .tv_sec = time(NULL) - DAY_S }, { .tv_sec = time(NULL) - DAY_S } };
    struct place *place = *state;

    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        assert_int_equal(mknod(within(place, parts[i], ".a.json.00000001"), S_IFREG | 0600, 0), 0);
        assert_int_equal(mknod(within(place, parts[i], ".b.json.00000002"), S_IFREG | 0600, 0), 0);
        assert_int_equal(utimensat(AT_FDCWD, within(place, parts[i], ".a.json.00000001"), old, 0),
                         0);
    }
    assert_int_equal(prune(place, 0, 0), 0);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        assert_false(there(place, parts[i], ".a.json.00000001"));
        assert_true(there(place, parts[i], ".b.json.00000002")); /* may be being written */
    }
}

static void test_lost_record(void **state)
{
    struct place *place = *state;
    struct layer *layer;
    char key[LAYER_KEY_MAX];
    struct gb_err err;

    leave(place, "x", 10, 1, key);
    assert_int_equal(unlink(within(place, "records", record_of(key))), 0);
    assert_int_equal(layer_get(place->layers, key, &layer, &err), -ENOENT);
    layer_unref(publish(place, "x", 10));
    assert_int_equal(layer_get(place->layers, key, &layer, &err), 0);
    layer_unref(layer);
    assert_int_equal(entries(place, "work"), 0);
}

static void test_requests(void **state)
{
    struct place *place = *state;
    struct timespec times[2] = { { .tv_sec = time(NULL) - 100 }, { .tv_sec = time(NULL) - 100 } };
    json_t *json = json_pack("{s:s}", "key", "k"), *got = NULL;
    char hash[LAYER_KEY_MAX];
    struct gb_err err;

    key_of("a request", hash);
    assert_int_equal(layers_request_get(place->layers, hash, EVER, &got), -ENOENT);
    assert_int_equal(layers_request_put(place->layers, hash, json, &err), 0);
    assert_int_equal(layers_request_get(place->layers, hash, 50 * USEC_PER_SEC, &got), 0);
    assert_true(json_equal(got, json));
    json_decref(got);
    json_decref(json);
    assert_int_equal(utimensat(AT_FDCWD, within(place, "requests", record_of(hash)), times, 0), 0);
    assert_int_equal(layers_request_get(place->layers, hash, 50 * USEC_PER_SEC, &got), -ENOENT);
    assert_int_equal(layers_request_get(place->layers, hash, 200 * USEC_PER_SEC, &got), 0);
    json_decref(got);
    /* What is no JSON is as good as nothing. */
    assert_int_equal(truncate(within(place, "requests", record_of(hash)), 3), 0);
    assert_int_equal(layers_request_get(place->layers, hash, EVER, &got), -ENOENT);
}

static int count(void *arg, const char *name, json_t *json)
{
    assert_string_equal(name, "key_1");
    assert_string_equal(json_string_value(json_object_get(json, "python")), "p");
    ++*(int *) arg;
    return 0;
}

static void test_sets(void **state)
{
    struct place *place = *state;
    char key[LAYER_KEY_MAX];
    json_t *set, *got = NULL;
    struct gb_err err;
    int64_t stamp;
    int found = 0;

    leave(place, "of a set", 100, 90 * DAY_S, key);
    set = json_pack("{s:[s],s:s,s:s}", "requirements", "x", "key", key, "python", "p");
    assert_int_equal(set_get(place->layers, "key_1", &got), -ENOENT);
    assert_int_equal(set_stamp(place->layers, "key_1"), 0);
    assert_int_equal(set_put(place->layers, "key_1", set, &err), 0);
    stamp = set_stamp(place->layers, "key_1");
    assert_true(stamp != 0);
    assert_int_equal(set_get(place->layers, "key_1", &got), 0);
    assert_true(json_equal(set, got));
    json_decref(got);
    assert_int_equal(set_each(place->layers, count, &found, &err), 0);
    assert_int_equal(found, 1);
    assert_int_equal(prune(place, 0, 0), 0); /* a set names it */
    assert_int_equal(set_put(place->layers, "key_1", set, &err), 0);
    assert_true(set_stamp(place->layers, "key_1") != stamp);
    assert_int_equal(set_remove(place->layers, "key_1", &err), 0);
    assert_int_equal(set_remove(place->layers, "key_1", &err), -ENOENT);
    assert_int_equal(prune(place, 0, 0), 1);
    json_decref(set);
}

static void test_names_of_sets(void **state)
{
    static const struct {
        const char *key; /* NULL: local */
        const char *listener, *name;
    } rows[] = {
        { "key_1", "http://127.0.0.1:80", "key_1" },
        { NULL, "http://127.0.0.1:80", "listener-127.0.0.1-80" },
        { NULL, "unix:///run/x.sock", "listener--run-x.sock" },
        { NULL, "", "listener-" },
        { NULL, NULL, "listener-" },
        { "../../etc", "", "-.-..-etc" },
        { "a/b\n\xff", "", "a-b--" },
    };
    char name[SET_NAME_MAX], longest[500];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct principal principal = { 0 };

        if (rows[i].key)
            assert_int_equal(principal_from_key(rows[i].key, &principal), 0);
        set_name(&principal, rows[i].listener, name);
        assert_string_equal(name, rows[i].name);
    }
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    set_name(&(struct principal){ 0 }, longest, name);
    assert_int_equal(strlen(name), SET_NAME_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_publish_and_get, setup, teardown),
        cmocka_unit_test_setup_teardown(test_abort, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_age, setup, teardown),
        cmocka_unit_test_setup_teardown(test_size, setup, teardown),
        cmocka_unit_test_setup_teardown(test_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_in_use_elsewhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_made, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pruned_while_it_is_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(test_swept_while_it_begins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wanted_while_it_is_looked_at, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_of_each, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rubbish_for_two, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_while_it_stores, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_while_it_removes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_while_it_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_record, setup, teardown),
        cmocka_unit_test_setup_teardown(test_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sets, setup, teardown),
        cmocka_unit_test(test_names_of_sets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
