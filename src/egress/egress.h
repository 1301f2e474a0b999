/*
 * Egress: the one way out of a box. This is the module's public header.
 *
 * A box has a network namespace with a loopback and nothing else. To let it reach a host, the
 * engine opens a listening socket in that namespace (box_listen()), and a proxy of this module
 * serves HTTP and CONNECT on it, in the supervisor. Names are checked against a policy and resolved
 * by us, and the addresses they resolve to are checked before we connect.
 *
 * One struct egress serves all boxes of a supervisor; each box has a struct egress_proxy.
 * Everything here is called in the supervisor, by any of its threads. Everything that comes through
 * a proxy is hostile, and so are the replies.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"

#define EGRESS_HOST_MAX   254  /* a name or an address as text, with its NUL */
#define EGRESS_RULES_MAX  256  /* entries of one policy */
#define EGRESS_HEADER_MAX 64   /* name of a secret's header, with its NUL */
#define EGRESS_VALUE_MAX  8192 /* bytes of a secret's value */
#define EGRESS_PORT       3128 /* where boxes find their proxy, on 127.0.0.1 */

/* ---- policies: what one box may reach ----
 *
 * An entry is text, the same in requests, options and files: "[METHOD[,METHOD...] ]HOST[:PORT]".
 *
 *   example.com            that name, ports 80 and 443
 *   example.com:8443       that port only; ":*" is any port
 *   *.example.com          every name beneath it, not example.com itself
 *   *                      every host with a public address
 *   192.0.2.7, [2001:db8::7]:8080      an address that programs use as such
 *   GET,HEAD example.com   these methods, in plain HTTP; CONNECT would hide the method, so it is
 *                          refused for such an entry
 *
 * Names that resolve to an address that is not public (loopback, link-local, private, shared,
 * multicast, metadata, or one of this host) are refused, unless the operator listed that address.
 * "*" never leads to such an address. */
struct egress_policy;

int egress_policy_new(struct egress_policy **ret_policy, struct gb_err *err);
void egress_policy_free(struct egress_policy *policy); /* wipes secrets; accepts NULL */

/* Adds an entry. EINVAL: the message says what is wrong with it. @listed: the operator wrote it, so
 * an address or "localhost" in it is allowed even if it is not public. */
int egress_policy_allow(struct egress_policy *policy, const char *entry, bool listed,
                        struct gb_err *err);

/* Adds one host on behalf of someone other than the operator. It may only lead to public addresses:
 * addresses listed for other entries do not apply to it. */
int egress_policy_allow_public(struct egress_policy *policy, const char *entry, struct gb_err *err);

/* Adds an entry that a client asks for, within @ceiling. EPERM: the ceiling does not cover it; the
 * message says so. If the ceiling lists an address, so does this policy. */
int egress_policy_allow_within(struct egress_policy *policy, const char *entry,
                               const struct egress_policy *ceiling, struct gb_err *err);

/* "10.1.0.0/16" or "127.0.0.1": names of exact and "*." entries may resolve to it, public or not.
 * For operators only. */
int egress_policy_add_address(struct egress_policy *policy, const char *address,
                              struct gb_err *err);

/* A header that code can use but not see: a request for http://@host/ leaves as HTTPS, to
 * @host:@port, with the header added; one of the same name that the program sent is dropped. The
 * entry @host:@port is allowed by it. @host is an exact name. @value is copied into locked memory
 * that is left out of core dumps and wiped by egress_policy_free(); bytes from 0x20 to 0x7e and
 * 0x80 to 0xff. With @ceiling as egress_policy_allow_within(). No message ever names the value. */
struct egress_secret {
    const char *host;
    uint16_t port; /* 0: 443 */
    const char *header;
    const char *value;
};
int egress_policy_add_secret(struct egress_policy *policy, const struct egress_secret *secret,
                             const struct egress_policy *ceiling, struct gb_err *err);

/* Adds the operator's addresses and secrets from @from: all addresses, and the secrets for hosts
 * that @policy allows. */
int egress_policy_inherit(struct egress_policy *policy, const struct egress_policy *from,
                          struct gb_err *err);

/* Whether it allows anything at all. */
bool egress_policy_is_empty(const struct egress_policy *policy);

/* Calls @each with every entry as text, in the order they were added, and then with every secret as
 * "HOST:PORT HEADER" (is_secret). For displaying a policy; the values of secrets are not
 * included. */
void egress_policy_each(const struct egress_policy *policy,
                        void (*each)(void *arg, const char *entry, bool is_secret), void *arg);

/* The variables with which a program in the box finds the proxy: HTTP_PROXY and the like, in upper
 * and lower case, and NO_PROXY for loopback. Calls @each with NAME=value. A loopback address that
 * the policy lists is not in NO_PROXY, since the host's loopback is meant then. */
void egress_env_each(const struct egress_policy *policy,
                     void (*each)(void *arg, const char *assignment), void *arg);

/* ---- all boxes of a supervisor ---- */

struct egress;

struct egress_config {
    int64_t connections_max; /* of all boxes together; 0: 1024. Each box may have two in any case */
    const char *resolver;    /* "ADDR[:PORT]" of a DNS server; NULL: as the host is configured */
    const char *ca_file;     /* certificates to trust, PEM; NULL: the host's */
    /* The names of the settings that would have helped, for refusals; NULL: those of the service,
     * network.allow, --network-address and --network-bytes. */
    const char *allow_setting, *address_setting, *bytes_setting;
    /* One line of the log; may be NULL. Called by any thread. */
    void (*log)(void *arg, enum log_level level, const char *line);
    void *log_arg;
};

/* Cheap: certificates and the like are loaded when first needed. @config is copied, strings
 * included. */
int egress_open(const struct egress_config *config, struct egress **ret_egress, struct gb_err *err);
void egress_close(struct egress *egress); /* after all proxies were closed; accepts NULL */

struct egress_stats {
    int64_t connections_live;
    int64_t connections; /* ever accepted */
    int64_t requests;    /* that went out */
    int64_t refused;     /* by policy or limit */
    int64_t failed;      /* no such name, no connection, bad certificate, bad request */
    int64_t bytes_sent, bytes_received;
};
void egress_get_stats(struct egress *egress, struct egress_stats *ret_stats);

/* ---- the proxy of one box ---- */

struct egress_proxy;

struct egress_limits {
    int64_t connections; /* at one time; more wait in the box. 0: 32 */
    int64_t bytes;       /* both directions together, over its lifetime. 0: 1 GiB */
    int64_t head_us;     /* for a request's head to arrive. 0: 10 s */
    int64_t connect_us;  /* to resolve and connect. 0: 15 s */
    int64_t idle_us;     /* without a byte in either direction. 0: 120 s */
};

/* Serves the listening socket from now on, on its own threads. Takes over @listen_fd and @policy,
 * also when it fails. @limits may be NULL; @label is for the log, such as a session's id. */
int egress_serve(struct egress *egress, int listen_fd, struct egress_policy *policy,
                 const struct egress_limits *limits, const char *label,
                 struct egress_proxy **ret_proxy, struct gb_err *err);

/* Closes every connection, waits for the threads, closes the socket. Never waits for a remote host.
 * Accepts NULL. */
void egress_end(struct egress_proxy *proxy);

/* The hosts contacted. One entry per host and port; those beyond EGRESS_CONTACTS_MAX are counted
 * under the name "(others)". */
#define EGRESS_CONTACTS_MAX 64

struct egress_contact {
    char host[EGRESS_HOST_MAX];
    uint16_t port;
    int64_t requests;                   /* requests and tunnels that were let through */
    int64_t refused;                    /* by the policy */
    int64_t failed;                     /* could not be reached */
    int64_t bytes_sent, bytes_received; /* as the box sees it */
};

/* Returns the contacts since the last call, sorted by host and port, and clears them; the caller
 * frees *@ret_contacts. Bytes of an open tunnel are counted as they pass. 0 or -ENOMEM. */
int egress_take_contacts(struct egress_proxy *proxy, struct egress_contact **ret_contacts,
                         size_t *ret_len);
