/*
 * The catalogue as text for a model.
 *
 * All names, comments and samples are data of strangers. The caller fences the text; here nothing
 * may look like more than it is: characters that are not seen (controls, directions, tags) are left
 * out or escaped, a comment is one line, and identifiers and samples are quoted as the source's SQL
 * wants them, so that a model can copy them into a statement.
 *
 * What there is no room for is said: the tables that are most likely meant are described in full,
 * others by name, and how many more there are.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "mark/source/catalogue.h"
#include "mark/source/relevance.h"

#include "base/banned.h"

#define FULL_MAX     40 /* tables in full */
#define COLUMNS_FULL 80 /* columns of one table, unless it is asked for */
#define COLUMNS_ALL  1600
#define COMMENT_MAX  300
#define EXAMPLES_MAX 10
#define JOINS_SHOWN  40

/* ---- text that may be anything ---- */

/* Characters that are not seen, or change how others are. */
static bool is_hidden(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff0 && c <= 0xfffb) ||
           (c >= 0xe0000 && c <= 0xe0fff);
}

static bool has_hidden(const char *text)
{
    size_t len = strlen(text), unit;

    for (size_t i = 0; i < len; i += unit)
        if (utf8_next(text + i, len - i, &unit) != UTF8_CHAR ||
            is_hidden(utf8_decode(text + i, unit)))
            return true;
    return false;
}

/* One line of at most @max bytes. */
static void put_plain(FILE *out, const char *text, size_t max)
{
    size_t len = strlen(text), unit, used = 0;
    bool blank = true;

    for (size_t i = 0; i < len; i += unit) {
        bool is_char = utf8_next(text + i, len - i, &unit) == UTF8_CHAR;

        if (!is_char || is_hidden(utf8_decode(text + i, unit)) || text[i] == ' ') {
            if (!blank)
                (void) fputc(' ', out);
            blank = true;
            continue;
        }
        if (used + unit > max) {
            (void) fputs("…", out);
            return;
        }
        (void) fwrite(text + i, 1, unit, out);
        used += unit;
        blank = false;
    }
}

/* @text between @quote, which is doubled in it; hidden characters as SQL's U& escapes them. */
static void put_quoted(FILE *out, const char *text, char quote)
{
    bool escaped = has_hidden(text);
    size_t len = strlen(text), unit;

    (void) fprintf(out, "%s%c", escaped ? "U&" : "", quote);
    for (size_t i = 0; i < len; i += unit) {
        uint32_t c =
            utf8_next(text + i, len - i, &unit) == UTF8_CHAR ? utf8_decode(text + i, unit) : 0xfffd;

        if (is_hidden(c))
            (void) fprintf(out, c > 0xffff ? "\\+%06x" : "\\%04x", (unsigned) c);
        else if (escaped && c == '\\')
            (void) fputs("\\\\", out);
        else if (c == (unsigned char) quote)
            (void) fprintf(out, "%c%c", quote, quote);
        else
            (void) fwrite(text + i, 1, unit, out);
    }
    (void) fputc(quote, out);
}

/* GoogleSQL: backslashes, in identifiers and texts. */
static void put_escaped(FILE *out, const char *text, char quote)
{
    size_t len = strlen(text), unit;

    (void) fputc(quote, out);
    for (size_t i = 0; i < len; i += unit) {
        uint32_t c =
            utf8_next(text + i, len - i, &unit) == UTF8_CHAR ? utf8_decode(text + i, unit) : 0xfffd;

        if (is_hidden(c))
            (void) fprintf(out, "\\U%08x", (unsigned) c);
        else if (c == '\\' || c == (unsigned char) quote)
            (void) fprintf(out, "\\%c", (int) c);
        else
            (void) fwrite(text + i, 1, unit, out);
    }
    (void) fputc(quote, out);
}

static bool is_bigquery(const struct held *held)
{
    return strcmp(held->source.kind, "bigquery") == 0;
}

static bool is_files(const struct held *held)
{
    return strcmp(held->source.kind, "files") == 0;
}

/* Words of SQL that are likely names of columns and tables, and have to be quoted then. */
static bool is_reserved(const char *name)
{
    static const char *const words[] = {
        "all",     "analyse", "analyze", "and",        "any",     "array", "as",     "asc",
        "between", "both",    "by",      "case",       "cast",    "check", "column", "create",
        "current", "default", "desc",    "distinct",   "do",      "else",  "end",    "except",
        "exists",  "false",   "fetch",   "for",        "foreign", "from",  "full",   "grant",
        "group",   "having",  "hash",    "in",         "inner",   "into",  "is",     "join",
        "left",    "like",    "limit",   "merge",      "natural", "new",   "not",    "null",
        "of",      "offset",  "on",      "or",         "order",   "outer", "over",   "partition",
        "placing", "primary", "range",   "references", "right",   "rows",  "select", "set",
        "some",    "table",   "then",    "to",         "true",    "union", "unique", "user",
        "using",   "when",    "where",   "window",     "with",
    };

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcasecmp(words[i], name) == 0)
            return true;
    return false;
}

static bool is_simple(const char *name, size_t len, bool upper)
{
    char word[16];

    if (len == 0 || isdigit((unsigned char) name[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!(islower((unsigned char) name[i]) || isdigit((unsigned char) name[i]) ||
              name[i] == '_' || (upper && isupper((unsigned char) name[i]))))
            return false;
    if (len < sizeof word) {
        memcpy(word, name, len);
        word[len] = '\0';
        return !is_reserved(word);
    }
    return true;
}

static void put_identifier(FILE *out, const struct held *held, const char *name, size_t len)
{
    autofree char *copy = strndup(name, len);

    if (!copy)
        return;
    if (is_simple(name, len, is_bigquery(held)))
        (void) fwrite(name, 1, len, out);
    else if (is_bigquery(held))
        put_escaped(out, copy, '`');
    else
        put_quoted(out, copy, '"');
}

/* "schema.table" as SQL has it. A file's name is a path. */
static void put_table_name(FILE *out, const struct held *held, const char *name)
{
    const char *dot = strchr(name, '.');

    if (is_files(held)) {
        put_quoted(out, name, '"');
        return;
    }
    if (dot) {
        put_identifier(out, held, name, (size_t) (dot - name));
        (void) fputc('.', out);
        name = dot + 1;
    }
    put_identifier(out, held, name, strlen(name));
}

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* ---- tables ---- */

static void put_words(FILE *out, const json_t *words, const char *before)
{
    json_t *word;
    size_t i;

    json_array_foreach ((json_t *) words, i, word) {
        (void) fputs(i == 0 ? before : ", ", out);
        put_plain(out, json_string_value(word), 200);
    }
}

static void put_samples(FILE *out, const struct held *held, const json_t *samples)
{
    json_t *sample;
    size_t i;

    json_array_foreach ((json_t *) samples, i, sample) {
        (void) fputs(i == 0 ? "; such as " : ", ", out);
        if (is_bigquery(held))
            put_escaped(out, json_string_value(sample), '\'');
        else
            put_quoted(out, json_string_value(sample), '\'');
    }
}

static void put_about(FILE *out, const char *before, const char *text)
{
    if (!text || !text[0])
        return;
    (void) fputs(before, out);
    put_plain(out, text, COMMENT_MAX);
}

static void put_column(FILE *out, const struct held *held, const struct table_view *view,
                       const json_t *column)
{
    const char *name = text_of(column, "name"), *type = text_of(column, "source_type");
    const json_t *notes = name ? view_column_notes(view, name) : NULL;
    bool masked = name && view_is_masked(view, name);

    if (!name)
        return;
    (void) fputs("  ", out);
    put_identifier(out, held, name, strlen(name));
    put_about(out, " ", type ? type : text_of(column, "type"));
    if (json_is_true(json_object_get(column, "key")))
        (void) fputs(", key", out);
    if (json_is_false(json_object_get(column, "nullable")))
        (void) fputs(", not null", out);
    put_about(out, ", refers to ", text_of(column, "references"));
    put_about(out, ", in ", text_of(notes, "unit"));
    if (masked)
        (void) fputs(", MASKED: a query that reads it is refused", out);
    put_about(out, ": ", text_of(notes, "description"));
    put_about(out, text_of(notes, "description") ? "; " : ": ", text_of(column, "comment"));
    put_words(out, json_object_get(notes, "synonyms"), "; also called ");
    if (!masked)
        put_samples(out, held, json_object_get(column, "samples"));
    (void) fputc('\n', out);
}

static void put_table(FILE *out, const struct held *held, const struct table_view *view,
                      size_t columns_max)
{
    json_t *columns = json_object_get(view->info, "columns"), *column;
    const json_t *rows = json_object_get(view->info, "rows");
    const char *kind = text_of(view->info, "kind");
    size_t i;

    (void) fputs("Table ", out);
    put_table_name(out, held, view->name);
    if (kind && strcmp(kind, "table") != 0)
        put_about(out, ", a ", kind);
    if (json_is_integer(rows))
        (void) fprintf(out, ", about %lld rows", (long long) json_integer_value(rows));
    if (json_is_true(json_object_get(view->info, "row_security")))
        (void) fputs(", shows each user its own rows", out);
    put_about(out, ", partitioned by ", text_of(view->info, "partitioning"));
    put_about(out, ": ", text_of(view->notes, "description"));
    put_about(out, text_of(view->notes, "description") ? "; " : ": ",
              text_of(view->info, "comment"));
    put_words(out, json_object_get(view->notes, "synonyms"), "; also called ");
    (void) fputc('\n', out);
    json_array_foreach (columns, i, column) {
        if (i >= columns_max) {
            (void) fprintf(out, "  and %zu more columns: describe_table has them\n",
                           json_array_size(columns) - i);
            break;
        }
        put_column(out, held, view, column);
    }
}

/* ---- a source as a whole ---- */

/* One source while the text is made. */
struct shelf {
    struct held held;
    struct table_view *views;
    size_t len;
    json_t *notes;
};

/* One table among all of them. */
struct place {
    size_t shelf, view;
    double score;
    bool full;
};

static void put_head(FILE *out, const struct shelf *shelf)
{
    const char *about = text_of(shelf->held.settings, "description");

    (void) fprintf(out, "Source %s, %s, %zu tables", shelf->held.source.name,
                   shelf->held.source.kind, shelf->len);
    put_about(out, ": ", about);
    (void) fputc('\n', out);
    if (is_files(&shelf->held))
        (void) fprintf(out,
                       "Its tables are files: mark.path(\"%s\", \"file\") is the path of one, and "
                       "mark.query(\"%s\", sql) asks DuckDB, where each has the name that is told "
                       "with it.\n",
                       shelf->held.source.name, shelf->held.source.name);
}

/* Joins that people wrote down; those of foreign keys are with their columns. */
static void put_joins(FILE *out, const struct shelf *shelf)
{
    json_t *joins = json_object_get(shelf->notes, "joins"), *join;
    size_t i;

    json_array_foreach (joins, i, join) {
        const char *left = text_of(join, "left"), *right = text_of(join, "right");

        if (i >= JOINS_SHOWN || !left || !right)
            break;
        (void) fputs("Join ", out);
        put_plain(out, left, COMMENT_MAX);
        put_about(out, " = ", right);
        put_about(out, ": ", text_of(join, "note"));
        (void) fputc('\n', out);
    }
}

static void put_examples(FILE *out, const struct shelf *shelf)
{
    json_t *examples = json_object_get(shelf->notes, "examples"), *example;
    size_t i;

    json_array_foreach (examples, i, example) {
        const char *question = text_of(example, "question"), *sql = text_of(example, "sql");

        if (i >= EXAMPLES_MAX || !question)
            break;
        (void) fputs("Example: ", out);
        put_plain(out, question, COMMENT_MAX);
        if (sql) {
            (void) fputs(" -> ", out);
            put_plain(out, sql, 1000);
        }
        (void) fputc('\n', out);
    }
}

/* ---- what is relevant ---- */

static void add_words(struct relevance *relevance, const json_t *words, double weight)
{
    json_t *word;
    size_t i;

    json_array_foreach ((json_t *) words, i, word)
        relevance_add(relevance, json_string_value(word), weight);
}

static void add_document(struct relevance *relevance, const struct shelf *shelf,
                         const struct table_view *view)
{
    json_t *columns = json_object_get(view->info, "columns"), *column, *example;
    json_t *examples = json_object_get(shelf->notes, "examples");
    size_t i;

    relevance_begin(relevance);
    relevance_add(relevance, view->name, 3);
    relevance_add(relevance, shelf->held.source.name, 1);
    relevance_add(relevance, text_of(view->notes, "description"), 2);
    relevance_add(relevance, text_of(view->info, "comment"), 2);
    add_words(relevance, json_object_get(view->notes, "synonyms"), 3);
    json_array_foreach (columns, i, column) {
        const char *name = text_of(column, "name");
        const json_t *notes = name ? view_column_notes(view, name) : NULL;

        relevance_add(relevance, name, 1.5);
        relevance_add(relevance, text_of(column, "comment"), 1);
        relevance_add(relevance, text_of(notes, "description"), 1);
        relevance_add(relevance, text_of(notes, "unit"), 0.5);
        add_words(relevance, json_object_get(notes, "synonyms"), 1.5);
        if (name && !view_is_masked(view, name))
            add_words(relevance, json_object_get(column, "samples"), 0.5);
    }
    json_array_foreach (examples, i, example)
        if (text_of(example, "sql") && strcasestr(text_of(example, "sql"), view->name))
            relevance_add(relevance, text_of(example, "question"), 2);
}

/* Which table a place ("schema.table.column") is in; the number of tables: none. */
static size_t table_of(const json_t *index, const struct shelf *shelf, const char *place)
{
    const char *dot = place ? strrchr(place, '.') : NULL;
    autofree char *name = dot ? strndup(place, (size_t) (dot - place)) : NULL;
    const json_t *at = name ? json_object_get(index, name) : NULL;

    return at ? (size_t) json_integer_value(at) : shelf->len;
}

struct spreading {
    const struct shelf *shelf;
    json_t *index; /* the number of each table by its name */
    const struct place *places;
    double *more;
};

static void spread_link(struct spreading *s, size_t from, size_t to)
{
    if (from >= s->shelf->len || to >= s->shelf->len || from == to)
        return;
    s->more[to] += 0.3 * s->places[from].score;
    s->more[from] += 0.3 * s->places[to].score;
}

/* A question about revenue by category needs both tables, though it may be about one: what a table
 * refers to, or is joined with, gets a part of its score. */
static void spread(const struct shelf *shelf, struct place *places)
{
    json_t *joins = json_object_get(shelf->notes, "joins"), *join, *column;
    autofree double *more = calloc(shelf->len + 1, sizeof *more);
    struct spreading s = { shelf, json_object(), places, more };
    size_t c, j;

    for (size_t i = 0; s.index && i < shelf->len; i++)
        (void) json_object_set_new(s.index, shelf->views[i].name, json_integer((json_int_t) i));
    for (size_t i = 0; more && i < shelf->len; i++) {
        json_t *columns = json_object_get(shelf->views[i].info, "columns");

        json_array_foreach (columns, c, column)
            spread_link(&s, i, table_of(s.index, shelf, text_of(column, "references")));
    }
    json_array_foreach (joins, j, join)
        if (more)
            spread_link(&s, table_of(s.index, shelf, text_of(join, "left")),
                        table_of(s.index, shelf, text_of(join, "right")));
    for (size_t i = 0; more && i < shelf->len; i++)
        places[i].score += more[i];
    json_decref(s.index);
}

static int by_score(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->shelf != y->shelf ? (x->shelf < y->shelf ? -1 : 1)
                                : (x->view < y->view ? -1 : x->view > y->view);
}

/* All tables of all sources, the most relevant first; for free(). */
static struct place *rank(const struct shelf *shelves, size_t len, const char *question,
                          size_t *ret_len)
{
    struct relevance *relevance = relevance_new(question);
    struct place *places = NULL;
    double *scores = NULL;
    size_t total = 0, n = 0;

    for (size_t i = 0; i < len; i++)
        total += shelves[i].len;
    for (size_t i = 0; relevance && i < len; i++)
        for (size_t j = 0; j < shelves[i].len; j++)
            add_document(relevance, &shelves[i], &shelves[i].views[j]);
    scores = relevance ? relevance_scores(relevance) : NULL;
    places = scores ? calloc(total + 1, sizeof *places) : NULL;
    for (size_t i = 0; places && i < len; i++) {
        for (size_t j = 0; j < shelves[i].len; j++)
            places[n + j] = (struct place){ .shelf = i, .view = j, .score = scores[n + j] };
        spread(&shelves[i], places + n);
        n += shelves[i].len;
    }
    free(scores);
    relevance_free(relevance);
    if (places)
        qsort(places, total, sizeof *places, by_score);
    *ret_len = total;
    return places;
}

/* ---- loading ---- */

static void shelves_free(struct shelf *shelves, size_t len)
{
    for (size_t i = 0; shelves && i < len; i++) {
        views_free(shelves[i].views, shelves[i].len);
        json_decref(shelves[i].notes);
        held_release(&shelves[i].held);
    }
    free(shelves);
}

/* What the caller may see of @names; a source that is gone meanwhile is left out. */
static struct shelf *shelves_load(struct sources *sources, const struct caller *caller,
                                  char *const *names, size_t *ret_len)
{
    struct fault fault = { 0 };
    struct shelf *shelves;
    size_t count = 0, len = 0;
    struct whom whom;

    while (names && names[count])
        count++;
    shelves = calloc(count + 1, sizeof *shelves);
    if (!shelves || whom_find(sources, caller, &whom, &fault) < 0) {
        free(shelves);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        struct shelf *shelf = &shelves[len];

        if (held_find(sources, &whom, names[i], &shelf->held, &fault) < 0)
            continue;
        if (!held_usable(&shelf->held, &whom) ||
            views_load(sources, &shelf->held, false, &shelf->views, &shelf->len, &fault) < 0) {
            held_release(&shelf->held);
            continue;
        }
        shelf->notes = source_stored(shelf->held.source.notes);
        len++;
    }
    *ret_len = len;
    return shelves;
}

/* ---- the text ---- */

/* The text of one table, for free(). */
static char *table_text(const struct shelf *shelf, size_t view, size_t columns_max)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    if (!out)
        return NULL;
    put_table(out, &shelf->held, &shelf->views[view], columns_max);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* Marks what is shown in full, as long as it fits into @max bytes. */
static void choose(const struct shelf *shelves, struct place *places, size_t len, size_t max)
{
    size_t used = 0, full = 0;

    for (size_t i = 0; i < len && full < FULL_MAX; i++) {
        autofree char *text = table_text(&shelves[places[i].shelf], places[i].view, COLUMNS_FULL);
        size_t size = text ? strlen(text) : max;

        if (used + size > max)
            continue;
        used += size;
        places[i].full = true;
        full++;
    }
}

static void put_names(FILE *out, const struct shelf *shelves, const struct place *places,
                      size_t len, size_t shelf, size_t max)
{
    size_t left = 0, shown = 0;
    long start = ftell(out);

    for (size_t i = 0; i < len; i++) {
        if (places[i].shelf != shelf || places[i].full)
            continue;
        if (ftell(out) - start > (long) max) {
            left++;
            continue;
        }
        (void) fputs(shown++ ? ", " : "More tables, which describe_table describes: ", out);
        put_table_name(out, &shelves[shelf].held, shelves[shelf].views[places[i].view].name);
    }
    if (left)
        (void) fprintf(out, ", and %zu that are not listed: mark.tables(\"%s\") has all", left,
                       shelves[shelf].held.source.name);
    if (shown)
        (void) fputc('\n', out);
}

static void put_shelf(FILE *out, const struct shelf *shelves, const struct place *places,
                      size_t len, size_t shelf, size_t names_max)
{
    put_head(out, &shelves[shelf]);
    for (size_t i = 0; i < len; i++)
        if (places[i].shelf == shelf && places[i].full)
            put_table(out, &shelves[shelf].held, &shelves[shelf].views[places[i].view],
                      COLUMNS_FULL);
    put_names(out, shelves, places, len, shelf, names_max);
    put_joins(out, &shelves[shelf]);
    put_examples(out, &shelves[shelf]);
    if (shelves[shelf].len == 0)
        (void) fputs("Nothing is known about its tables yet, or you may read none of them.\n", out);
}

/* Cuts between lines, and says so. */
static char *cut(char *text, size_t max)
{
    static const char more[] = "(The rest does not fit here.)\n";
    size_t at;

    if (!text || strlen(text) <= max)
        return text;
    at = max > sizeof more ? max - sizeof more : 0;
    while (at > 0 && text[at - 1] != '\n')
        at--;
    text[at] = '\0';
    if (at + sizeof more <= max + 1)
        memcpy(text + at, more, sizeof more);
    return text;
}

static char *shelves_text(const struct shelf *shelves, size_t shelves_len, const char *question,
                          size_t max)
{
    size_t len = 0, size = 0;
    struct place *places = rank(shelves, shelves_len, question, &len);
    char *text = NULL;
    FILE *out = places ? open_memstream(&text, &size) : NULL;

    if (out) {
        choose(shelves, places, len, max / 4 * 3);
        for (size_t i = 0; i < shelves_len; i++)
            put_shelf(out, shelves, places, len, i, max / 8 / shelves_len);
        if (fclose(out) != 0) {
            free(text);
            text = NULL;
        }
    }
    free(places);
    return cut(text, max);
}

char *views_text(const struct held *held, struct table_view *views, size_t len, json_t *notes,
                 const char *question, size_t max)
{
    struct shelf shelf = { .held = *held, .views = views, .len = len, .notes = notes };

    return shelves_text(&shelf, 1, question, max);
}

char *catalogue_text(struct sources *sources, const struct caller *caller, char *const *names,
                     const char *question, size_t max)
{
    size_t len = 0;
    struct shelf *shelves = shelves_load(sources, caller, names, &len);
    char *text = shelves ? shelves_text(shelves, len, question, max) : NULL;

    shelves_free(shelves, len);
    return text;
}

/* ---- one table ---- */

/* How well @view is named by @table: 3 exactly, 2 in another case, 1 without its schema; 0 not. */
static int fits(const struct table_view *view, const char *table)
{
    const char *dot = strchr(view->name, '.');

    if (strcmp(view->name, table) == 0)
        return 3;
    if (strcasecmp(view->name, table) == 0)
        return 2;
    return dot && strcasecmp(dot + 1, table) == 0 ? 1 : 0;
}

/* Quotes around the parts of a name are not a part of it. */
static char *unquoted(const char *table)
{
    char *copy = strdup(table);
    size_t used = 0;

    for (size_t i = 0; copy && copy[i]; i++)
        if (copy[i] != '"' && copy[i] != '`')
            copy[used++] = copy[i];
    if (copy)
        copy[used] = '\0';
    return copy;
}

static void put_list(FILE *out, const struct shelf *shelf)
{
    put_head(out, shelf);
    for (size_t i = 0; i < shelf->len; i++) {
        const struct table_view *view = &shelf->views[i];
        const char *about = text_of(view->notes, "description");

        (void) fputs("Table ", out);
        put_table_name(out, &shelf->held, view->name);
        put_about(out, ": ", about ? about : text_of(view->info, "comment"));
        (void) fputc('\n', out);
    }
    put_joins(out, shelf);
}

/* The tables that fit best, or what there is instead. */
static void put_found(FILE *out, const struct shelf *shelves, size_t len, const char *source,
                      const char *table)
{
    autofree char *name = unquoted(table);
    bool any = false;
    int best = 0;

    for (int pass = 0; name && pass < 2; pass++)
        for (size_t i = 0; i < len; i++)
            for (size_t j = 0; j < shelves[i].len; j++) {
                int fit;

                if (source[0] && strcmp(shelves[i].held.source.name, source) != 0)
                    continue;
                fit = fits(&shelves[i].views[j], table);
                if (fit == 0)
                    fit = fits(&shelves[i].views[j], name);
                if (pass == 0 && fit > best)
                    best = fit;
                if (pass == 1 && best > 0 && fit == best) {
                    (void) fprintf(out, "Source %s\n", shelves[i].held.source.name);
                    put_table(out, &shelves[i].held, &shelves[i].views[j], COLUMNS_ALL);
                    put_joins(out, &shelves[i]);
                    any = true;
                }
            }
    if (!any) {
        (void) fputs("There is no such table. There are:\n", out);
        for (size_t i = 0; i < len; i++)
            if (!source[0] || strcmp(shelves[i].held.source.name, source) == 0)
                put_list(out, &shelves[i]);
    }
}

char *catalogue_table_text(struct sources *sources, const struct caller *caller, char *const *names,
                           const char *source, const char *table, size_t max)
{
    size_t len = 0, size = 0;
    struct shelf *shelves = shelves_load(sources, caller, names, &len);
    char *text = NULL;
    FILE *out = shelves ? open_memstream(&text, &size) : NULL;
    bool known = !source || !source[0];

    for (size_t i = 0; !known && i < len; i++)
        known = strcmp(shelves[i].held.source.name, source) == 0;
    if (!out) {
        shelves_free(shelves, len);
        return NULL;
    }
    if (!known) {
        (void) fputs("There is no such source. There are:", out);
        for (size_t i = 0; i < len; i++)
            (void) fprintf(out, " %s", shelves[i].held.source.name);
        (void) fputc('\n', out);
    } else if (table && table[0]) {
        put_found(out, shelves, len, source ? source : "", table);
    } else {
        for (size_t i = 0; i < len; i++)
            if (!source || !source[0] || strcmp(shelves[i].held.source.name, source) == 0)
                put_list(out, &shelves[i]);
    }
    shelves_free(shelves, len);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return cut(text, max);
}
