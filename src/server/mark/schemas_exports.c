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
