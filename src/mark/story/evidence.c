/*
 * An index of what an answer computed.
 *
 * Theory of operation. Everything that is added is read as numerals (numeral.h), whose numbers go
 * into an array that is sorted before it is asked, and whose dates, times and words go as hashes
 * into another. There are three such pairs: what was computed, what was given, and the literals of
 * the code. A computed number that is among the literals is not added at all. So the order matters:
 * code first, then what it put out. A literal that repeats what an earlier step computed is no
 * literal.
 *
 * A story asks for a range: the numeral with half of its last digit on both sides. That is one
 * search in a sorted array, whatever was added.
 *
 * Everything has a tag that says where it came from: how good such a place is (enum rank), which
 * one it is (struct place), and of a table the row and the column. The numbers of a table are many,
 * its place is one, so there are few places and a tag is eight bytes.
 */

#include "mark/story/evidence.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/story/places.h"
#include "mark/story/sorted.h"

#include "base/banned.h"

#define CHUNK_BYTES ((size_t) 64 * 1024)
#define VALUES_MAX  1000u

/* ---- what is known ---- */

struct known {
    struct numbers numbers;
    struct numbers percents; /* as they were written: 12.5 of "12.5 %" */
    struct hashes words;     /* dates, times, versions, words with digits, long numbers */
    uint64_t from;           /* the tag of what is added next */
};

struct evidence {
    struct known computed, given, literals;
    json_t *values; /* by name: {"value", "unit"?, "format"?, "step", "counts"} */
    struct places places;
    int64_t step;   /* of the outputs that are added */
    int64_t tables; /* that were added */
};

static void known_sort(struct known *known)
{
    numbers_sort(&known->numbers);
    numbers_sort(&known->percents);
    hashes_sort(&known->words);
}

static void known_release(struct known *known)
{
    free(known->numbers.items);
    free(known->percents.items);
    free(known->words.items);
}

static uint64_t date_hash(char kind, int a, int b, int c)
{
    char text[64];
    int len = snprintf(text, sizeof(text), "\n%c%d-%d-%d", kind, a, b, c);

    return numeral_hash(text, len > 0 ? (size_t) len : 0);
}

static uint64_t long_hash(const struct numeral *numeral)
{
    return numeral->text ^ 0x9e3779b97f4a7c15u;
}

static int date_add(struct known *known, int year, int month, int day, bool parts)
{
    int r = 0;

    if (day && year)
        r = hashes_add(&known->words, date_hash('d', year, month, day), known->from);
    if (r == 0 && year && (parts || !day))
        r = hashes_add(&known->words, date_hash('m', year, month, 0), known->from);
    if (r == 0 && day && (parts || !year))
        r = hashes_add(&known->words, date_hash('n', 0, month, day), known->from);
    if (r == 0 && year && parts)
        r = numbers_add(&known->numbers, year, known->from);
    return r;
}

static int time_add(struct known *known, const struct numeral *numeral)
{
    int r =
        hashes_add(&known->words, date_hash('t', numeral->hour, numeral->minute, -1), known->from);

    if (r == 0 && numeral->second >= 0)
        r = hashes_add(&known->words,
                       date_hash('t', numeral->hour, numeral->minute, numeral->second),
                       known->from);
    return r;
}

static int number_add(struct known *known, double value, double percent)
{
    int r = numbers_add(&known->numbers, value, known->from);

    if (r == 0 && percent > 0)
        r = numbers_add(&known->percents, value, known->from);
    if (r == 0 && percent > 0)
        r = numbers_add(&known->numbers, value / percent, known->from);
    return r;
}

/* Adds every reading. @parts: a date is also a month and a year. */
static int known_add(struct known *known, const struct numeral *numeral, bool parts)
{
    double sign = numeral->sign < 0 ? -1 : 1;
    int r = 0;

    switch (numeral->kind) {
    case NUMERAL_NUMBER:
    case NUMERAL_RATIO:
        r = number_add(known, sign * numeral->value * numeral->scale, numeral->percent);
        if (r == 0 && numeral->other_scale > 0)
            r = number_add(known, sign * numeral->value * numeral->other_scale, numeral->percent);
        if (r == 0 && numeral->style == NUMERAL_STYLE_EITHER)
            r = number_add(known, sign * numeral->comma_value * numeral->scale, numeral->percent);
        if (r == 0 && numeral->kind == NUMERAL_RATIO)
            r = number_add(known, numeral->part, 0);
        if (r == 0 && numeral->kind == NUMERAL_RATIO)
            r = number_add(known, numeral->total, 0);
        if (r == 0 && numeral->digits > 15)
            r = hashes_add(&known->words, long_hash(numeral), known->from);
        break;
    case NUMERAL_DATE:
        r = date_add(known, numeral->year, numeral->month, numeral->day, parts);
        if (r == 0 && numeral->swapped_day)
            r = date_add(known, numeral->year, numeral->swapped_month, numeral->swapped_day, parts);
        break;
    case NUMERAL_TIME:
        r = time_add(known, numeral);
        break;
    case NUMERAL_WORD:
        r = hashes_add(&known->words, numeral->text, known->from);
        break;
    case NUMERAL_ODD:
        return 0;
    }
    return r == 0 && numeral->word ? hashes_add(&known->words, numeral->word, known->from) : r;
}

/* ---- literals ---- */

static bool literals_have(const struct evidence *evidence, double value, double half)
{
    half += fabs(value) * EPSILON;
    return numbers_have(&evidence->literals.numbers, fabs(value) - half, fabs(value) + half);
}

/* Whether the code says it. Also one that it rounds or scales: print(f"{1234.567:.1f}"). */
static bool is_literal(const struct evidence *evidence, const struct numeral *numeral)
{
    const struct known *literals = &evidence->literals;
    double value = numeral->value * numeral->scale, half = 0.5 * numeral->unit * numeral->scale;

    if (literals->numbers.full || literals->words.full)
        return true; /* no telling any more */
    if (numeral->word && hashes_have(&literals->words, numeral->word))
        return true;
    switch (numeral->kind) {
    case NUMERAL_NUMBER:
    case NUMERAL_RATIO:
        return literals_have(evidence, value, half) ||
               (numeral->percent > 0 &&
                literals_have(evidence, value / numeral->percent, half / numeral->percent));
    case NUMERAL_DATE:
        return hashes_have(&literals->words,
                           date_hash('d', numeral->year, numeral->month, numeral->day)) ||
               (!numeral->day &&
                hashes_have(&literals->words, date_hash('m', numeral->year, numeral->month, 0))) ||
               (!numeral->year &&
                hashes_have(&literals->words, date_hash('n', 0, numeral->month, numeral->day)));
    case NUMERAL_TIME:
        return hashes_have(&literals->words,
                           date_hash('t', numeral->hour, numeral->minute, numeral->second));
    case NUMERAL_WORD:
        return hashes_have(&literals->words, numeral->text);
    case NUMERAL_ODD:
        return true;
    }
    return true;
}

/* Three digits or more. */
static bool is_suspicious(const struct numeral *numeral)
{
    return numeral->kind != NUMERAL_NUMBER || numeral->digits >= 3 ||
           numeral->value * numeral->scale >= 100;
}

static bool is_known(const struct evidence *evidence, double value)
{
    double half = fabs(value) * EPSILON, size = fabs(value);
    const struct numbers *computed = &evidence->computed.numbers, *given = &evidence->given.numbers;

    return numbers_have(computed, size - half, size + half) ||
           numbers_have(computed, -size - half, -size + half) ||
           numbers_have(given, size - half, size + half) ||
           numbers_have(given, -size - half, -size + half);
}

static int literal_add(struct evidence *evidence, const struct numeral *numeral)
{
    struct numeral plain = *numeral;

    if (!is_suspicious(numeral))
        return 0;
    plain.sign = 0;
    if (numeral->kind == NUMERAL_NUMBER && is_known(evidence, plain.value * plain.scale))
        return 0;
    if (numeral->kind != NUMERAL_NUMBER && evidence_finds(evidence, numeral, EVIDENCE_POINT, NULL))
        return 0;
    return known_add(&evidence->literals, &plain, false);
}

/* ---- reading texts ---- */

struct reader {
    struct evidence *evidence;
    int (*take)(struct reader *reader, const struct numeral *numeral);
    size_t taken, refused;
};

static int take_computed(struct reader *reader, const struct numeral *numeral)
{
    if (is_literal(reader->evidence, numeral)) {
        reader->refused++;
        return 0;
    }
    reader->taken++;
    return known_add(&reader->evidence->computed, numeral, true);
}

static int take_given(struct reader *reader, const struct numeral *numeral)
{
    return known_add(&reader->evidence->given, numeral, true);
}

static int take_literal(struct reader *reader, const struct numeral *numeral)
{
    return literal_add(reader->evidence, numeral);
}

static int read_chunk(struct reader *reader, const char *text, size_t len, enum numerals_mode mode)
{
    struct numerals *numerals;
    struct numeral numeral;
    int r = numerals_open(text, len, mode, &numerals);

    if (r < 0)
        return r;
    while (r == 0 && numerals_next(numerals, &numeral))
        r = reader->take(reader, &numeral);
    numerals_close(numerals);
    return r;
}

/* In pieces of bounded size that end at a space if they can. */
static int read_text(struct reader *reader, const char *text, size_t len, enum numerals_mode mode)
{
    while (len > 0) {
        size_t piece = len < CHUNK_BYTES ? len : CHUNK_BYTES, cut = piece;
        int r;

        while (piece < len && cut > CHUNK_BYTES / 2 && text[cut - 1] != '\n' &&
               text[cut - 1] != ' ')
            cut--;
        if (piece < len && cut > CHUNK_BYTES / 2)
            piece = cut;
        r = read_chunk(reader, text, piece, mode);
        if (r < 0)
            return r;
        text += piece;
        len -= piece;
    }
    return 0;
}

/* ---- adding ---- */

struct evidence *evidence_new(void)
{
    struct evidence *evidence = calloc(1, sizeof(*evidence));

    if (!evidence)
        return NULL;
    evidence->values = json_object();
    evidence->places.messages = json_object();
    if (evidence->values && evidence->places.messages)
        return evidence;
    evidence_free(evidence);
    return NULL;
}

void evidence_free(struct evidence *evidence)
{
    if (!evidence)
        return;
    known_release(&evidence->computed);
    known_release(&evidence->given);
    known_release(&evidence->literals);
    json_decref(evidence->values);
    places_release(&evidence->places);
    free(evidence);
}

void evidence_sort(struct evidence *evidence)
{
    known_sort(&evidence->computed);
    known_sort(&evidence->given);
    known_sort(&evidence->literals);
}

static int read_computed(struct evidence *evidence, const char *text, size_t len)
{
    struct reader reader = { .evidence = evidence, .take = take_computed };

    return read_text(&reader, text, len, NUMERALS_PRINTED);
}

void evidence_set_step(struct evidence *evidence, int64_t step)
{
    evidence->step = step;
}

int evidence_add_output(struct evidence *evidence, const char *text, size_t len)
{
    struct place place = { .rank = RANK_OUTPUT, .step = evidence->step };

    evidence->computed.from = places_tag(&evidence->places, &place);
    return read_computed(evidence, text, len);
}

int evidence_add_given(struct evidence *evidence, enum evidence_given given, const char *text,
                       size_t len)
{
    struct reader reader = { .evidence = evidence, .take = take_given };
    struct place place = { .rank = given == EVIDENCE_QUESTION ? RANK_QUESTION
                                   : given == EVIDENCE_DATA   ? RANK_DATA
                                                              : RANK_QUERY,
                           .step = given == EVIDENCE_QUERY ? evidence->step : 0 };
    int r;

    evidence->given.from = places_tag(&evidence->places, &place);
    r = read_text(&reader, text, len, NUMERALS_PRINTED);
    return r < 0 ? r : read_text(&reader, text, len, NUMERALS_STORY);
}

/* 1_000, 0x3e8, and 12_34, which is a number only in Python. */
static int read_python_numbers(struct evidence *evidence, const char *code, size_t len)
{
    for (size_t i = 0; i < len;) {
        struct numeral numeral = { .kind = NUMERAL_NUMBER, .scale = 1 };
        bool prefixed = code[i] == '0' && i + 1 < len && strchr("xXoObB", code[i + 1]) != NULL;
        unsigned base = !prefixed                     ? 10
                        : (code[i + 1] | 0x20) == 'x' ? 16
                        : (code[i + 1] | 0x20) == 'o' ? 8
                                                      : 2;
        bool underscore = prefixed;
        int r;

        if (code[i] < '0' || code[i] > '9') {
            i++;
            continue;
        }
        for (i += prefixed ? 2 : 0; i < len; i++) {
            int c = code[i] | 0x20, digit = code[i] >= '0' && code[i] <= '9'     ? code[i] - '0'
                                            : base == 16 && c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                                                 : -1;

            if (digit < 0 && code[i] != '_')
                break;
            underscore = underscore || code[i] == '_';
            if (digit >= 0) {
                numeral.value = numeral.value * base + digit;
                numeral.digits++;
            }
        }
        r = underscore ? literal_add(evidence, &numeral) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

int evidence_add_code(struct evidence *evidence, const char *code, size_t len)
{
    struct reader reader = { .evidence = evidence, .take = take_literal };
    int r;

    evidence_sort(evidence);
    r = read_text(&reader, code, len, NUMERALS_PRINTED);
    if (r == 0)
        r = read_text(&reader, code, len, NUMERALS_STORY);
    if (r == 0)
        r = read_python_numbers(evidence, code, len);
    known_sort(&evidence->literals);
    return r;
}

static int add_number(struct evidence *evidence, const json_t *number, const char *unit,
                      bool *ret_counts)
{
    double value = json_number_value(number);
    struct numeral numeral = { .scale = 1 };
    struct numerals *numerals;
    autofree char *text = NULL;
    int r;

    *ret_counts = !literals_have(evidence, value, 0) && !evidence->literals.numbers.full;
    if (!*ret_counts)
        return 0;
    r = number_add(&evidence->computed, value, 0);
    if (r < 0 || !unit)
        return r;
    /* What the unit makes of it: "M EUR", "%". */
    if (asprintf(&text, "1 %s", unit) < 0)
        return -ENOMEM;
    r = numerals_open(text, strlen(text), NUMERALS_STORY, &numerals);
    if (r < 0)
        return r;
    if (numerals_next(numerals, &numeral) && (numeral.scale != 1 || numeral.percent > 0))
        r = number_add(&evidence->computed, value * numeral.scale, numeral.percent);
    numerals_close(numerals);
    return r;
}

static int add_long_integer(struct evidence *evidence, const json_t *number)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(number));

    return read_computed(evidence, text, len > 0 ? (size_t) len : 0);
}

static int add_json(struct evidence *evidence, const json_t *item, const char *unit,
                    bool *ret_counts)
{
    struct reader reader = { .evidence = evidence, .take = take_computed };
    int r = 0;

    *ret_counts = true;
    if (json_is_number(item)) {
        r = add_number(evidence, item, unit, ret_counts);
        if (r == 0 && json_is_integer(item) && llabs(json_integer_value(item)) > 1000000000000000)
            r = add_long_integer(evidence, item);
    } else if (json_is_string(item)) {
        r = read_text(&reader, json_string_value(item), json_string_length(item), NUMERALS_PRINTED);
        *ret_counts = reader.refused == 0;
    }
    return r;
}

static struct place place_of(struct evidence *evidence, enum rank rank, const char *message_id,
                             const json_t *handed)
{
    return (struct place){ .rank = rank,
                           .message_id = places_message(&evidence->places, message_id),
                           .step = json_integer_value(json_object_get(handed, "step")),
                           .line = json_integer_value(json_object_get(handed, "line")) };
}

int evidence_add_value(struct evidence *evidence, const json_t *value)
{
    const json_t *item = json_object_get(value, "value");
    const char *name = json_string_value(json_object_get(value, "name"));
    const char *message_id = json_string_value(json_object_get(value, "message_id"));
    bool counts;
    json_t *kept;
    struct place place;
    int r;

    if (!name || !item || json_is_object(item) || json_is_array(item) ||
        (json_object_size(evidence->values) >= VALUES_MAX &&
         !json_object_get(evidence->values, name)))
        return 0;
    place = place_of(evidence, message_id ? RANK_EARLIER : RANK_VALUE, message_id, value);
    evidence->computed.from = places_tag(&evidence->places, &place);
    r = add_json(evidence, item, json_string_value(json_object_get(value, "unit")), &counts);
    if (r < 0)
        return r;
    kept = json_copy((json_t *) value);
    if (!kept || json_object_set_new(kept, "counts", json_boolean(counts)) < 0 ||
        json_object_set(evidence->values, name, kept) < 0)
        r = -ENOMEM;
    json_decref(kept);
    return r;
}

int evidence_add_table(struct evidence *evidence, const json_t *table)
{
    const json_t *columns = json_object_get(table, "columns");
    const json_t *rows = json_object_get(table, "rows"), *row, *cell, *column;
    struct place place = place_of(evidence, RANK_TABLE, NULL, table);
    uint64_t from;
    size_t i, k;
    bool ignored;
    int r;

    place.table = ++evidence->tables;
    evidence->computed.from = from = places_tag(&evidence->places, &place);
    r = number_add(&evidence->computed, (double) json_array_size(columns), 0);
    if (r == 0)
        r = add_json(evidence, json_object_get(table, "row_count"), NULL, &ignored);
    json_array_foreach (columns, i, column)
        if (r == 0)
            r = add_json(evidence, json_object_get(column, "name"), NULL, &ignored);
    json_array_foreach (rows, i, row)
        json_array_foreach (row, k, cell) {
            evidence->computed.from = places_cell(from, i, k);
            if (r == 0)
                r = add_json(evidence, cell, NULL, &ignored);
        }
    return r;
}

/* ---- asking ---- */

/* Each returns the tag of what it found, or FROM_NOWHERE. */

static uint64_t find(const struct evidence *evidence, double low, double high, double value)
{
    return from_better(numbers_find(&evidence->computed.numbers, low, high, value),
                       numbers_find(&evidence->given.numbers, low, high, value));
}

static uint64_t find_word(const struct evidence *evidence, uint64_t hash)
{
    return from_better(hashes_find(&evidence->computed.words, hash),
                       hashes_find(&evidence->given.words, hash));
}

/* Half of the last digit that means something: of "about 1,200" that is the 2. */
static double half_unit(const struct numeral *numeral, double value, double unit)
{
    double half = unit / 2;

    if (numeral->about && numeral->whole && value >= 10) {
        double place = 1;

        while (fmod(value, place * 10) == 0 && place < value)
            place *= 10;
        half = fmax(half, fmin(place / 2, value * 0.05));
    }
    /* A whole number is a count as often as not: 1 for 0.6 is no rounding to a reader. */
    if (numeral->whole && numeral->percent == 0)
        half = fmin(half, value * 0.1);
    return half;
}

static bool may_rise(const struct numeral *numeral)
{
    return numeral->sign >= 0;
}

static bool may_fall(const struct numeral *numeral)
{
    return numeral->sign < 0 || (numeral->sign == 0 && numeral->falls);
}

/* One reading: @value with half a unit on both sides. */
static uint64_t find_number(const struct evidence *evidence, const struct numeral *numeral,
                            double value, double half)
{
    uint64_t from = FROM_NOWHERE;
    double low, high;

    half += fabs(value) * EPSILON;
    low = value - half;
    high = value + half;
    if (may_rise(numeral))
        from = find(evidence, low, high, value);
    if (may_fall(numeral))
        from = from_better(from, find(evidence, -high, -low, -value));
    return from;
}

static uint64_t find_percent(const struct evidence *evidence, const struct numeral *numeral,
                             double value, double half)
{
    const struct numbers *known[] = { &evidence->computed.percents, &evidence->given.percents };
    double low = value - half - value * EPSILON, high = value + half + value * EPSILON;
    uint64_t from =
        find_number(evidence, numeral, value / numeral->percent, half / numeral->percent);

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (may_rise(numeral))
            from = from_better(from, numbers_find(known[i], low, high, value));
        if (may_fall(numeral))
            from = from_better(from, numbers_find(known[i], -high, -low, -value));
    }
    /* A bare 12.5 may be a percentage; a bare 0.125 is rather a share, and "0.125 %" a mistake. */
    if (value >= 1 && numeral->percent == 100)
        from = from_better(from, find_number(evidence, numeral, value, half));
    return from;
}

static uint64_t find_reading(const struct evidence *evidence, const struct numeral *numeral,
                             double value, double unit, double scale)
{
    double half = half_unit(numeral, value, unit) * scale;

    value *= scale;
    if (numeral->percent > 0)
        return find_percent(evidence, numeral, value, half);
    return find_number(evidence, numeral, value, half);
}

static uint64_t find_value(const struct evidence *evidence, const struct numeral *numeral,
                           enum evidence_style style)
{
    double value = numeral->value, unit = numeral->unit;
    uint64_t from;

    if (numeral->digits > 15)
        return numeral->scale == 1 ? find_word(evidence, long_hash(numeral)) : FROM_NOWHERE;
    if (numeral->style == NUMERAL_STYLE_EITHER) {
        if (style == EVIDENCE_MIXED)
            return FROM_NOWHERE;
        if (style == EVIDENCE_COMMA) {
            value = numeral->comma_value;
            unit = numeral->comma_unit;
        }
    }
    from = find_reading(evidence, numeral, value, unit, numeral->scale);
    if (from == FROM_NOWHERE && numeral->other_scale > 0)
        from = find_reading(evidence, numeral, value, unit, numeral->other_scale);
    return from;
}

static uint64_t find_ratio(const struct evidence *evidence, const struct numeral *numeral)
{
    uint64_t from = find_number(evidence, numeral, numeral->value, 0.005);

    if (from == FROM_NOWHERE &&
        find(evidence, numeral->total, numeral->total, numeral->total) != FROM_NOWHERE)
        from = find(evidence, numeral->part, numeral->part, numeral->part);
    return from;
}

static uint64_t find_date(const struct evidence *evidence, int year, int month, int day)
{
    if (!day)
        return find_word(evidence, date_hash('m', year, month, 0));
    if (!year)
        return find_word(evidence, date_hash('n', 0, month, day));
    return find_word(evidence, date_hash('d', year, month, day));
}

static uint64_t find_numeral(const struct evidence *evidence, const struct numeral *numeral,
                             enum evidence_style style)
{
    uint64_t from = FROM_NOWHERE;

    if (numeral->kind == NUMERAL_ODD)
        return FROM_NOWHERE;
    if (numeral->word)
        from = find_word(evidence, numeral->word);
    if (from != FROM_NOWHERE)
        return from;
    switch (numeral->kind) {
    case NUMERAL_NUMBER:
        return find_value(evidence, numeral, style);
    case NUMERAL_RATIO:
        return find_ratio(evidence, numeral);
    case NUMERAL_DATE:
        from = find_date(evidence, numeral->year, numeral->month, numeral->day);
        if (from == FROM_NOWHERE && numeral->swapped_day)
            from = find_date(evidence, numeral->year, numeral->swapped_month, numeral->swapped_day);
        return from;
    case NUMERAL_TIME:
        return find_word(evidence, date_hash('t', numeral->hour, numeral->minute, numeral->second));
    case NUMERAL_WORD:
        return find_word(evidence, numeral->text);
    case NUMERAL_ODD:
        return FROM_NOWHERE;
    }
    return FROM_NOWHERE;
}

bool evidence_finds(const struct evidence *evidence, const struct numeral *numeral,
                    enum evidence_style style, struct origin *ret_origin)
{
    uint64_t from = find_numeral(evidence, numeral, style);

    if (from == FROM_NOWHERE)
        return false;
    if (ret_origin)
        *ret_origin = places_origin(&evidence->places, from);
    return true;
}

const json_t *evidence_value(const struct evidence *evidence, const char *name, bool *ret_counts)
{
    const json_t *value = json_object_get(evidence->values, name);
    const json_t *item = json_object_get(value, "value");

    *ret_counts = json_is_true(json_object_get(value, "counts"));
    if (value && !*ret_counts && json_is_number(item)) {
        double number = json_number_value(item), half = fabs(number) * EPSILON;

        *ret_counts = numbers_have(&evidence->given.numbers, number - half, number + half) ||
                      numbers_have(&evidence->computed.numbers, number - half, number + half);
    }
    return value;
}
