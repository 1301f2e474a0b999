#include "service/session/network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/strv.h"
#include "service/service_internal.h"

#include "base/banned.h"

/* ---- one box ---- */

struct env_list {
    char **items;
    bool failed;
};

static void env_add(void *arg, const char *assignment)
{
    struct env_list *list = arg;

    if (strv_add(&list->items, assignment) < 0)
        list->failed = true;
}

int network_open(struct egress *egress, struct box *box, struct egress_policy *policy,
                 const struct egress_limits *limits, const char *label, struct network *ret_network,
                 struct gb_err *err)
{
    struct network network = { 0 };
    struct env_list list = { 0 };
    int fd = -EBADF, r;

    *ret_network = network;
    if (!policy || egress_policy_is_empty(policy)) {
        egress_policy_free(policy);
        return 0;
    }
    egress_env_each(policy, env_add, &list);
    network.env = list.items;
    r = list.failed ? gb_fail(err, ENOMEM, "set up the network")
                    : box_listen(box, EGRESS_PORT, &fd, err);
    if (r < 0)
        egress_policy_free(policy);
    else
        r = egress_serve(egress, fd, policy, limits, label, &network.proxy, err);
    if (r < 0) {
        network_close(&network);
        return r;
    }
    *ret_network = network;
    return 0;
}

void network_close(struct network *network)
{
    egress_end(network->proxy);
    strv_free(network->env);
    *network = (struct network){ 0 };
}

/* ---- a session's request ---- */

static int malformed(struct fault *fault, const char *loc, const char *what)
{
    return fault_set(fault, PROBLEM_NETWORK_MALFORMED, loc, "%s", what);
}

/* Asking for more than the operator permits is a different error than a malformed request. */
static int fault_from_policy(const struct gb_err *err, const char *loc, struct fault *fault)
{
    if (err->code == EPERM)
        return fault_set(fault, PROBLEM_NETWORK_NOT_PERMITTED, loc, "%s", err->msg);
    if (err->code == ENOMEM)
        return fault_no_memory(fault);
    return malformed(fault, loc, err->msg);
}

static int allow_read(const struct egress_policy *ceiling, const json_t *list,
                      struct egress_policy *policy, struct fault *fault)
{
    struct gb_err err;
    json_t *item;
    size_t i;

    if (list && !json_is_array(list))
        return malformed(fault, "network.allow", "expected a list of strings");
    json_array_foreach ((json_t *) list, i, item) {
        if (!json_is_string(item) || strlen(json_string_value(item)) != json_string_length(item))
            return malformed(fault, "network.allow", "expected a list of strings");
        if (egress_policy_allow_within(policy, json_string_value(item), ceiling, &err) < 0)
            return fault_from_policy(&err, "network.allow", fault);
    }
    return 0;
}

static int secret_read(const struct egress_policy *ceiling, json_t *item,
                       struct egress_policy *policy, struct fault *fault)
{
    static const char shape[] = "each secret is {host, header, value} with an optional port";
    struct egress_secret secret = { 0 };
    json_int_t port = 0;
    struct gb_err err;
    size_t value_len = 0;

    if (json_unpack(item, "{s:s, s:s, s:s%, s?I !}", "host", &secret.host, "header", &secret.header,
                    "value", &secret.value, &value_len, "port", &port) < 0)
        return malformed(fault, "network.secrets", shape);
    if (port < 0 || port > 65535 || (json_object_get(item, "port") && port == 0))
        return malformed(fault, "network.secrets", "port must be from 1 to 65535");
    if (strlen(secret.value) != value_len)
        return malformed(fault, "network.secrets", "a value must not contain a NUL");
    secret.port = (uint16_t) port;
    if (egress_policy_add_secret(policy, &secret, ceiling, &err) < 0)
        return fault_from_policy(&err, "network.secrets", fault);
    return 0;
}

/* The parsed request is returned to the allocator as it is, so its copies of values are wiped
 * first. */
static void values_wipe(json_t *list)
{
    json_t *item;
    size_t i;

    json_array_foreach (list, i, item) {
        json_t *value = json_object_get(item, "value");

        if (json_is_string(value))
            explicit_bzero((char *) json_string_value(value), json_string_length(value));
    }
}

static int secrets_read(const struct egress_policy *ceiling, json_t *list,
                        struct egress_policy *policy, struct fault *fault)
{
    json_t *item;
    size_t i;
    int r = 0;

    if (list && !json_is_array(list))
        return malformed(fault, "network.secrets", "expected a list");
    json_array_foreach (list, i, item) {
        if (r == 0)
            r = secret_read(ceiling, item, policy, fault);
    }
    return r;
}

static int fields_check(const json_t *object, struct fault *fault)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return malformed(fault, "network", "expected {\"allow\": [...], \"secrets\": [...]}");
    json_object_foreach ((json_t *) object, name, value) {
        if (strcmp(name, "allow") != 0 && strcmp(name, "secrets") != 0)
            return malformed(fault, "network",
                             "unknown field; the fields are 'allow' and 'secrets'");
    }
    return 0;
}

int network_policy_from_json(struct service *service, json_t *object,
                             struct egress_policy **ret_policy, struct fault *fault)
{
    const struct egress_policy *ceiling = service->config.network;
    json_t *allow = json_object_get(object, "allow"), *secrets = json_object_get(object, "secrets");
    struct egress_policy *policy = NULL, *nothing = NULL;
    struct gb_err err;
    int r;

    *ret_policy = NULL;
    if (!object || json_is_null(object))
        return 0;
    if (fields_check(object, fault) < 0)
        return -1;
    if (egress_policy_new(&policy, &err) < 0 || egress_policy_new(&nothing, &err) < 0) {
        egress_policy_free(policy);
        return fault_from_policy(&err, NULL, fault);
    }
    if (!ceiling)
        ceiling = nothing;
    r = allow_read(ceiling, json_is_null(allow) ? NULL : allow, policy, fault);
    if (r == 0)
        r = secrets_read(ceiling, json_is_null(secrets) ? NULL : secrets, policy, fault);
    values_wipe(secrets);
    if (r == 0 && egress_policy_inherit(policy, ceiling, &err) < 0)
        r = fault_from_policy(&err, "network", fault);
    egress_policy_free(nothing);
    if (r < 0 || egress_policy_is_empty(policy)) {
        egress_policy_free(policy);
        return r;
    }
    *ret_policy = policy;
    return 0;
}

/* ---- as JSON ---- */

struct shown {
    json_t *allow, *secrets;
};

static void show_entry(void *arg, const char *entry, bool is_secret)
{
    struct shown *shown = arg;

    (void) json_array_append_new(is_secret ? shown->secrets : shown->allow, json_string(entry));
}

json_t *network_policy_to_json(const struct egress_policy *policy)
{
    struct shown shown = { json_array(), json_array() };

    if (policy)
        egress_policy_each(policy, show_entry, &shown);
    return json_pack("{s:o, s:o}", "allow", shown.allow, "secrets", shown.secrets);
}
