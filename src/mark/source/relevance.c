/*
 * Words. "orderItems", "order_items" and "Order Items2" have the words order and item: case,
 * underscores, digits and the plural's s do not matter. That is crude for languages other than
 * English, and good enough to put tables in an order: nothing is lost by it, because what does not
 * fit is listed by name, and the model can ask for it.
 */
#include "mark/source/relevance.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "store/fold.h"

#include "base/banned.h"

#define TERMS_MAX 64
#define TEXT_MAX  20000 /* bytes of one text that are looked at */
#define K1        1.2
#define B         0.5 /* long tables are not less relevant: half of the usual */

struct document {
    double length, counts[TERMS_MAX];
};

struct relevance {
    uint64_t terms[TERMS_MAX];
    size_t terms_len;
    struct document *documents;
    size_t len, cap;
    bool failed;
};

/* ---- words ---- */

static uint64_t hash_of(const char *word, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char) word[i]) * UINT64_C(1099511628211);
    return hash;
}

/* Without the plural: orders, categories, boxes; not status, class, analysis. */
static uint64_t term_of(const char *word, size_t len)
{
    char stem[64];

    if (len >= 4 && len < sizeof stem && word[len - 1] == 's' && !strchr("sui", word[len - 2])) {
        memcpy(stem, word, len);
        len--;
        if (len > 3 && word[len - 1] == 'e' && word[len - 2] == 'i') {
            len -= 1;
            stem[len - 1] = 'y';
        } else if (len > 3 && word[len - 1] == 'e' &&
                   (word[len - 2] == 'x' || word[len - 2] == 'h' ||
                    (word[len - 2] == 's' && word[len - 3] == 's'))) {
            len -= 1;
        }
        return hash_of(stem, len);
    }
    return hash_of(word, len);
}

/* @text in lower case, with a blank between words. NULL: out of memory. */
static char *spaced(const char *text)
{
    size_t len = strnlen(text, TEXT_MAX), used = 0;
    autofree char *buf = malloc(2 * len + 1);

    if (!buf)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char) text[i], before = i ? (unsigned char) text[i - 1] : ' ';
        bool is_word = isalnum(c) || c >= 0x80;
        bool turns = (islower(before) && isupper(c)) || (isdigit(before) && !isdigit(c)) ||
                     (!isdigit(before) && isdigit(c));

        if (turns && is_word)
            buf[used++] = ' ';
        buf[used++] = is_word ? (char) c : ' ';
    }
    buf[used] = '\0';
    return store_fold(buf, 2 * TEXT_MAX);
}

/* Calls @each with the term of every word of at least two bytes. */
static bool words(const char *text, void (*each)(void *arg, uint64_t term), void *arg)
{
    autofree char *folded = spaced(text);
    const char *word = folded;

    while (word && *(word += strspn(word, " \t\n"))) {
        size_t len = strcspn(word, " \t\n");

        if (len > 1)
            each(arg, term_of(word, len));
        word += len;
    }
    return folded != NULL;
}

/* ---- the question ---- */

static void add_term(void *arg, uint64_t term)
{
    struct relevance *relevance = arg;

    for (size_t i = 0; i < relevance->terms_len; i++)
        if (relevance->terms[i] == term)
            return;
    if (relevance->terms_len < TERMS_MAX)
        relevance->terms[relevance->terms_len++] = term;
}

struct relevance *relevance_new(const char *question)
{
    struct relevance *relevance = calloc(1, sizeof *relevance);

    if (relevance && !words(question, add_term, relevance)) {
        free(relevance);
        return NULL;
    }
    return relevance;
}

void relevance_free(struct relevance *relevance)
{
    if (relevance)
        free(relevance->documents);
    free(relevance);
}

/* ---- documents ---- */

void relevance_begin(struct relevance *relevance)
{
    if (relevance->len == relevance->cap && !relevance->failed) {
        size_t cap = relevance->cap ? 2 * relevance->cap : 64;
        struct document *more = realloc(relevance->documents, cap * sizeof *more);

        if (!more) {
            relevance->failed = true;
            return;
        }
        relevance->documents = more;
        relevance->cap = cap;
    }
    if (!relevance->failed)
        relevance->documents[relevance->len++] = (struct document){ 0 };
}

struct adding {
    struct relevance *relevance;
    double weight;
};

static void count_term(void *arg, uint64_t term)
{
    const struct adding *adding = arg;
    struct relevance *relevance = adding->relevance;
    struct document *document = &relevance->documents[relevance->len - 1];

    document->length += 1;
    for (size_t i = 0; i < relevance->terms_len; i++)
        if (relevance->terms[i] == term)
            document->counts[i] += adding->weight;
}

void relevance_add(struct relevance *relevance, const char *text, double weight)
{
    struct adding adding = { relevance, weight };

    if (text && !relevance->failed && relevance->len > 0 && !words(text, count_term, &adding))
        relevance->failed = true;
}

double *relevance_scores(struct relevance *relevance)
{
    double *scores = relevance->failed ? NULL : calloc(relevance->len + 1, sizeof *scores);
    double average = 0;

    if (!scores)
        return NULL;
    for (size_t i = 0; i < relevance->len; i++)
        average += relevance->documents[i].length / (double) relevance->len;
    for (size_t t = 0; t < relevance->terms_len; t++) {
        double with = 0, idf;

        for (size_t i = 0; i < relevance->len; i++)
            with += relevance->documents[i].counts[t] > 0;
        idf = log(1 + ((double) relevance->len - with + 0.5) / (with + 0.5));
        for (size_t i = 0; i < relevance->len; i++) {
            double count = relevance->documents[i].counts[t];
            double length = average > 0 ? relevance->documents[i].length / average : 1;

            if (count > 0)
                scores[i] += idf * count * (K1 + 1) / (count + K1 * (1 - B + B * length));
        }
    }
    return scores;
}
