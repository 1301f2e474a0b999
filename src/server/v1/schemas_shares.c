/* Bodies and responses of shares. */
#include "server/schema/schemas.h"
#include "server/schema/tables.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

/* clang-format off */

static const struct field fields_share_create[] = {
    { "title", FIELD_TEXT, 0, AT(body_share, title), 0, 800,
      .help = "one line of text; has a default", .example = "\"Sales by region\"" },
    { "notebook", FIELD_OBJECT, FIELD_REQUIRED, AT(body_share, notebook),
      .help = "a notebook of nbformat 4, at most 8 MiB",
      .example = "{\"nbformat\": 4, \"nbformat_minor\": 5, \"metadata\": {}, \"cells\": []}" },
    END,
};
REQUEST(share_create, struct body_share, "A notebook to share.");

#define ROWS_SHARE                                                                                 \
    ALWAYS("share_id", FIELD_TEXT, NULL),                                                          \
    ALWAYS("url", FIELD_TEXT, "path of the page that shows it"),                                   \
    ALWAYS("title", FIELD_TEXT, NULL),                                                             \
    ALWAYS("created", FIELD_NUMBER, "seconds since 1970"),                                         \
    ALWAYS("expires", FIELD_NUMBER, "seconds since 1970"),                                         \
    ALWAYS("size", FIELD_INT, "bytes of the notebook")

static const struct field fields_share[] = { ROWS_SHARE, END };
RESPONSE(share, "A shared notebook.");

static const struct field fields_share_content[] = {
    ROWS_SHARE,
    ALWAYS("notebook", FIELD_OBJECT, "the notebook; everything in it may be hostile"),
    END,
};
RESPONSE(share_content, "A shared notebook, with its content.");

static const struct field fields_share_list[] = {
    { "shares", FIELD_LIST, FIELD_REQUIRED, .of = &schema_share, .help = "the youngest first" },
    END,
};
RESPONSE(share_list, "Your shared notebooks.");
