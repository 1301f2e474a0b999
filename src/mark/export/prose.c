/*
 * The story of an answer: Markdown that a model wrote, as HTML or as Markdown that is well formed.
 *
 * cmark-gfm parses it, and the tree is changed before it is rendered: raw HTML becomes text, links
 * keep only addresses that are harmless, and pictures, which would be fetched from somewhere,
 * become links. Numbers are marked by characters of the private use area, which are put around them
 * before the text is parsed and found again in the nodes: one for the begin, the place of the mark
 * in the list in digits, one for the end. To Markdown they are letters, as digits are. A story that
 * has such characters itself loses them first.
 */
#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "mark/agent/text.h"
#include "mark/export/internal.h"

#include "base/banned.h"

#define MARK_BEGIN      "\xee\x80\x80" /* U+E000 */
#define MARK_END        "\xee\x80\x81" /* U+E001 */
#define MARK_DIGIT      0x90           /* the last byte of U+E010, which is 0 */
#define MARK_LEN        3
#define STORY_MARKS_MAX 1000000

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- marks around numbers ---- */

/* Whether one of ours is there: U+E000 to U+E01F. */
static bool is_mark(const char *text, size_t len)
{
    return len >= MARK_LEN && memcmp(text, MARK_BEGIN, 2) == 0 && (text[2] & 0xe0) == 0x80;
}

static void begin_mark(struct text *out, size_t number)
{
    char digits[24];

    (void) snprintf(digits, sizeof digits, "%zu", number);
    text_puts(out, MARK_BEGIN);
    for (const char *d = digits; *d; d++) {
        const char digit[] = { MARK_BEGIN[0], MARK_BEGIN[1], (char) (MARK_DIGIT + (*d - '0')) };

        text_add(out, digit, sizeof digit);
    }
}

/* @text with @marks, which are in order, and without characters that look like them. */
static char *with_marks(const char *text, const json_t *marks)
{
    size_t len = strlen(text), next = 0, end = SIZE_MAX;
    struct text out = { 0 };

    text_add(&out, "", 0);
    for (size_t i = 0; i <= len; i++) {
        if (i == end) {
            text_puts(&out, MARK_END);
            end = SIZE_MAX;
        }
        for (; end == SIZE_MAX && next < json_array_size(marks); next++) {
            const json_t *mark = json_array_get(marks, next);
            json_int_t from = json_integer_value(json_object_get(mark, "start"));
            json_int_t to = json_integer_value(json_object_get(mark, "end"));

            if (from > (json_int_t) i)
                break;
            if (from == (json_int_t) i && to > from && to <= (json_int_t) len) {
                begin_mark(&out, next);
                end = (size_t) to;
            }
        }
        if (i < len && is_mark(text + i, len - i))
            i += MARK_LEN - 1;
        else if (i < len)
            text_add(&out, text + i, 1);
    }
    return text_take(&out);
}

/* In place. */
static void strip_marks(char *text)
{
    size_t len = strlen(text), to = 0;

    for (size_t i = 0; i < len; i++)
        if (is_mark(text + i, len - i))
            i += MARK_LEN - 1;
        else
            text[to++] = text[i];
    text[to] = '\0';
}

/* ---- the tree ---- */

static void add_extension(cmark_parser *parser, const char *name)
{
    cmark_syntax_extension *extension = cmark_find_syntax_extension(name);

    if (extension)
        (void) cmark_parser_attach_syntax_extension(parser, extension);
}

static cmark_node *parse(const char *markdown)
{
    cmark_parser *parser;
    cmark_node *root;

    (void) pthread_once(&once, cmark_gfm_core_extensions_ensure_registered);
    parser = cmark_parser_new(CMARK_OPT_DEFAULT | CMARK_OPT_VALIDATE_UTF8);
    add_extension(parser, "table");
    add_extension(parser, "strikethrough");
    cmark_parser_feed(parser, markdown, strlen(markdown));
    root = cmark_parser_finish(parser);
    cmark_parser_free(parser);
    return root;
}

static bool is_harmless(const char *url)
{
    static const char *const schemes[] = { "http://", "https://", "mailto:" };

    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (strncasecmp(url, schemes[i], strlen(schemes[i])) == 0)
            return true;
    return false;
}

/* Puts the children of @node in its place. */
static void unwrap(cmark_node *node)
{
    for (cmark_node *child = cmark_node_first_child(node); child;) {
        cmark_node *next = cmark_node_next(child);

        cmark_node_unlink(child);
        (void) cmark_node_insert_before(node, child);
        child = next;
    }
    cmark_node_free(node);
}

static void tame_link(cmark_node *node)
{
    autofree char *url = strdup(cmark_node_get_url(node));

    if (!url)
        return;
    strip_marks(url);
    if (!is_harmless(url)) {
        unwrap(node);
        return;
    }
    (void) cmark_node_set_url(node, url);
    (void) cmark_node_set_title(node, "");
}

/* A picture becomes a link to it, with its description as the text. */
static void tame_image(cmark_node *node)
{
    cmark_node *link = cmark_node_new(CMARK_NODE_LINK);

    (void) cmark_node_set_url(link, cmark_node_get_url(node));
    for (cmark_node *child = cmark_node_first_child(node); child;) {
        cmark_node *next = cmark_node_next(child);

        cmark_node_unlink(child);
        (void) cmark_node_append_child(link, child);
        child = next;
    }
    (void) cmark_node_insert_before(node, link);
    cmark_node_free(node);
    tame_link(link);
}

/* The lines of @text, before @node or, if @block, as its children. */
static void add_lines(cmark_node *node, bool block, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        autofree char *line = strndup(text, len);
        cmark_node *child = cmark_node_new(CMARK_NODE_TEXT);

        (void) cmark_node_set_literal(child, line ? line : "");
        (void) (block ? cmark_node_append_child(node, child)
                      : cmark_node_insert_before(node, child));
        text += len;
        if (*text && *++text) {
            child = cmark_node_new(CMARK_NODE_SOFTBREAK);
            (void) (block ? cmark_node_append_child(node, child)
                          : cmark_node_insert_before(node, child));
        }
    }
}

/* Markup of the story is text. */
static void tame_html(cmark_node *node)
{
    bool block = cmark_node_get_type(node) == CMARK_NODE_HTML_BLOCK;
    cmark_node *paragraph = block ? cmark_node_new(CMARK_NODE_PARAGRAPH) : NULL;

    add_lines(block ? paragraph : node, block, cmark_node_get_literal(node));
    if (block)
        (void) cmark_node_insert_before(node, paragraph);
    cmark_node_free(node);
}

static void tame_code(cmark_node *node)
{
    autofree char *text = strdup(cmark_node_get_literal(node));

    if (text) {
        strip_marks(text);
        (void) cmark_node_set_literal(node, text);
    }
}

static void tame_node(cmark_node *node, int deeper)
{
    cmark_node_type type = cmark_node_get_type(node);

    if (type == CMARK_NODE_LINK) {
        tame_link(node);
    } else if (type == CMARK_NODE_IMAGE) {
        tame_image(node);
    } else if (type == CMARK_NODE_HTML_BLOCK || type == CMARK_NODE_HTML_INLINE) {
        tame_html(node);
    } else if (type == CMARK_NODE_CODE || type == CMARK_NODE_CODE_BLOCK) {
        tame_code(node);
        if (type == CMARK_NODE_CODE_BLOCK)
            (void) cmark_node_set_fence_info(node, "");
    } else if (type == CMARK_NODE_HEADING) {
        int level = cmark_node_get_heading_level(node) + deeper;

        (void) cmark_node_set_heading_level(node, level > 6 ? 6 : level);
    }
}

/* Leaves first: a node is changed when all within it have been. */
static void tame(cmark_node *root, int deeper)
{
    cmark_iter *iter = cmark_iter_new(root);
    cmark_event_type event;

    while ((event = cmark_iter_next(iter)) != CMARK_EVENT_DONE) {
        cmark_node *node = cmark_iter_get_node(iter);
        cmark_node_type type = cmark_node_get_type(node);
        bool leaf = type == CMARK_NODE_HTML_BLOCK || type == CMARK_NODE_HTML_INLINE ||
                    type == CMARK_NODE_CODE || type == CMARK_NODE_CODE_BLOCK;

        if (node != root && (event == CMARK_EVENT_EXIT || leaf))
            tame_node(node, deeper);
    }
    cmark_iter_free(iter);
}

/* ---- marked numbers in HTML ---- */

struct marking {
    const json_t *marks, *values;
    size_t number; /* of the mark */
    bool open;     /* within one */
    bool shown;    /* there is an element for it */
};

static const json_t *value_of(const json_t *values, const char *name)
{
    const json_t *value;
    size_t i;

    json_array_foreach (values, i, value)
        if (strcmp(member_text(value, "name"), name) == 0)
            return value;
    return NULL;
}

static bool is_unsupported(const json_t *mark)
{
    return strcmp(member_text(mark, "kind"), "unsupported") == 0;
}

/* What a reader who points at the number is told. */
static void explain(struct out *out, const json_t *mark, const json_t *values)
{
    const char *kind = member_text(mark, "kind"), *name = member_text(mark, "name");
    const json_t *value = value_of(values, name);

    if (is_unsupported(mark)) {
        out_puts(out, "no program computed this number");
    } else if (strcmp(kind, "value") == 0 && value) {
        out_puts(out, "computed: ");
        out_html(out, name);
        out_printf(out, ", in step %lld",
                   (long long) json_integer_value(json_object_get(value, "step")));
    } else {
        out_puts(out, "found in what was computed");
    }
}

static void mark_open(struct marking *marking, struct out *out)
{
    const json_t *mark = json_array_get(marking->marks, marking->number);

    /* Names are letters, digits, "_" and "."; escaped all the same. */
    out_printf(out, "<mark class=\"%s\" tabindex=\"0\" title=\"",
               is_unsupported(mark) ? "unsupported" : "checked");
    explain(out, mark, marking->values);
    out_puts(out, "\">");
    marking->shown = true;
}

static void mark_close(struct marking *marking, struct out *out, bool last)
{
    const json_t *mark = json_array_get(marking->marks, marking->number);

    if (marking->shown)
        out_puts(out, last && is_unsupported(mark) ? "<sup>?</sup></mark>" : "</mark>");
    marking->shown = false;
}

static void take_mark(struct marking *marking, unsigned char last, struct out *out)
{
    if (last == (unsigned char) MARK_BEGIN[2]) {
        marking->open = true;
        marking->number = 0;
    } else if (last == (unsigned char) MARK_END[2]) {
        mark_close(marking, out, true);
        marking->open = false;
    } else if (marking->number < STORY_MARKS_MAX) {
        marking->number = marking->number * 10 + (last - MARK_DIGIT);
    }
}

/* The HTML with elements for its marks, which are only in text: there is none in an attribute. A
 * number that goes across a tag gets one on each side. */
static void put_marked(struct marking *marking, const char *html, struct out *out)
{
    size_t len = strlen(html), from = 0;

    for (size_t i = 0; i < len; i++) {
        bool mark = is_mark(html + i, len - i), tag = html[i] == '<';
        size_t size = mark ? MARK_LEN : tag ? strcspn(html + i, ">") + 1 : 1;

        if (!mark && !tag && marking->open && !marking->shown)
            mark_open(marking, out);
        if (!mark && !tag)
            continue;
        out_add(out, html + from, i - from);
        if (mark) {
            take_mark(marking, (unsigned char) html[i + 2], out);
        } else {
            mark_close(marking, out, false);
            out_add(out, html + i, size);
        }
        from = i + size;
        i += size - 1;
    }
    out_add(out, html + from, len - from);
}

/* ---- both ---- */

static cmark_syntax_extension *table_extension(void)
{
    return cmark_find_syntax_extension("table");
}

static cmark_llist *extensions(cmark_llist *room)
{
    *room = (cmark_llist){ .data = table_extension() };
    return room;
}

void prose_html(struct out *out, const char *markdown, const json_t *numbers, const json_t *values)
{
    const json_t *marks = json_object_get(numbers, "marks");
    autofree char *text = with_marks(markdown, marks), *html = NULL;
    struct marking marking = { .marks = marks, .values = values };
    cmark_node *root = text ? parse(text) : NULL;
    cmark_llist room;

    if (root) {
        tame(root, 2);
        html = cmark_render_html(root, CMARK_OPT_DEFAULT, extensions(&room));
        cmark_node_free(root);
    }
    if (html)
        put_marked(&marking, html, out);
    else
        out->error = out->error ? out->error : ENOMEM;
}

char *prose_markdown(const char *markdown, int deeper)
{
    autofree char *text = with_marks(markdown, NULL);
    cmark_node *root = text ? parse(text) : NULL;
    char *out = NULL;

    if (root) {
        tame(root, deeper);
        out = cmark_render_commonmark(root, CMARK_OPT_DEFAULT, 0);
        cmark_node_free(root);
    }
    return out;
}
