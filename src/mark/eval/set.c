/*
 * The file with the questions. It is written by people and checked in full, because a member with a
 * slip in its name would be an expectation that nobody checks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/json_depth.h"
#include "base/text/parse.h"
#include "mark/agent/agent.h"
#include "mark/eval/internal.h"

#include "base/banned.h"

#define FILE_BYTES_MAX (INT64_C(16) * 1024 * 1024)
#define DEPTH_MAX      16
#define LIST_MAX       100 /* values, lies, texts, tags of one question */
#define NAME_MAX_BYTES 64
#define TEXT_MAX_BYTES 4096

/* Where we are in the file, for errors. */
struct place {
    const char *path; /* of the file */
    const char *id;   /* of the question; NULL: none */
    struct gb_err *err;
};

__attribute__((format(printf, 2, 3))) static int wrong(const struct place *place, const char *fmt,
                                                       ...)
{
    char what[300];
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (place->id)
        return gb_fail_plain(place->err, EINVAL, "%s: question '%s': %s", place->path, place->id,
                             what);
    return gb_fail_plain(place->err, EINVAL, "%s: %s", place->path, what);
}

/* ---- members ---- */

static int check_members(const struct place *place, const json_t *object, const char *what,
                         const char *const *names)
{
    const char *key;
    json_t *value;

    if (!json_is_object(object))
        return wrong(place, "%s is not an object", what);
    json_object_foreach ((json_t *) object, key, value) {
        const char *const *name = names;

        while (*name && strcmp(*name, key) != 0)
            name++;
        if (!*name)
            return wrong(place, "%s has a member \"%.60s\", which is unknown", what, key);
    }
    return 0;
}

static int check_text(const struct place *place, const json_t *json, const char *what, size_t max)
{
    if (!json_is_string(json) || json_string_length(json) == 0 ||
        json_string_length(json) != strlen(json_string_value(json)) ||
        json_string_length(json) > max)
        return wrong(place, "%s is not a text of 1 to %zu bytes", what, max);
    return 0;
}

static int check_texts(const struct place *place, const json_t *list, const char *what, size_t max)
{
    const json_t *item;
    size_t i;

    if (!list)
        return 0;
    if (!json_is_array(list) || json_array_size(list) > LIST_MAX)
        return wrong(place, "%s is not a list of at most %d", what, LIST_MAX);
    json_array_foreach (list, i, item)
        if (check_text(place, item, what, max) < 0)
            return -EINVAL;
    return 0;
}

static bool is_name(const char *text)
{
    for (const char *p = text; *p; p++)
        if (!((*p | 32) >= 'a' && (*p | 32) <= 'z') && !(*p >= '0' && *p <= '9') &&
            !strchr("._-", *p))
            return false;
    return *text && strlen(text) <= NAME_MAX_BYTES;
}

/* ---- what is expected ---- */

static int check_value(const struct place *place, const json_t *value)
{
    static const char *const names[] = { "name", "value", "tolerance", "unit", NULL };
    const json_t *number = json_object_get(value, "value");
    const json_t *tolerance = json_object_get(value, "tolerance");
    const json_t *name = json_object_get(value, "name"), *unit = json_object_get(value, "unit");

    if (check_members(place, value, "an expected value", names) < 0)
        return -EINVAL;
    if (!json_is_number(number) && check_text(place, number, "\"value\"", TEXT_MAX_BYTES) < 0)
        return -EINVAL;
    if (tolerance && (!json_is_number(tolerance) || json_number_value(tolerance) < 0))
        return wrong(place, "\"tolerance\" is not a number from 0");
    if (name && check_text(place, name, "\"name\"", NAME_MAX_BYTES) < 0)
        return -EINVAL;
    return unit ? check_text(place, unit, "\"unit\"", NAME_MAX_BYTES) : 0;
}

static int check_status(const struct place *place, const json_t *status)
{
    static const char *const words[] = { EVAL_STATUSES };

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (json_is_string(status) && strcmp(json_string_value(status), words[i]) == 0)
            return 0;
    return wrong(place, "\"status\" is ok, needs_input or error");
}

static int check_unsupported(const struct place *place, const json_t *range)
{
    static const char *const names[] = { "min", "max", NULL };
    const char *key;
    json_t *value;

    if (check_members(place, range, "\"unsupported\"", names) < 0)
        return -EINVAL;
    json_object_foreach ((json_t *) range, key, value)
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return wrong(place, "\"%s\" of \"unsupported\" is not a whole number from 0", key);
    return 0;
}

static int check_expect(const struct place *place, const json_t *expect)
{
    static const char *const names[] = { "status", "values", "text", "unsupported", NULL };
    static const char *const text_names[] = { "has", "not", NULL };
    const json_t *values = json_object_get(expect, "values"), *value;
    const json_t *text = json_object_get(expect, "text");
    size_t i;

    if (!expect)
        return wrong(place, "it has no \"expect\"");
    if (check_members(place, expect, "\"expect\"", names) < 0)
        return -EINVAL;
    if (json_object_get(expect, "status") &&
        check_status(place, json_object_get(expect, "status")) < 0)
        return -EINVAL;
    if (values && (!json_is_array(values) || json_array_size(values) > LIST_MAX))
        return wrong(place, "\"values\" is not a list of at most %d", LIST_MAX);
    json_array_foreach (values, i, value)
        if (check_value(place, value) < 0)
            return -EINVAL;
    if (text && (check_members(place, text, "\"text\"", text_names) < 0 ||
                 check_texts(place, json_object_get(text, "has"), "\"has\"", TEXT_MAX_BYTES) < 0 ||
                 check_texts(place, json_object_get(text, "not"), "\"not\"", TEXT_MAX_BYTES) < 0))
        return -EINVAL;
    if (json_object_get(expect, "unsupported"))
        return check_unsupported(place, json_object_get(expect, "unsupported"));
    return 0;
}

static int check_lies(const struct place *place, const json_t *lies)
{
    const json_t *lie;
    size_t i;

    if (!lies)
        return 0;
    if (!json_is_array(lies) || json_array_size(lies) > LIST_MAX)
        return wrong(place, "\"lies\" is not a list of at most %d", LIST_MAX);
    json_array_foreach (lies, i, lie)
        if (!json_is_number(lie))
            return wrong(place, "\"lies\" are numbers");
    return 0;
}

/* ---- files ---- */

/* Replaces the names of @owner's files, which are relative to the set, by their paths. */
static int resolve_files(const struct place *place, struct eval_set *set, json_t *owner)
{
    const char *slash = strrchr(place->path, '/');
    int dir_len = slash ? (int) (slash - place->path) + 1 : 0;
    json_t *files = json_object_get(owner, "files"), *file, *known;
    size_t i, k;

    if (check_texts(place, files, "\"files\"", TEXT_MAX_BYTES) < 0)
        return -EINVAL;
    if (json_array_size(files) > AGENT_ATTACHMENTS_MAX)
        return wrong(place, "it has more than %d files", AGENT_ATTACHMENTS_MAX);
    json_array_foreach (files, i, file) {
        autofree char *path = NULL;
        bool seen = false;

        if (json_string_value(file)[0] == '/')
            return wrong(place, "the file '%.200s' is not relative to the set",
                         json_string_value(file));
        if (asprintf(&path, "%.*s%s", dir_len, place->path, json_string_value(file)) < 0) {
            path = NULL;
            return gb_fail(place->err, ENOMEM, "read '%s'", place->path);
        }
        if (access(path, R_OK) < 0)
            return gb_fail_plain(place->err, errno, "%s: cannot read the file '%.200s': %s",
                                 place->path, path, strerrordesc_np(errno));
        json_array_foreach (set->files, k, known)
            seen = seen || strcmp(json_string_value(known), path) == 0;
        if (json_array_set_new(files, i, json_string(path)) < 0 ||
            (!seen && json_array_append_new(set->files, json_string(path)) < 0))
            return gb_fail(place->err, ENOMEM, "read '%s'", place->path);
    }
    return 0;
}

/* ---- questions ---- */

/* What the set says for all questions holds for one that does not say it itself. */
static int inherit(const struct eval_set *set, json_t *question, const char *key)
{
    json_t *shared = json_object_get(set->root, key);

    return !shared || json_object_get(question, key) ? 0 : json_object_set(question, key, shared);
}

static int check_question(struct place *place, struct eval_set *set, json_t *question, json_t *ids)
{
    static const char *const names[] = { "id",     "question", "files",   "sources", "tags",
                                         "expect", "lies",     "comment", NULL };
    const char *id = json_string_value(json_object_get(question, "id"));

    place->id = NULL;
    if (!id || !is_name(id))
        return wrong(place, "a question has no \"id\" of letters, digits and ._-");
    place->id = id;
    if (json_object_get(ids, id))
        return wrong(place, "there are two of this name");
    if (check_members(place, question, "it", names) < 0 ||
        check_text(place, json_object_get(question, "question"), "\"question\"", AGENT_QUERY_MAX) <
            0 ||
        check_texts(place, json_object_get(question, "tags"), "\"tags\"", NAME_MAX_BYTES) < 0 ||
        check_texts(place, json_object_get(question, "sources"), "\"sources\"", NAME_MAX_BYTES) <
            0 ||
        check_expect(place, json_object_get(question, "expect")) < 0 ||
        check_lies(place, json_object_get(question, "lies")) < 0 ||
        resolve_files(place, set, question) < 0)
        return -EINVAL;
    if (json_object_set_new(ids, id, json_true()) < 0 || inherit(set, question, "files") < 0 ||
        inherit(set, question, "sources") < 0)
        return gb_fail(place->err, ENOMEM, "read '%s'", place->path);
    return 0;
}

static int check_set(struct place *place, struct eval_set *set)
{
    static const char *const names[] = { "name",    "description", "files",
                                         "sources", "questions",   NULL };
    json_t *ids = json_object(), *question;
    size_t i;
    int r = check_members(place, set->root, "the file", names);

    set->questions = json_object_get(set->root, "questions");
    if (r == 0 && json_object_get(set->root, "name"))
        r = check_text(place, json_object_get(set->root, "name"), "\"name\"", TEXT_MAX_BYTES);
    if (r == 0)
        r = check_texts(place, json_object_get(set->root, "sources"), "\"sources\"",
                        NAME_MAX_BYTES);
    if (r == 0)
        r = resolve_files(place, set, set->root);
    if (r == 0 && (json_array_size(set->questions) == 0 ||
                   json_array_size(set->questions) > EVAL_QUESTIONS_MAX))
        r = wrong(place, "\"questions\" is not a list of 1 to %d", EVAL_QUESTIONS_MAX);
    json_array_foreach (set->questions, i, question)
        if (r == 0)
            r = check_question(place, set, question, ids);
    json_decref(ids);
    return r;
}

/* ---- the file ---- */

static int read_json(const char *path, json_t **ret_json, struct gb_err *err)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    autofree char *text = NULL;
    json_error_t error;
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return gb_fail(err, errno, "open '%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_BYTES_MAX)
        return gb_fail_plain(err, EINVAL, "'%s' is not a file of at most 16m", path);
    text = malloc((size_t) st.st_size + 1);
    n = text ? io_read_all(fd, text, (size_t) st.st_size) : -ENOMEM;
    if (n < 0)
        return gb_fail(err, (int) -n, "read '%s'", path);
    if (json_too_deep(text, (size_t) n, DEPTH_MAX))
        return gb_fail_plain(err, EINVAL, "%s: it is nested too deeply", path);
    *ret_json = json_loadb(text, (size_t) n, JSON_REJECT_DUPLICATES, &error);
    if (!*ret_json)
        return gb_fail_plain(err, EINVAL, "%s: line %d: %s", path, error.line, error.text);
    return 0;
}

int eval_read(const char *path, struct eval_set **ret_set, struct gb_err *err)
{
    struct eval_set *set = calloc(1, sizeof *set);
    struct place place = { .path = path, .err = err };
    int r;

    if (!set || !(set->files = json_array()))
        r = gb_fail(err, ENOMEM, "read '%s'", path);
    else
        r = read_json(path, &set->root, err);
    if (r == 0)
        r = check_set(&place, set);
    if (r < 0)
        eval_free(set);
    else
        *ret_set = set;
    return r;
}

void eval_free(struct eval_set *set)
{
    if (!set)
        return;
    json_decref(set->root);
    json_decref(set->files);
    free(set);
}

size_t eval_count(const struct eval_set *set)
{
    return json_array_size(set->questions);
}

const json_t *eval_files(const struct eval_set *set)
{
    return set->files;
}
