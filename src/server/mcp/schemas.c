/* Queries and messages of MCP over HTTP. */
#include "server/mcp/schemas.h"

#include "server/schema/schemas.h"
#include "server/schema/tables.h"

#include "base/banned.h"

/* clang-format off */

static const char *const state_choices[] = { "call", "session", NULL };
static const struct field fields_mcp_query[] = {
    { "state", FIELD_CHOICE, 0, AT(query_mcp, state), .choices = state_choices,
      .help = "call (default): a fresh box for each call; session: one box for this connection" },
    END,
};
REQUEST(mcp_query, struct query_mcp, NULL);

static const struct field fields_mcp_messages_query[] = {
    { "session_id", FIELD_TEXT, FIELD_REQUIRED, AT(query_mcp_messages, session_id), 1, 64,
      .help = "the id from the first event of the stream" },
    END,
};
REQUEST(mcp_messages_query, struct query_mcp_messages, NULL);

static const struct field fields_rpc[] = {
    ALWAYS("jsonrpc", FIELD_TEXT, "2.0"),
    { "id", FIELD_ANY, 0, .help = "string or integer; not in notifications" },
    { "method", FIELD_TEXT, 0, .help = "such as tools/call; not in responses" },
    { "params", FIELD_OBJECT, 0, .help = "in requests and notifications" },
    { "result", FIELD_OBJECT, 0, .help = "in responses" },
    { "error", FIELD_OBJECT, 0, .help = "instead of a result: code, message, optionally data" },
    END,
};
RESPONSE(rpc, "A JSON-RPC 2.0 message of the Model Context Protocol.");

static const struct field fields_mcp_metadata[] = {
    ALWAYS("resource", FIELD_TEXT, "the URL that a token is for"),
    ALWAYS("bearer_methods_supported", FIELD_LIST, "header"),
    ALWAYS("resource_name", FIELD_TEXT, NULL),
    ALWAYS("resource_documentation", FIELD_TEXT, NULL), END };
RESPONSE(mcp_metadata, NULL);

const struct schema *const mcp_schemas[] = { &schema_rpc, &schema_mcp_metadata, NULL };
