/* placeholder until written below */
#include "base/banned.h"
#include "mcp/mcp_internal.h"
