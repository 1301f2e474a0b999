/* What the files of the fixtures share. */
#pragma once

#include "mcp/mcp_internal.h"

json_t *fixture_text(const char *text); /* a block of text */
void fixture_reply(struct mcp_call *call, json_t *block);

void fixtures_ask_register(struct mcp *mcp); /* fixtures_ask.c */
