/* Data sources of Mark: bodies, queries, responses. */
#include "mark/source/sources.h"
#include "server/mark/schemas.h"
#include "server/schema/schemas.h"
#include "server/schema/tables.h"

#include "base/banned.h"

/* clang-format off */

#define TEXT_BYTES  4000
#define ITEMS       1000
#define COLUMNS_MAX 1600

static const char *const kinds[] = { "postgresql", "bigquery", "files", NULL };

/* ---- making ---- */

static const struct field fields_source_limits[] = {
    { "rows", FIELD_INT, .help = "of one result; 5,000,000 by default" },
    { "bytes", FIELD_INT, .help = "of one result; 1 GiB by default" },
    { "seconds", FIELD_INT, .help = "of one query; 300 by default" },
    { "cost", FIELD_NUMBER, .help = "PostgreSQL: what the planner may estimate at most; default any" },
    { "bytes_billed", FIELD_INT, .help = "BigQuery: of one query; 10 GiB by default" },
    END,
};
RESPONSE(source_limits, "What one query may take.");

static const struct field fields_source_access[] = {
    ALWAYS("who", FIELD_TEXT, "an address, key:ID, or * for everyone"),
    { "role", FIELD_TEXT, .help = "PostgreSQL: the role that their queries run as" },
    { "login", FIELD_TEXT, .help = "PostgreSQL: a login of their own, instead of the source's" },
    { "password", FIELD_TEXT, .help = "of the login; in requests only" },
    { "has_password", FIELD_BOOL, .help = "in replies" },
    END,
};
RESPONSE(source_access, "Who may use a source, and as whom.");

static const struct field fields_source_join[] = {
    ALWAYS("left", FIELD_TEXT, "schema.table.column"),
    ALWAYS("right", FIELD_TEXT, "schema.table.column"),
    { "note", FIELD_TEXT, .help = "what to mind" },
    END,
};
RESPONSE(source_join, "Two columns by which tables are joined.");

static const struct field fields_source_example[] = {
    ALWAYS("question", FIELD_TEXT, NULL),
    { "sql", FIELD_TEXT, .help = "how it is answered" },
    END,
};
RESPONSE(source_example, "A question that people ask.");

#define NOTE_FIELDS                                                                                \
    { "description", FIELD_TEXT, 0, AT(body_source, description), 0, TEXT_BYTES,                   \
      .help = "what it is about, for people and models" },                                         \
    { "joins", FIELD_LIST, 0, AT(body_source, joins), 0, ITEMS, .of = &schema_source_join,         \
      .help = "besides the foreign keys, which are known" },                                       \
    { "examples", FIELD_LIST, 0, AT(body_source, examples), 0, ITEMS,                              \
      .of = &schema_source_example, .help = "questions that people ask, with SQL" }

#define PLACE_FIELDS                                                                               \
    { "url", FIELD_TEXT, 0, AT(body_source, url), 0, TEXT_BYTES,                                   \
      .help = "PostgreSQL: postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full; a password "  \
              "in it is taken out. BigQuery: another address of the API",                          \
      .example = "\"postgresql://mark@db.example.com/shop?sslmode=verify-full\"" },                \
    { "password", FIELD_TEXT, 0, AT(body_source, password), 0, 1024,                               \
      .help = "PostgreSQL: of the user; never shown again" },                                      \
    { "ca", FIELD_TEXT, 0, AT(body_source, ca), 0, 128 * 1024,                                     \
      .help = "PostgreSQL: PEM of the CA that signs the server's certificate; the system's "       \
              "otherwise" },                                                                       \
    { "schemas", FIELD_LIST, 0, AT(body_source, schemas), 0, 100,                                  \
      .help = "PostgreSQL: only tables in these; all by default" },                                \
    { "role", FIELD_TEXT, 0, AT(body_source, role), 0, 63,                                         \
      .help = "PostgreSQL: the role that queries run as, where access names none" },               \
    { "variables", FIELD_MAP, 0, AT(body_source, variables),                                       \
      .help = "PostgreSQL: settings of each session for row policies; {email}, {user_id} and "     \
              "{key} stand for the caller's", .example = "{\"app.user\": \"{email}\"}" },          \
    { "project", FIELD_TEXT, 0, AT(body_source, project), 0, 100,                                  \
      .help = "BigQuery: the project that is billed" },                                            \
    { "dataset", FIELD_TEXT, 0, AT(body_source, dataset), 0, 256,                                  \
      .help = "BigQuery: only tables in this; all that the account may read by default" },         \
    { "location", FIELD_TEXT, 0, AT(body_source, location), 0, 64, .help = "BigQuery: of jobs" },  \
    { "credentials", FIELD_OBJECT, 0, AT(body_source, credentials),                                \
      .help = "BigQuery: the JSON of a service account's key; never shown again" },                \
    { "price_per_tib", FIELD_NUMBER, 0, AT(body_source, price),                                    \
      .help = "BigQuery: US dollars; 6.25 by default, the list price on demand" },                 \
    { "directory", FIELD_TEXT, 0, AT(body_source, directory), 0, PATH_BYTES,                       \
      .help = "files: an absolute path on the machine of the service" },                           \
    { "limits", FIELD_OBJECT, 0, AT(body_source, limits), .of = &schema_source_limits },           \
    { "access", FIELD_LIST, 0, AT(body_source, access), 0, ITEMS, .of = &schema_source_access,     \
      .help = "who may use it; everyone by default" },                                             \
    { "samples", FIELD_BOOL, 0, AT(body_source, samples),                                          \
      .help = "keep a few values of columns that are not masked, for the model to see; true by "   \
              "default" }

static const struct field fields_source_add[] = {
    { "name", FIELD_TEXT, FIELD_REQUIRED, AT(body_source, name), 1, STORE_SOURCE_NAME_MAX - 1,
      .help = "what programs say in mark.query(): a-z, 0-9 and _", .example = "\"shop\"" },
    { "kind", FIELD_TEXT, FIELD_REQUIRED, AT(body_source, kind), 1, 15,
      .help = "postgresql, bigquery or files", .example = "\"postgresql\"" },
    PLACE_FIELDS,
    NOTE_FIELDS,
    END,
};
REQUEST(source_add, struct body_source, "A data source.");

static const struct field fields_source_change[] = {
    { "name", FIELD_TEXT, 0, AT(body_source, name), 1, STORE_SOURCE_NAME_MAX - 1,
      .help = "a new name; programs of earlier answers have the old one" },
    { "kind", FIELD_TEXT, 0, AT(body_source, kind), 1, 15, .help = "cannot change" },
    PLACE_FIELDS,
    NOTE_FIELDS,
    END,
};
REQUEST(source_change, struct body_source, "Changes of a data source.");

static const struct field fields_source_add_query[] = {
    { "no_sync", FIELD_BOOL, 0, AT(query_source_add, no_sync),
      .help = "do not read the catalogue now" },
    END,
};
REQUEST(source_add_query, struct query_source_add, NULL);

/* ---- showing ---- */

static const struct field fields_source[] = {
    ALWAYS("source_id", FIELD_TEXT, "a UUID"),
    ALWAYS("name", FIELD_TEXT, "what programs say in mark.query()"),
    { "kind", FIELD_CHOICE, FIELD_REQUIRED, .choices = kinds },
    ALWAYS("description", FIELD_TEXT, "may be empty"),
    ALWAYS("created", FIELD_TEXT, "RFC 3339"),
    ALWAYS("updated", FIELD_TEXT, "RFC 3339"),
    { "synced", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "when the catalogue was last read; null: never" },
    ALWAYS("tables", FIELD_INT, "how many you see"),
    ALWAYS("usable", FIELD_BOOL, "whether your questions may use it: its access names you"),
    { "sync_error", FIELD_TEXT, FIELD_NULLABLE,
      .help = "for operators, like the rest: why the last sync failed; null: it did not" },
    { "settings", FIELD_ANY, .help = "how it is reached, without secrets" },
    { "has_secret", FIELD_BOOL, .help = "whether there is a password or service account" },
    { "access", FIELD_LIST, .of = &schema_source_access },
    { "joins", FIELD_LIST, .of = &schema_source_join },
    { "examples", FIELD_LIST, .of = &schema_source_example },
    END,
};
RESPONSE(source, "A data source.");

static const struct field fields_source_list[] = {
    { "sources", FIELD_LIST, FIELD_REQUIRED, .of = &schema_source, .help = "by name" }, END };
RESPONSE(source_list, "The data sources.");

static const struct field fields_source_synced[] = {
    ALWAYS("tables", FIELD_INT, "how many there are now"),
    ALWAYS("added", FIELD_INT, "since the last time"),
    ALWAYS("gone", FIELD_INT, "since the last time; those with notes are kept aside"),
    ALWAYS("left_out", FIELD_INT, "tables that could not be taken: too many, or too large"),
    ALWAYS("seconds", FIELD_NUMBER, "how long it took"),
    END,
};
RESPONSE(source_synced, "What a sync found.");

static const struct field fields_source_check[] = {
    ALWAYS("name", FIELD_TEXT, "what was tried"),
    ALWAYS("ok", FIELD_BOOL, NULL),
    ALWAYS("text", FIELD_TEXT, "what was found, and what to do"),
    { "as", FIELD_TEXT, .help = "as whom, if there are several logins or roles" },
    END,
};
RESPONSE(source_check, "One finding about a data source.");

static const struct field fields_source_checked[] = {
    ALWAYS("ok", FIELD_BOOL, "whether all of them are"),
    { "checks", FIELD_LIST, FIELD_REQUIRED, .of = &schema_source_check },
    END,
};
RESPONSE(source_checked, "Whether a data source works.");

/* ---- tables ---- */

static const struct field fields_tables_query[] = {
    { "q", FIELD_TEXT, 0, AT(query_tables, q), 0, 500,
      .help = "only tables in which all of these words occur, in names, comments or notes" },
    END,
};
REQUEST(tables_query, struct query_tables, NULL);

static const struct field fields_table_column[] = {
    ALWAYS("name", FIELD_TEXT, NULL),
    { "type", FIELD_TEXT, .help = "of the value in a result" },
    { "source_type", FIELD_TEXT, .help = "as the source calls it" },
    { "nullable", FIELD_BOOL, .help = NULL },
    { "comment", FIELD_TEXT, .help = "of the source" },
    { "key", FIELD_BOOL, .help = "part of the primary key" },
    { "references", FIELD_TEXT, .help = "schema.table.column" },
    { "samples", FIELD_LIST, .help = "a few values as text, unless masked or filtered by rows" },
    { "description", FIELD_TEXT, .help = "a note" },
    { "unit", FIELD_TEXT, .help = "a note" },
    { "synonyms", FIELD_LIST, .help = "a note" },
    { "masked", FIELD_BOOL, .help = "its values never leave the source" },
    { "gone", FIELD_BOOL, .help = "it has notes, but is not there any more" },
    END,
};
RESPONSE(table_column, "A column.");

static const struct field fields_source_table[] = {
    ALWAYS("name", FIELD_TEXT, "schema.table, dataset.table, or a path"),
    { "kind", FIELD_TEXT, .help = "table, view, ..." },
    { "comment", FIELD_TEXT, .help = "of the source" },
    { "rows", FIELD_INT, .help = "about; not for tables that show each user other rows" },
    { "bytes", FIELD_INT, .help = NULL },
    { "row_security", FIELD_BOOL, .help = "it shows each user other rows" },
    { "partitioning", FIELD_TEXT, .help = NULL },
    { "description", FIELD_TEXT, .help = "a note" },
    { "synonyms", FIELD_LIST, .help = "a note" },
    { "gone", FIELD_TEXT, .help = "since when it is not there any more; RFC 3339" },
    { "columns", FIELD_LIST, FIELD_REQUIRED, .of = &schema_table_column },
    END,
};
RESPONSE(source_table, "A table of a data source.");

static const struct field fields_source_tables[] = {
    { "tables", FIELD_LIST, FIELD_REQUIRED, .of = &schema_source_table, .help = "by name" }, END };
RESPONSE(source_tables, "The tables of a data source.");

static const struct field fields_column_change[] = {
    ALWAYS("name", FIELD_TEXT, NULL),
    { "description", FIELD_TEXT, .help = "at most 4,000 bytes" },
    { "unit", FIELD_TEXT, .help = "such as EUR or kg; at most 100 bytes" },
    { "synonyms", FIELD_LIST, .help = "at most 20 words" },
    { "masked", FIELD_BOOL, .help = "no query may read it, and no value of it is kept" },
    END,
};
RESPONSE(column_change, "Notes about a column.");

static const struct field fields_table_change[] = {
    { "description", FIELD_TEXT, 0, AT(body_table_change, description), 0, TEXT_BYTES,
      .help = "what a row is", .example = "\"One row for each item of an order.\"" },
    { "synonyms", FIELD_LIST, 0, AT(body_table_change, synonyms), 0, 20,
      .help = "what people call it", .example = "[\"sales\"]" },
    { "columns", FIELD_LIST, 0, AT(body_table_change, columns), 0, COLUMNS_MAX,
      .of = &schema_column_change, .help = "those that are not listed stay as they are" },
    END,
};
REQUEST(table_change, struct body_table_change, "Notes about a table.");
