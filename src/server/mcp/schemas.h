/* The tables of MCP over HTTP, and the structs that they fill. */
#pragma once

#include "schema/fields.h"

struct query_mcp {
    int state; /* 1: session; -1 when absent */
};

struct query_mcp_messages {
    const char *session_id;
};

extern const struct schema schema_mcp_query, schema_mcp_messages_query;

extern const struct schema schema_rpc, schema_mcp_metadata;
