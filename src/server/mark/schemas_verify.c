/* Verified answers of Mark: bodies, queries, responses. */
#include "mark/verify/verify.h"
#include "server/mark/schemas.h"
#include "server/schema/schemas.h"
#include "server/schema/tables.h"

#include "base/banned.h"

/* clang-format off */

#define ID_BYTES 64

static const struct field fields_verify[] = {
    { "note", FIELD_TEXT, 0, AT(body_verify, note), 0, VERIFY_NOTE_MAX,
      .help = "why it is right, or what to mind: it is part of the example",
      .example = "\"Returned orders do not count.\"" },
    { "shared", FIELD_BOOL, 0, AT(body_verify, shared),
      .help = "an example for everybody who may use its sources; operators only" },
    END,
};
REQUEST(verify, struct body_verify, "An answer that somebody found right.");

static const struct field fields_verified_query[] = {
    { "after", FIELD_TEXT, 0, AT(query_verified, after), 1, ID_BYTES,
      .help = "the next of the previous page" },
    { "limit", FIELD_INT, 0, AT(query_verified, limit), 1, VERIFY_PAGE_MAX,
      .help = "how many at most; 50 by default" },
    END,
};
REQUEST(verified_query, struct query_verified, NULL);

static const struct field fields_verified[] = {
    ALWAYS("verified_id", FIELD_TEXT, "a UUID"),
    ALWAYS("message_id", FIELD_TEXT, "of the answer, which may be gone"),
    ALWAYS("question", FIELD_TEXT, NULL),
    { "note", FIELD_TEXT, 0, .help = "in the reply to POST" },
    ALWAYS("shared", FIELD_BOOL, "an example for others too"),
    ALWAYS("mine", FIELD_BOOL, "whether you verified it"),
    ALWAYS("created", FIELD_TEXT, "RFC 3339"),
    { "checked", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "when it was last run again; null: never" },
    { "passed", FIELD_BOOL, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "whether everything was equal then" },
    END,
};
RESPONSE(verified, "A verified answer.");

static const struct field fields_verified_page[] = {
    { "verified", FIELD_LIST, FIELD_REQUIRED, .of = &schema_verified, .help = "the newest first" },
    { "next", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "after of the next page; null: this is the last" },
    END,
};
RESPONSE(verified_page, "Verified answers: yours, and those that are shared with you.");

static const char *const check_statuses[] = { "ok", "changed", "cannot_run", NULL };

static const struct field fields_verified_check[] = {
    ALWAYS("verified_id", FIELD_TEXT, "a UUID"),
    ALWAYS("message_id", FIELD_TEXT, "of the answer"),
    ALWAYS("question", FIELD_TEXT, NULL),
    { "status", FIELD_CHOICE, FIELD_REQUIRED, .choices = check_statuses,
      .help = "changed: it ran, and something else came out; cannot_run: it did not run" },
    { "differences", FIELD_LIST, FIELD_REQUIRED,
      .help = "what changed, or why it cannot run: a line each",
      .example = "[\"value revenue: 212166 -> 212167\"]" },
    { "notes", FIELD_LIST, FIELD_REQUIRED,
      .help = "what else is different now: packages, the template" },
    { "result", FIELD_OBJECT, FIELD_REQUIRED | FIELD_NULLABLE, .of = &schema_recheck },
    END,
};
RESPONSE(verified_check, "A verified answer, run again.");

static const struct field fields_verified_brief[] = {
    ALWAYS("verified_id", FIELD_TEXT, "a UUID"),
    ALWAYS("shared", FIELD_BOOL, "an example for others too"),
    ALWAYS("created", FIELD_TEXT, "RFC 3339"),
    END,
};
RESPONSE(verified_brief, "That you verified an answer.");
