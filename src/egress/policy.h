/* Policies as the proxy reads them. */
#pragma once

#include <stdatomic.h>

#include "egress/address.h"
#include "egress/egress.h"

enum rule_kind { RULE_ANY, RULE_SUFFIX, RULE_NAME };

enum { PORT_WEB = 0, PORT_ANY = -1 }; /* of a rule: 80 and 443; all of them */

struct rule {
    enum rule_kind kind;
    struct host host; /* of RULE_SUFFIX without the "*." */
    int port;
    unsigned methods; /* bits by method_bit(); 0: any */
    bool listed;      /* an address, or localhost, that the operator wrote */
    bool public_only; /* listed addresses do not apply to it */
};

/* Reference-counted: policies that inherit it share it. Immutable. */
struct secret {
    _Atomic int refs;
    struct host host;
    uint16_t port;
    char header[EGRESS_HEADER_MAX];
    char *value; /* locked, not dumped, wiped when freed */
    size_t value_len;
};

#define SECRETS_MAX 32 /* of a policy */

struct egress_policy {
    struct rule *rules;
    size_t rules_len;
    struct address_block *addresses;
    size_t addresses_len;
    struct secret *secrets[SECRETS_MAX];
    size_t secrets_len;
};

/* 0 for a method that no entry can name. */
unsigned method_bit(const char *method);

/* The rule of highest precedence for this host and port, or NULL. @method NULL is CONNECT.
 * *@ret_hidden: a rule would have matched, but it allows only other methods. */
const struct rule *policy_match(const struct egress_policy *policy, const struct host *host,
                                uint16_t port, const char *method, bool *ret_hidden);

/* Whether that rule may lead to this address; if not, *@ret_why says what kind of address it is. */
bool policy_permits(const struct egress_policy *policy, const struct rule *rule,
                    const struct address *address, const char **ret_why);

/* The secrets for requests in plain HTTP to that host and port, as far as there is room. @ret_port
 * is where they go. */
size_t policy_secrets(const struct egress_policy *policy, const struct host *host, uint16_t port,
                      const struct secret **ret_secrets, size_t max, uint16_t *ret_port);

/* Whether a field of this name belongs to one connection and is never passed on. */
bool field_is_hop(const char *name, size_t len);
