/* Stands in for story.c until that is there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mark/agent/story.h"

#include "base/banned.h"

struct evidence {
    json_t *values;
};

struct evidence *evidence_new(void)
{
    struct evidence *e = calloc(1, sizeof *e);

    if (e)
        e->values = json_object();
    return e;
}

void evidence_free(struct evidence *evidence)
{
    if (evidence)
        json_decref(evidence->values);
    free(evidence);
}

int evidence_add_value(struct evidence *evidence, const json_t *value)
{
    return json_object_set(evidence->values, json_string_value(json_object_get(value, "name")),
                           (json_t *) value);
}

int evidence_add_table(struct evidence *evidence, const json_t *table)
{
    (void) evidence, (void) table;
    return 0;
}

int evidence_add_output(struct evidence *evidence, const char *text, size_t len)
{
    (void) evidence, (void) text, (void) len;
    return 0;
}

int evidence_add_code(struct evidence *evidence, const char *code, size_t len)
{
    (void) evidence, (void) code, (void) len;
    return 0;
}

int evidence_add_given(struct evidence *evidence, const char *text, size_t len)
{
    (void) evidence, (void) text, (void) len;
    return 0;
}

void story_release(struct story *story)
{
    free(story->text);
    json_decref(story->unsupported);
    json_decref(story->unknown);
    json_decref(story->marks);
    *story = (struct story){ 0 };
}

int story_check(const struct evidence *evidence, const char *text, struct story *ret_story)
{
    (void) evidence;
    *ret_story = (struct story){ .text = strdup(text),
                                 .unsupported = json_array(),
                                 .unknown = json_array(),
                                 .marks = json_array() };
    return 0;
}

char *value_text(const json_t *value)
{
    return json_dumps(json_object_get(value, "value"), JSON_ENCODE_ANY);
}
