#include "mcp/mcp_internal.h"

#include "base/banned.h"

void fixtures_register(struct mcp *mcp)
{
    (void) mcp;
}
