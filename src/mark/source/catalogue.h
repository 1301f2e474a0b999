/* The tables of a source as one caller sees them: what the source says, and what people wrote. */
#pragma once

#include "mark/source/internal.h"

struct table_view {
    char name[STORE_TABLE_NAME_MAX];
    json_t *info;  /* of the sync: see connect/driver.h; "readable": identities, or absent */
    json_t *notes; /* see notes.c; may be NULL */
    int64_t gone_us;
};

/* By name. @all: for who manages the source, also what the caller's login cannot read and what is
 * gone. */
int views_load(struct sources *sources, const struct held *held, bool all,
               struct table_view **ret_views, size_t *ret_len, struct fault *fault);
void views_free(struct table_view *views, size_t len);

/* As the wire shows it. NULL: out of memory. */
json_t *view_to_json(const struct table_view *view);

/* Notes of a column, or NULL. */
static inline const json_t *view_column_notes(const struct table_view *view, const char *column)
{
    return json_object_get(json_object_get(view->notes, "columns"), column);
}

static inline bool view_is_masked(const struct table_view *view, const char *column)
{
    return json_is_true(json_object_get(view_column_notes(view, column), "masked"));
}

/* catalogue_text() of one source, as it was loaded; @notes are those of the source, or NULL. */
char *views_text(const struct held *held, struct table_view *views, size_t len, json_t *notes,
                 const char *question, size_t max);
