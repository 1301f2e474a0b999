/*
 * Policies: entries as text, the operator's ceiling over them, secrets.
 *
 * A policy is filled by one thread and then only read. A request is checked against the ceiling
 * when it is made; afterwards the policy no longer depends on the ceiling.
 */
#include "egress/policy.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/text/parse.h"

#include "base/banned.h"

#define ADDRESSES_MAX 64

static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS" };

unsigned method_bit(const char *method)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (strcmp(methods[i], method) == 0)
            return 1u << i;
    return 0;
}

/* ---- entries ---- */

static int entry_fail(const char *entry, const char *what, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX];

    format_quoted(entry, quoted);
    return gb_fail_plain(err, EINVAL, "%s: %s", quoted, what);
}

/* "GET,HEAD" of the first @len bytes. */
static int methods_parse(const char *text, size_t len, unsigned *ret_methods)
{
    const char *end = text + len;

    *ret_methods = 0;
    while (text < end) {
        const char *comma = memchr(text, ',', (size_t) (end - text));
        size_t part = (size_t) ((comma ? comma : end) - text);
        char word[8];

        if (part == 0 || part >= sizeof word || (comma && comma + 1 == end))
            return -EINVAL;
        memcpy(word, text, part);
        word[part] = '\0';
        if (method_bit(word) == 0)
            return -EINVAL;
        *ret_methods |= method_bit(word);
        text += part + (comma != NULL);
    }
    return *ret_methods ? 0 : -EINVAL;
}

/* Takes ":*" off the end. */
static bool any_port_take(const char *text, size_t *len)
{
    if (*len < 2 || memcmp(text + *len - 2, ":*", 2) != 0)
        return false;
    *len -= 2;
    return true;
}

static int rule_parse(const char *entry, struct rule *ret_rule, struct gb_err *err)
{
    struct rule rule = { .kind = RULE_NAME };
    const char *blank = strchr(entry, ' '), *text = entry;
    size_t len;
    bool any_port;
    int port;

    if (blank) {
        if (methods_parse(entry, (size_t) (blank - entry), &rule.methods) < 0)
            return entry_fail(entry, "only methods such as GET,HEAD may precede the blank", err);
        text = blank + 1;
    }
    if (strstr(text, "://") || strchr(text, '/') || strchr(text, '@'))
        return entry_fail(entry, "write only HOST or HOST:PORT, without scheme or path", err);
    len = strlen(text);
    any_port = any_port_take(text, &len);
    if (len >= 1 && text[0] == '*' && (len == 1 || text[1] == ':')) {
        rule.kind = RULE_ANY;
        port = len == 1 ? -1 : port_parse(text + 2, len - 2);
        if (len > 1 && port < 0)
            return entry_fail(entry, "the port must be from 1 to 65535", err);
    } else {
        if (len > 2 && text[0] == '*' && text[1] == '.') {
            rule.kind = RULE_SUFFIX;
            text += 2;
            len -= 2;
        }
        if (authority_parse(text, len, &rule.host, &port) < 0)
            return entry_fail(entry,
                              "expected HOST[:PORT] such as example.com, *.example.com or "
                              "[2001:db8::7]:8080; write international names in xn-- form",
                              err);
        if (rule.kind == RULE_SUFFIX && rule.host.literal)
            return entry_fail(entry, "'*.' does not work with an IP address", err);
    }
    if (any_port && port >= 0)
        return entry_fail(entry, "give only one port", err);
    rule.port = any_port ? PORT_ANY : port < 0 ? PORT_WEB : port;
    *ret_rule = rule;
    return 0;
}

static bool rule_equal(const struct rule *a, const struct rule *b)
{
    return a->kind == b->kind && a->port == b->port && a->methods == b->methods &&
           a->listed == b->listed && a->public_only == b->public_only &&
           strcmp(a->host.text, b->host.text) == 0;
}

static int rule_add(struct egress_policy *policy, const struct rule *rule, struct gb_err *err)
{
    struct rule *rules;

    for (size_t i = 0; i < policy->rules_len; i++)
        if (rule_equal(&policy->rules[i], rule))
            return 0;
    if (policy->rules_len >= EGRESS_RULES_MAX)
        return gb_fail_plain(err, E2BIG, "more than %d hosts", EGRESS_RULES_MAX);
    rules = reallocarray(policy->rules, policy->rules_len + 1, sizeof *rules);
    if (!rules)
        return gb_fail(err, ENOMEM, "store a network policy");
    policy->rules = rules;
    rules[policy->rules_len++] = *rule;
    return 0;
}

int egress_policy_allow(struct egress_policy *policy, const char *entry, bool listed,
                        struct gb_err *err)
{
    struct rule rule;
    int r = rule_parse(entry, &rule, err);

    if (r < 0)
        return r;
    rule.listed =
        listed && rule.kind == RULE_NAME && (rule.host.literal || host_is_localhost(&rule.host));
    return rule_add(policy, &rule, err);
}

int egress_policy_allow_public(struct egress_policy *policy, const char *entry, struct gb_err *err)
{
    struct rule rule;
    int r = rule_parse(entry, &rule, err);

    if (r < 0)
        return r;
    if (rule.kind != RULE_NAME)
        return entry_fail(entry, "expected one host", err);
    rule.public_only = true;
    return rule_add(policy, &rule, err);
}

/* ---- the ceiling ---- */

static bool is_beneath(const char *name, const char *suffix)
{
    size_t len = strlen(name), tail = strlen(suffix);

    return len > tail + 1 && name[len - tail - 1] == '.' && strcmp(name + len - tail, suffix) == 0;
}

static bool covers_host(const struct rule *over, const struct rule *rule)
{
    switch (over->kind) {
    case RULE_ANY:
        return true;
    case RULE_SUFFIX:
        if (rule->kind == RULE_ANY || rule->host.literal)
            return false;
        return is_beneath(rule->host.text, over->host.text) ||
               (rule->kind == RULE_SUFFIX && strcmp(rule->host.text, over->host.text) == 0);
    case RULE_NAME:
        break;
    }
    return rule->kind == RULE_NAME && strcmp(rule->host.text, over->host.text) == 0;
}

static bool covers_port(const struct rule *over, int port)
{
    if (over->port == PORT_WEB)
        return port == 80 || port == 443;
    return over->port == PORT_ANY || over->port == port;
}

static bool covers(const struct egress_policy *ceiling, const struct rule *rule, int port,
                   bool *ret_listed)
{
    bool covered = false;

    for (size_t i = 0; i < ceiling->rules_len; i++) {
        const struct rule *over = &ceiling->rules[i];

        if (!covers_host(over, rule) || !covers_port(over, port))
            continue;
        if (over->methods && (!rule->methods || (rule->methods & ~over->methods)))
            continue;
        covered = true;
        *ret_listed = *ret_listed || over->listed;
    }
    return covered;
}

static int within(const struct egress_policy *ceiling, struct rule *rule, const char *entry,
                  struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX];
    bool listed = false, ok;

    if (rule->port == PORT_WEB)
        ok = covers(ceiling, rule, 80, &listed) && covers(ceiling, rule, 443, &listed);
    else
        ok = covers(ceiling, rule, rule->port, &listed);
    if (!ok) {
        format_quoted(entry, quoted);
        return gb_fail_plain(err, EPERM, "%s is more than the operator permits (--network-allow)",
                             quoted);
    }
    rule->listed = listed && rule->kind == RULE_NAME;
    return 0;
}

int egress_policy_allow_within(struct egress_policy *policy, const char *entry,
                               const struct egress_policy *ceiling, struct gb_err *err)
{
    struct rule rule;
    int r = rule_parse(entry, &rule, err);

    if (r < 0 || (r = within(ceiling, &rule, entry, err)) < 0)
        return r;
    return rule_add(policy, &rule, err);
}

static int block_add(struct egress_policy *policy, const struct address_block *block,
                     struct gb_err *err)
{
    struct address_block *blocks;

    if (policy->addresses_len >= ADDRESSES_MAX)
        return gb_fail_plain(err, E2BIG, "more than %d addresses", ADDRESSES_MAX);
    blocks = reallocarray(policy->addresses, policy->addresses_len + 1, sizeof *blocks);
    if (!blocks)
        return gb_fail(err, ENOMEM, "store a network policy");
    policy->addresses = blocks;
    blocks[policy->addresses_len++] = *block;
    return 0;
}

int egress_policy_add_address(struct egress_policy *policy, const char *address, struct gb_err *err)
{
    struct address_block block;

    if (address_block_parse(address, &block) < 0)
        return entry_fail(address, "expected an address, or a block such as 10.1.0.0/16", err);
    return block_add(policy, &block, err);
}

/* ---- asking ---- */

/* Entries that the operator listed come first, those added by others last. */
static bool says_more(const struct rule *a, const struct rule *b)
{
    if (a->listed != b->listed)
        return a->listed;
    if (a->public_only != b->public_only)
        return b->public_only;
    return a->kind > b->kind;
}

const struct rule *policy_match(const struct egress_policy *policy, const struct host *host,
                                uint16_t port, const char *method, bool *ret_hidden)
{
    const struct rule asked = { .kind = RULE_NAME, .host = *host };
    unsigned bit = method ? method_bit(method) : 0;
    const struct rule *best = NULL;

    *ret_hidden = false;
    for (size_t i = 0; i < policy->rules_len; i++) {
        const struct rule *rule = &policy->rules[i];

        if (!covers_host(rule, &asked) || !covers_port(rule, port))
            continue;
        if (rule->methods && !(rule->methods & bit)) {
            *ret_hidden = true;
            continue;
        }
        if (!best || says_more(rule, best))
            best = rule;
    }
    return best;
}

static bool may_be_private(const struct rule *rule)
{
    return rule->kind != RULE_ANY && !rule->public_only;
}

bool policy_permits(const struct egress_policy *policy, const struct rule *rule,
                    const struct address *address, const char **ret_why)
{
    enum address_class class = address_classify(address);

    if (rule->listed)
        return true;
    for (size_t i = 0; may_be_private(rule) && i < policy->addresses_len; i++)
        if (address_block_has(&policy->addresses[i], address))
            return true;
    *ret_why = address_class_name(class);
    if (class != ADDRESS_PUBLIC)
        return false;
    *ret_why = "an address of this host";
    return !address_is_own(address);
}

/* ---- secrets ---- */

bool field_is_hop(const char *name, size_t len)
{
    static const char *const names[] = {
        "connection",        "keep-alive",     "te",   "trailer", "upgrade", "expect",
        "transfer-encoding", "content-length", "host",
    };

    if (len > 6 && strncasecmp(name, "proxy-", 6) == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strlen(names[i]) == len && strncasecmp(name, names[i], len) == 0)
            return true;
    return false;
}

static bool header_valid(const char *name)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = strlen(name);

    return len > 0 && len < EGRESS_HEADER_MAX && strspn(name, token) == len &&
           !field_is_hop(name, len);
}

static bool value_valid(const char *value)
{
    size_t len = strlen(value);

    if (len == 0 || len > EGRESS_VALUE_MAX || value[0] == ' ' || value[len - 1] == ' ')
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) value[i] < 0x20 || value[i] == 0x7f)
            return false;
    return true;
}

static void secret_unref(struct secret *secret)
{
    if (!secret || atomic_fetch_sub(&secret->refs, 1) != 1)
        return;
    sodium_free(secret->value); /* wipes it */
    free(secret);
}

static int secret_new(const struct egress_secret *from, const struct host *host, uint16_t port,
                      struct secret **ret_secret, struct gb_err *err)
{
    struct secret *secret = calloc(1, sizeof *secret);
    size_t len = strlen(from->value);

    if (secret && sodium_init() >= 0)
        secret->value = sodium_malloc(len); /* guarded, locked where that is allowed, not dumped */
    if (!secret || !secret->value) {
        free(secret);
        return gb_fail(err, ENOMEM, "store a secret");
    }
    atomic_init(&secret->refs, 1);
    secret->host = *host;
    secret->port = port;
    (void) snprintf(secret->header, sizeof secret->header, "%s", from->header);
    memcpy(secret->value, from->value, len);
    secret->value_len = len;
    (void) sodium_mprotect_readonly(secret->value);
    *ret_secret = secret;
    return 0;
}

static int secret_rule(struct egress_policy *policy, const struct host *host, uint16_t port,
                       const struct egress_policy *ceiling, struct gb_err *err)
{
    struct rule rule = { .kind = RULE_NAME, .host = *host, .port = port };
    bool hidden;
    int r;

    if (ceiling && (r = within(ceiling, &rule, host->text, err)) < 0)
        return r;
    if (!ceiling)
        rule.listed = host->literal || host_is_localhost(host);
    if (policy_match(policy, host, port, NULL, &hidden) || hidden)
        return 0; /* an existing rule for this host stays, with its methods */
    return rule_add(policy, &rule, err);
}

int egress_policy_add_secret(struct egress_policy *policy, const struct egress_secret *secret,
                             const struct egress_policy *ceiling, struct gb_err *err)
{
    uint16_t port = secret->port ? secret->port : 443;
    struct secret *made = NULL;
    struct host host;
    int r;

    if (host_parse(secret->host, strlen(secret->host), &host) < 0)
        return entry_fail(secret->host, "a secret needs the name of one host", err);
    if (!header_valid(secret->header))
        return entry_fail(secret->header, "this header cannot hold a secret", err);
    if (!value_valid(secret->value))
        return gb_fail_plain(err, EINVAL,
                             "the value of '%s' must be one line of 1 to %d bytes, without control "
                             "characters or blanks at its ends",
                             secret->header, EGRESS_VALUE_MAX);
    if (policy->secrets_len >= SECRETS_MAX)
        return gb_fail_plain(err, E2BIG, "more than %d secrets", SECRETS_MAX);
    if ((r = secret_rule(policy, &host, port, ceiling, err)) < 0 ||
        (r = secret_new(secret, &host, port, &made, err)) < 0)
        return r;
    policy->secrets[policy->secrets_len++] = made;
    return 0;
}

size_t policy_secrets(const struct egress_policy *policy, const struct host *host, uint16_t port,
                      const struct secret **ret_secrets, size_t max, uint16_t *ret_port)
{
    uint16_t to = port == 80 ? 443 : port;
    size_t len = 0;

    for (size_t i = 0; i < policy->secrets_len && len < max; i++) {
        const struct secret *secret = policy->secrets[i];

        if (secret->port == to && strcmp(secret->host.text, host->text) == 0)
            ret_secrets[len++] = secret;
    }
    *ret_port = to;
    return len;
}

static bool has_secret(const struct egress_policy *policy, const struct secret *secret)
{
    for (size_t i = 0; i < policy->secrets_len; i++)
        if (policy->secrets[i]->port == secret->port &&
            strcmp(policy->secrets[i]->host.text, secret->host.text) == 0 &&
            strcasecmp(policy->secrets[i]->header, secret->header) == 0)
            return true;
    return false;
}

int egress_policy_inherit(struct egress_policy *policy, const struct egress_policy *from,
                          struct gb_err *err)
{
    bool hidden;
    int r = 0;

    for (size_t i = 0; i < from->addresses_len && r == 0; i++)
        r = block_add(policy, &from->addresses[i], err);
    for (size_t i = 0; i < from->secrets_len && r == 0; i++) {
        struct secret *secret = from->secrets[i];

        if (has_secret(policy, secret) ||
            (!policy_match(policy, &secret->host, secret->port, NULL, &hidden) && !hidden))
            continue;
        if (policy->secrets_len >= SECRETS_MAX)
            return gb_fail_plain(err, E2BIG, "more than %d secrets", SECRETS_MAX);
        atomic_fetch_add(&secret->refs, 1);
        policy->secrets[policy->secrets_len++] = secret;
    }
    return r;
}

/* ---- life ---- */

int egress_policy_new(struct egress_policy **ret_policy, struct gb_err *err)
{
    *ret_policy = calloc(1, sizeof **ret_policy);
    return *ret_policy ? 0 : gb_fail(err, ENOMEM, "create a network policy");
}

void egress_policy_free(struct egress_policy *policy)
{
    if (!policy)
        return;
    for (size_t i = 0; i < policy->secrets_len; i++)
        secret_unref(policy->secrets[i]);
    free(policy->rules);
    free(policy->addresses);
    free(policy);
}

bool egress_policy_is_empty(const struct egress_policy *policy)
{
    return policy->rules_len == 0;
}

/* ---- showing ---- */

#define ENTRY_MAX (EGRESS_HOST_MAX + 96)

static void rule_format(const struct rule *rule, char text[ENTRY_MAX])
{
    char words[64] = "", port[8] = "";
    bool v6 = rule->kind == RULE_NAME && rule->host.literal && strchr(rule->host.text, ':');
    size_t at = 0;

    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (rule->methods & (1u << i))
            at +=
                (size_t) snprintf(words + at, sizeof words - at, "%s%s", at ? "," : "", methods[i]);
    if (rule->port == PORT_ANY)
        (void) snprintf(port, sizeof port, ":*");
    else if (rule->port != PORT_WEB)
        (void) snprintf(port, sizeof port, ":%u", (unsigned) rule->port & 0xffff);
    (void) snprintf(text, ENTRY_MAX, "%s%s%s%s%s%s%s", words, at ? " " : "",
                    rule->kind == RULE_ANY      ? "*"
                    : rule->kind == RULE_SUFFIX ? "*."
                                                : "",
                    v6 ? "[" : "", rule->host.text, v6 ? "]" : "", port);
}

void egress_policy_each(const struct egress_policy *policy,
                        void (*each)(void *arg, const char *entry, bool is_secret), void *arg)
{
    char text[ENTRY_MAX];

    for (size_t i = 0; i < policy->rules_len; i++) {
        rule_format(&policy->rules[i], text);
        each(arg, text, false);
    }
    for (size_t i = 0; i < policy->secrets_len; i++) {
        (void) snprintf(text, sizeof text, "%s:%u %s", policy->secrets[i]->host.text,
                        policy->secrets[i]->port, policy->secrets[i]->header);
        each(arg, text, true);
    }
}

static bool lists(const struct egress_policy *policy, const char *host)
{
    for (size_t i = 0; i < policy->rules_len; i++)
        if (policy->rules[i].listed && strcmp(policy->rules[i].host.text, host) == 0)
            return true;
    return false;
}

void egress_env_each(const struct egress_policy *policy,
                     void (*each)(void *arg, const char *assignment), void *arg)
{
    static const char *const names[] = { "HTTP_PROXY",  "http_proxy", "HTTPS_PROXY",
                                         "https_proxy", "ALL_PROXY",  "all_proxy" };
    static const char *const local[] = { "localhost", "127.0.0.1", "::1" };
    char text[128], list[64] = "";

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void) snprintf(text, sizeof text, "%s=http://127.0.0.1:%d", names[i], EGRESS_PORT);
        each(arg, text);
    }
    for (size_t i = 0, at = 0; i < ARRAY_LEN(local); i++)
        if (!lists(policy, local[i]))
            at += (size_t) snprintf(list + at, sizeof list - at, "%s%s", at ? "," : "", local[i]);
    (void) snprintf(text, sizeof text, "NO_PROXY=%s", list);
    each(arg, text);
    (void) snprintf(text, sizeof text, "no_proxy=%s", list);
    each(arg, text);
}
