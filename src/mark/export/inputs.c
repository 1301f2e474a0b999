/*
 * What a notebook needs to compute its answers again: the module mark, the files that were
 * attached, the results of queries as they were recorded, and what came out, to compare with. All
 * of it goes into a zip, in the notebook or beside it.
 *
 * Entries have names of our own in ASCII; inputs.json says what they are. So the names of files,
 * which are a stranger's, are never names in an archive.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/hex.h"
#include "mark/broker/broker.h"
#include "mark/export/internal.h"
#include "store/results.h"

#include "base/banned.h"

#define COPY_BYTES  ((size_t) 256 * 1024)
#define CELLS_MAX   200000 /* of tables that are compared, of all answers */
#define RESULTS_MAX 10000
#define HASH_MAX    (2 * STORE_HASH_BYTES + 1)

extern const char mark_module_text[]; /* box/mark.py */

/* ---- zip ---- */

struct archive *zip_open(int fd)
{
    struct archive *zip = archive_write_new();

    if (zip && archive_write_set_format_zip(zip) == ARCHIVE_OK &&
        archive_write_set_bytes_in_last_block(zip, 1) == ARCHIVE_OK &&
        archive_write_open_fd(zip, fd) == ARCHIVE_OK)
        return zip;
    if (zip)
        (void) archive_write_free(zip);
    return NULL;
}

static int begin_entry(struct archive *zip, const char *name, int64_t size)
{
    struct archive_entry *entry = archive_entry_new();
    int r;

    if (!entry)
        return -ENOMEM;
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, size);
    archive_entry_set_mtime(entry, 946684800, 0); /* 2000: the same content is the same file */
    r = archive_write_header(zip, entry) == ARCHIVE_OK ? 0 : -EIO;
    archive_entry_free(entry);
    return r;
}

int zip_add(struct archive *zip, const char *name, const void *data, size_t len)
{
    if (begin_entry(zip, name, (int64_t) len) < 0)
        return -EIO;
    return archive_write_data(zip, data, len) == (la_ssize_t) len ? 0 : -EIO;
}

int zip_add_fd(struct archive *zip, const char *name, int fd, int64_t size)
{
    autofree char *buf = malloc(COPY_BYTES);
    ssize_t n = 0;

    if (!buf || begin_entry(zip, name, size) < 0)
        return -EIO;
    while ((n = io_read_all(fd, buf, COPY_BYTES)) > 0)
        if (archive_write_data(zip, buf, (size_t) n) != n)
            return -EIO;
    return n < 0 ? (int) n : 0;
}

int zip_close(struct archive *zip)
{
    int r = archive_write_close(zip) == ARCHIVE_OK ? 0 : -EIO;

    (void) archive_write_free(zip);
    return r;
}

int zip_fault(struct fault *fault)
{
    return fault_set(fault, PROBLEM_INTERNAL, NULL,
                     "the inputs could not be packed; is the disk of the service full?");
}

/* ---- what is needed ---- */

static void hash_text(const uint8_t hash[STORE_HASH_BYTES], char buf[HASH_MAX])
{
    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        hex_put(hash[i], buf + 2 * i);
    buf[HASH_MAX - 1] = '\0';
}

static bool hash_parse(const char *text, uint8_t ret_hash[STORE_HASH_BYTES])
{
    if (!hex_is(text, 2 * (size_t) STORE_HASH_BYTES))
        return false;
    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        ret_hash[i] = (uint8_t) (hex_value(text[2 * i]) << 4 | hex_value(text[2 * i + 1]));
    return true;
}

static void collect_files(struct inputs *in, const json_t *details)
{
    const json_t *file;
    char entry[40];
    size_t i;

    json_array_foreach (json_object_get(details, "files"), i, file) {
        const char *path = member_text(file, "path");
        json_int_t size = json_integer_value(json_object_get(file, "size"));

        if (strncmp(path, "data/", 5) != 0 || json_object_get(in->files, path))
            continue;
        (void) snprintf(entry, sizeof entry, "files/%zu", json_object_size(in->files) + 1);
        (void) json_object_set_new(
            in->files, path,
            json_pack("{s:s, s:s, s:I, s:s}", "name", member_text(file, "name"), "sha256",
                      member_text(file, "sha256"), "size", size, "entry", entry));
        in->bytes += size;
    }
}

/* What a query gave: its content, by its hash, or why it failed. */
static json_t *collect_result(struct inputs *in, const struct store_result *result)
{
    char hash[HASH_MAX], entry[40];
    json_t *query, *failed;

    if (result->size == 0) {
        query = result->query ? json_loads(result->query, JSON_ALLOW_NUL, NULL) : NULL;
        failed = json_pack("{s:s, s:s}", "word", member_text(query, "status"), "message",
                           member_text(query, "message"));
        json_decref(query);
        return failed;
    }
    hash_text(result->sha256, hash);
    if (!json_object_get(in->results, hash)) {
        (void) snprintf(entry, sizeof entry, "results/%zu", json_object_size(in->results) + 1);
        (void) json_object_set_new(
            in->results, hash,
            json_pack("{s:I, s:s}", "size", (json_int_t) result->size, "entry", entry));
        in->bytes += result->size;
    }
    return json_string(hash);
}

/* Results of queries, in the order in which the programs asked. */
static int collect_results(struct selection *selection, struct inputs *in, const char *message_id,
                           struct fault *fault)
{
    struct store_result *results = NULL;
    size_t len = 0;
    struct gb_err err;
    int r = store_result_list(selection->exports->config.store,
                              principal_text(&selection->caller->principal), message_id, &results,
                              &len, &err);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return fault_set(fault, PROBLEM_INTERNAL, NULL, "%s; try again", err.msg);
    for (size_t i = 0; i < len && json_object_size(in->results) < RESULTS_MAX; i++) {
        char key[HASH_MAX];

        hash_text(results[i].key, key);
        if (!json_object_get(in->replay, key))
            (void) json_object_set_new(in->replay, key, json_array());
        (void) json_array_append_new(json_object_get(in->replay, key),
                                     collect_result(in, &results[i]));
    }
    store_results_free(results, len);
    return 0;
}

static bool step_ended_well(const json_t *answer, json_int_t n)
{
    const json_t *step;
    size_t i;

    json_array_foreach (json_object_get(answer, "steps"), i, step)
        if (json_integer_value(json_object_get(step, "n")) == n)
            return strcmp(member_text(json_object_get(step, "receipt"), "status"), "ok") == 0;
    return true;
}

/* Those of programs that failed are left out: they are not run again. */
static void collect_expected(struct inputs *in, const struct item *item)
{
    json_t *numbers = json_array(), *tables = json_array(), *one;
    size_t i;

    json_array_foreach (json_object_get(item->answer, "values"), i, one)
        if (step_ended_well(item->answer, json_integer_value(json_object_get(one, "step"))))
            (void) json_array_append(numbers, one);
    json_array_foreach (json_object_get(item->answer, "data"), i, one) {
        const json_t *rows = json_object_get(one, "rows");

        in->cells += (int64_t) json_array_size(rows) *
                     (int64_t) json_array_size(json_object_get(one, "columns"));
        if (in->cells <= CELLS_MAX &&
            step_ended_well(item->answer, json_integer_value(json_object_get(one, "step"))))
            (void) json_array_append(tables, one);
    }
    (void) json_object_set_new(in->answers, item->id,
                               json_pack("{s:o, s:o}", "values", numbers, "tables", tables));
}

struct collecting {
    struct selection *selection;
    struct inputs *in;
};

static int collect_item(void *arg, struct item *item, struct fault *fault)
{
    struct collecting *c = arg;
    const char *packages = member_text(item->details, "packages");

    collect_files(c->in, item->details);
    if (!item->before)
        collect_expected(c->in, item);
    if (*packages)
        (void) json_object_set_new(c->in->packages, packages, json_true());
    return collect_results(c->selection, c->in, item->id, fault);
}

/* Before anything is written: what is missing, and whether it can be opened. */
static int check_files(struct selection *selection, const struct inputs *in, struct fault *fault)
{
    const char *path;
    json_t *file;

    json_object_foreach (in->files, path, file) {
        uint8_t hash[STORE_HASH_BYTES];
        autoclose int fd = -1;
        struct gb_err err;

        if (!hash_parse(member_text(file, "sha256"), hash) ||
            attachment_open(selection->exports->config.attachments, hash, &fd, &err) < 0)
            return fault_set(fault, PROBLEM_INPUTS_GONE, NULL,
                             "the file %.100s of this chat was deleted, so a notebook could not "
                             "compute its answers; take html, md or json",
                             member_text(file, "name"));
    }
    return 0;
}

int inputs_collect(struct selection *selection, struct inputs *ret_inputs, struct fault *fault)
{
    struct inputs in = { .files = json_object(),
                         .results = json_object(),
                         .replay = json_object(),
                         .answers = json_object(),
                         .packages = json_object() };
    struct collecting c = { .selection = selection, .in = &in };
    int r = selection_each(selection, true, collect_item, &c, fault);

    if (r == 0)
        r = check_files(selection, &in, fault);
    if (r < 0)
        inputs_release(&in);
    else
        *ret_inputs = in;
    return r;
}

void inputs_release(struct inputs *inputs)
{
    json_decref(inputs->files);
    json_decref(inputs->results);
    json_decref(inputs->replay);
    json_decref(inputs->answers);
    json_decref(inputs->packages);
    *inputs = (struct inputs){ 0 };
}

/* ---- packing ---- */

static int pack_text(struct archive *zip, const char *prefix, const char *name, const char *text)
{
    char path[80];

    (void) snprintf(path, sizeof path, "%s%s", prefix, name);
    return zip_add(zip, path, text, strlen(text));
}

static int pack_list(struct archive *zip, const char *prefix, const struct inputs *in)
{
    json_t *json = json_pack("{s:O, s:O, s:O, s:O}", "files", in->files, "results", in->results,
                             "replay", in->replay, "answers", in->answers);
    autofree char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

    json_decref(json);
    return text ? pack_text(zip, prefix, "inputs.json", text) : -ENOMEM;
}

static int pack_fd(struct archive *zip, const char *prefix, const json_t *about, int fd)
{
    char path[80];

    (void) snprintf(path, sizeof path, "%s%s", prefix, member_text(about, "entry"));
    return zip_add_fd(zip, path, fd, json_integer_value(json_object_get(about, "size")));
}

int inputs_pack(struct selection *selection, const struct inputs *in, struct archive *zip,
                const char *prefix, struct fault *fault)
{
    struct exports *exports = selection->exports;
    uint8_t hash[STORE_HASH_BYTES];
    struct gb_err err;
    const char *key;
    json_t *about;

    if (pack_text(zip, prefix, "mark.py", mark_module_text) < 0 || pack_list(zip, prefix, in) < 0)
        return zip_fault(fault);
    json_object_foreach (in->files, key, about) {
        autoclose int fd = -1;

        if (!hash_parse(member_text(about, "sha256"), hash) ||
            attachment_open(exports->config.attachments, hash, &fd, &err) < 0 ||
            pack_fd(zip, prefix, about, fd) < 0)
            return zip_fault(fault);
    }
    json_object_foreach (in->results, key, about) {
        autoclose int fd = -1;

        if (!hash_parse(key, hash) || result_open_in(exports->config.data_dir, hash, &fd, &err) < 0)
            return fault_set(fault, PROBLEM_INPUTS_GONE, NULL,
                             "the recorded result of a query is gone, so a notebook could not "
                             "compute its answers; take html, md or json");
        if (pack_fd(zip, prefix, about, fd) < 0)
            return zip_fault(fault);
    }
    return 0;
}
