/* `glovebox mcp --print-config CLIENT`: text to copy into the configuration of a client. */
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

/* The URL of the service without the path, which users may or may not give. */
static char *base_url(const char *url)
{
    size_t len = strlen(url);

    while (len > 0 && url[len - 1] == '/')
        len--;
    if (len > 4 && strncmp(url + len - 4, "/mcp", 4) == 0)
        len -= 4;
    return strndup(url, len);
}

/* The command that starts us, as members of a server's object. */
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

/* What each row prints. @path and @binary are our own path, the latter as JSON; @url is NULL
 * without a service; @http says that the client can reach it by itself: clients know no Unix
 * sockets, we do. */
struct what {
    const char *path, *binary, *url;
    bool http;
};

static void print_claude_code(const struct what *w)
{
    if (w->http)
        printf("claude mcp add --transport http glovebox %s/mcp\n", w->url);
    else
        printf("claude mcp add glovebox -- %s mcp%s%s\n", w->path, w->url ? " --url " : "",
               w->url ? w->url : "");
}

static void print_claude_desktop(const struct what *w)
{
    print_servers("mcpServers", "glovebox");
    print_command("      ", w->binary, w->url);
    print_end();
}

static void print_cursor(const struct what *w)
{
    print_servers("mcpServers", "glovebox");
    if (w->http)
        printf("      \"url\": \"%s/mcp\"\n", w->url);
    else
        print_command("      ", w->binary, w->url);
    print_end();
}

static void print_vscode(const struct what *w)
{
    print_servers("servers", "glovebox");
    printf("      \"type\": \"%s\",\n", w->http ? "http" : "stdio");
    if (w->http)
        printf("      \"url\": \"%s/mcp\"\n", w->url);
    else
        print_command("      ", w->binary, w->url);
    print_end();
}

static void print_mcpo(const struct what *w)
{
    print_servers("mcpServers", "sandbox");
    printf("      \"type\": \"sse\",\n      \"url\": \"%s/mcp/sse\"\n",
           w->http ? w->url : DEFAULT_URL);
    print_end();
}

static void print_open_webui(const struct what *w)
{
    printf("[\n  {\n    \"type\": \"mcp\",\n    \"url\": \"%s/mcp\",\n    \"path\": \"\",\n"
           "    \"auth_type\": \"none\",\n    \"key\": \"\",\n    \"config\": {\"enable\": true},\n"
           "    \"info\": {\"id\": \"glovebox\", \"name\": \"Glovebox\", \"description\": "
           "\"Python in a sealed box\"}\n  }\n]\n",
           w->http ? w->url : DEFAULT_URL);
}

static const struct {
    const char *client;
    void (*print)(const struct what *what);
} rows[] = {
    { "claude-code", print_claude_code },
    { "claude-desktop", print_claude_desktop },
    { "cursor", print_cursor },
    { "vscode", print_vscode },
    { "mcpo", print_mcpo },
    { "open-webui", print_open_webui },
};

int mcp_print_config(const struct config *cfg, struct gb_err *err)
{
    autofree char *url = cfg->mcp_url ? base_url(cfg->mcp_url) : NULL, *binary = NULL;
    struct what what;
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);

    if (len < 0)
        return gb_fail(err, errno, "find our own path");
    path[len] = '\0';
    binary = quoted(path);
    if (!binary || (cfg->mcp_url && !url))
        return gb_fail(err, ENOMEM, "print the configuration");
    what = (struct what){ path, binary, url, url && strncmp(url, "unix:", 5) != 0 };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].client, cfg->mcp_client) == 0)
            rows[i].print(&what);
    return fflush(stdout) == 0 ? 0 : gb_fail(err, errno, "print the configuration");
}
