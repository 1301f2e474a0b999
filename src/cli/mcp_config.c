/* `glovebox mcp --print-config CLIENT`: what people copy into the configuration of a client. */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "cli/cmd.h"

#include "base/banned.h"

#define DEFAULT_URL "http://127.0.0.1:8080"

/* As JSON text, quotes included. */
static char *quoted(const char *text)
{
    json_t *json = json_string(text);
    char *out = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;

    json_decref(json);
    return out;
}

/* The service without its path, as people write it or not. */
static char *base_url(const char *url)
{
    size_t len = strlen(url);

    while (len > 0 && url[len - 1] == '/')
        len--;
    if (len > 4 && strncmp(url + len - 4, "/mcp", 4) == 0)
        len -= 4;
    return strndup(url, len);
}

/* What starts us, as a member of a server's object. */
static void print_command(const char *indent, const char *binary, const char *url)
{
    printf("%s\"command\": %s,\n", indent, binary);
    if (url)
        printf("%s\"args\": [\"mcp\", \"--url\", \"%s\"]\n", indent, url);
    else
        printf("%s\"args\": [\"mcp\"]\n", indent);
}

static void print_servers(const char *list, const char *name)
{
    printf("{\n  \"%s\": {\n    \"%s\": {\n", list, name);
}

static void print_end(void)
{
    printf("    }\n  }\n}\n");
}

static void print_open_webui(const char *url)
{
    printf("[\n  {\n    \"type\": \"mcp\",\n    \"url\": \"%s/mcp\",\n    \"path\": \"\",\n"
           "    \"auth_type\": \"none\",\n    \"key\": \"\",\n    \"config\": {\"enable\": true},\n"
           "    \"info\": {\"id\": \"glovebox\", \"name\": \"Glovebox\", \"description\": "
           "\"Python in a sealed box\"}\n  }\n]\n",
           url);
}

static void print_client(enum mcp_client client, const char *binary, const char *name,
                         const char *url)
{
    bool http = url && strncmp(url, "unix:", 5) != 0; /* clients know no Unix sockets; we do */

    switch (client) {
    case MCP_CLIENT_CLAUDE_CODE:
        if (http)
            printf("claude mcp add --transport http glovebox %s/mcp\n", url);
        else
            printf("claude mcp add glovebox -- %s mcp%s%s\n", name, url ? " --url " : "",
                   url ? url : "");
        break;
    case MCP_CLIENT_CLAUDE_DESKTOP:
        print_servers("mcpServers", "glovebox");
        print_command("      ", binary, url);
        print_end();
        break;
    case MCP_CLIENT_CURSOR:
        print_servers("mcpServers", "glovebox");
        if (http)
            printf("      \"url\": \"%s/mcp\"\n", url);
        else
            print_command("      ", binary, url);
        print_end();
        break;
    case MCP_CLIENT_VSCODE:
        print_servers("servers", "glovebox");
        printf("      \"type\": \"%s\",\n", http ? "http" : "stdio");
        if (http)
            printf("      \"url\": \"%s/mcp\"\n", url);
        else
            print_command("      ", binary, url);
        print_end();
        break;
    case MCP_CLIENT_MCPO:
        print_servers("mcpServers", "sandbox");
        printf("      \"type\": \"sse\",\n      \"url\": \"%s/mcp/sse\"\n",
               http ? url : DEFAULT_URL);
        print_end();
        break;
    case MCP_CLIENT_OPEN_WEBUI:
        print_open_webui(http ? url : DEFAULT_URL);
        break;
    case MCP_CLIENT_NONE:
    default:
        break;
    }
}

int mcp_print_config(const struct config *cfg, struct gb_err *err)
{
    autofree char *url = cfg->mcp_url ? base_url(cfg->mcp_url) : NULL, *binary = NULL;
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);

    if (len < 0)
        return gb_fail(err, errno, "find our own path");
    path[len] = '\0';
    binary = quoted(path);
    if (!binary || (cfg->mcp_url && !url))
        return gb_fail(err, ENOMEM, "print the configuration");
    print_client((enum mcp_client) cfg->mcp_client, binary, path, url);
    return fflush(stdout) == 0 ? 0 : gb_fail(err, errno, "print the configuration");
}
