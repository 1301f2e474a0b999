/* The program as a function, so that other programs can be built from it. */
#pragma once

struct mcp;

/* What main() does; returns the exit code. @mcp_more (may be NULL) registers more tools where the
 * program serves MCP, as in struct mcp_config. */
int cli_main(int argc, char **argv, void (*mcp_more)(struct mcp *mcp));
