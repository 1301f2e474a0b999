/* Exports of Mark: their queries. */
#include "mark/export/export.h"
#include "server/mark/schemas.h"
#include "server/schema/schemas.h"
#include "server/schema/tables.h"

#include "base/banned.h"

/* clang-format off */

static const char *const formats[] = EXPORT_FORMAT_WORDS;

static const struct field fields_export_query[] = {
    { "format", FIELD_CHOICE, FIELD_REQUIRED, AT(query_export, format),
      .choices = formats,
      .help = "ipynb: a notebook that computes the values again; html: one page that works "
              "offline; md: Markdown; json: everything; zip: the notebook with its inputs beside "
              "it" },
    END,
};
REQUEST(export_query, struct query_export, NULL);

static const char *const table_formats[] = EXPORT_TABLE_FORMAT_WORDS;

static const struct field fields_table_export_query[] = {
    { "format", FIELD_CHOICE, FIELD_REQUIRED, AT(query_table_export, format),
      .choices = table_formats, .help = "of the file" },
    { "changed", FIELD_BOOL, 0, AT(query_table_export, changed),
      .help = "take the table also if it is not the one that the answer shows" },
    END,
};
REQUEST(table_export_query, struct query_table_export, NULL);
