/* Model servers on this machine, found by asking at the ports they usually have. */
#pragma once

#include "mark/llm/internal.h"
#include "mark/llm/net.h"

struct local_model {
    char *model;
    const char *server; /* "Ollama" */
    int port;
    int64_t context; /* 0: not told */
    bool no_tools;
};

struct local_server {
    const char *name;
    int port;
};

extern const struct local_server local_servers[];
extern const size_t local_servers_len;

/* At most a second. An array that the caller releases; *@ret_len is 0 if there is nothing. @servers
 * are local_servers, except in tests. */
int local_find(struct net *net, const struct local_server *servers, size_t servers_len,
               struct local_model **ret_models, size_t *ret_len);

/* The first model that the server at the URL @base, on this machine, lists; NULL: none. */
char *local_first(struct net *net, const char *base);

void local_free(struct local_model *models, size_t len);
