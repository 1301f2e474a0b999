#include "cli/network.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/parse.h"

#include "base/banned.h"

#define CONNECTIONS_MAX 1024 /* of all boxes to their proxies */

/* One line, without its end. */
static int value_read(const char *path, char *buf, size_t size, struct gb_err *err)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t n = fd < 0 ? -errno : io_read_all(fd, buf, size - 1);

    if (n < 0)
        return gb_fail_about(err, (int) -n, "--network-secret: cannot read '%s'", path);
    if (n > 0 && buf[n - 1] == '\n')
        n--;
    if (n > 0 && buf[n - 1] == '\r')
        n--;
    if (memchr(buf, '\0', (size_t) n))
        return gb_fail_plain(err, EINVAL, "--network-secret: '%s' is not one line of text", path);
    buf[n] = '\0';
    return 0;
}

/* HOST[:PORT]/HEADER=FILE */
static int secret_add(struct egress_policy *policy, const char *text, struct gb_err *err)
{
    autofree char *spec = strdup(text);
    char value[EGRESS_VALUE_MAX + 3], quoted[FORMAT_QUOTED_MAX];
    char *slash = spec ? strchr(spec, '/') : NULL, *equals = slash ? strchr(slash, '=') : NULL;
    struct egress_secret secret = { .host = spec, .value = value };
    struct gb_err why;
    int64_t port = 0;
    char *colon;
    int r;

    if (!spec)
        return gb_fail_about(err, ENOMEM, "--network-secret");
    format_quoted(text, quoted);
    if (!equals || !equals[1])
        return gb_fail_plain(err, EINVAL, "--network-secret %s: expected HOST[:PORT]/HEADER=FILE",
                             quoted);
    *slash = *equals = '\0';
    secret.header = slash + 1;
    colon = strchr(spec, ':');
    if (colon) {
        *colon = '\0';
        if (parse_int(colon + 1, &port) < 0 || port < 1 || port > 65535)
            return gb_fail_plain(err, EINVAL, "--network-secret %s: not a port", quoted);
        secret.port = (uint16_t) port;
    }
    if ((r = value_read(equals + 1, value, sizeof value, err)) < 0)
        return r;
    r = egress_policy_add_secret(policy, &secret, NULL, &why);
    explicit_bzero(value, sizeof value);
    return r < 0 ? gb_fail_plain(err, -r, "--network-secret %s", why.msg) : 0;
}

static int policy_fill(const struct config *cfg, char *const *hosts, struct egress_policy *policy,
                       struct gb_err *err)
{
    const char *option = hosts == cfg->allow_hosts ? "--allow-host" : "--network-allow";
    struct gb_err why = { 0 };
    int r = 0;

    for (; hosts && *hosts && r == 0; hosts++)
        r = egress_policy_allow(policy, *hosts, true, &why);
    if (r < 0)
        return gb_fail_plain(err, -r, "%s %.180s", option, why.msg);
    for (char *const *at = cfg->network_addresses; at && *at && r == 0; at++)
        r = egress_policy_add_address(policy, *at, &why);
    if (r < 0)
        return gb_fail_plain(err, -r, "--network-address %.180s", why.msg);
    for (char *const *at = cfg->network_secrets; at && *at && r == 0; at++)
        r = secret_add(policy, *at, err);
    return r;
}

int network_policy(const struct config *cfg, char *const *hosts, struct egress_policy **ret_policy,
                   struct gb_err *err)
{
    struct egress_policy *policy = NULL;
    int r = egress_policy_new(&policy, err);

    if (r == 0)
        r = policy_fill(cfg, hosts, policy, err);
    if (r < 0 || egress_policy_is_empty(policy)) {
        egress_policy_free(policy);
        policy = NULL;
    }
    if (r == 0)
        *ret_policy = policy;
    return r;
}

struct egress_config network_config(const struct config *cfg)
{
    struct egress_config config = { .resolver = cfg->network_resolver, .ca_file = cfg->network_ca };
    struct rlimit limit;

    /* Each connection takes two descriptors; all of them together at most a quarter of ours, so
     * that boxes cannot lock out clients. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 8 < CONNECTIONS_MAX)
        config.connections_max = (int64_t) (limit.rlim_cur / 8) + 1;
    else
        config.connections_max = CONNECTIONS_MAX;
    return config;
}

struct egress_limits network_limits(const struct config *cfg)
{
    return (struct egress_limits){ .connections = cfg->network_connections,
                                   .bytes = cfg->network_bytes };
}

void network_no_core(void)
{
    struct rlimit limit;

    /* 1 and not 0: with 0 the kernel still hands a dump to a program that core_pattern names. */
    if (getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur > 1) {
        limit.rlim_cur = 1;
        (void) setrlimit(RLIMIT_CORE, &limit);
    }
}
