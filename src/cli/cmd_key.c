/* `glovebox key`: the keys that let clients into the service. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/parse.h"
#include "cli/cmd.h"
#include "service/access/data.h"
#include "service/access/keys.h"

#include "base/banned.h"

enum { EXIT_NO_KEY = 1 };

static json_t *time_to_json(int64_t us)
{
    char text[FORMAT_UTC_MAX];

    if (us == 0)
        return json_null();
    format_utc(us, text);
    return json_string(text);
}

static json_t *limit_to_json(int64_t limit)
{
    return limit == STORE_LIMIT_DEFAULT ? json_null() : json_integer(limit);
}

static json_t *key_to_json(const struct store_key *key)
{
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "id", key->id, "name", key->name, "created",
        time_to_json(key->created_us), "last_used", time_to_json(key->last_used_us), "revoked",
        time_to_json(key->revoked_us), "sessions", limit_to_json(key->sessions), "executions",
        limit_to_json(key->executions), "rate_per_minute", limit_to_json(key->rate_per_minute));
}

/* ---- create ---- */

static int64_t limit_of(int64_t option)
{
    return option == 0 ? STORE_LIMIT_DEFAULT : option;
}

static int print_token(const struct config *cfg, const struct store_key *key, const char *token,
                       struct gb_err *err)
{
    if (cfg->json) {
        json_t *json = key_to_json(key);

        if (json && json_object_set_new(json, "token", json_string(token)) < 0) {
            json_decref(json);
            json = NULL;
        }
        return cmd_print_json(json, err);
    }
    say("created key %s; its token is shown only once:", key->id);
    if (printf("%s\n", token) < 0 || fflush(stdout) != 0)
        return gb_fail(err, EIO, "print the token");
    return 0;
}

static int key_create(const struct config *cfg, struct store *store, struct gb_err *err)
{
    struct keys_spec spec = {
        .name = cfg->key_name,
        .sessions = limit_of(cfg->key_sessions),
        .executions = limit_of(cfg->key_executions),
        .rate_per_minute = limit_of(cfg->key_rate),
    };
    char token[KEYS_TOKEN_MAX];
    struct store_key key;
    int r = keys_create(store, &spec, token, &key, err);

    if (r < 0)
        return r;
    r = print_token(cfg, &key, token, err);
    explicit_bzero(token, sizeof token);
    if (r < 0)
        (void) keys_revoke(store, key.id, NULL); /* nobody has seen it */
    return r;
}

/* ---- list ---- */

static int print_keys_json(const struct store_key *keys, size_t len, struct gb_err *err)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < len; i++)
        if (json_array_append_new(list, key_to_json(&keys[i])) < 0) {
            json_decref(list);
            list = NULL;
        }
    return cmd_print_json(list ? json_pack("{s:o}", "keys", list) : NULL, err);
}

/* With seconds; "-" means never. */
static void short_time(int64_t us, char buf[FORMAT_UTC_MAX])
{
    char *dot;

    format_utc(us == 0 ? -1 : us, buf);
    dot = strchr(buf, '.');
    if (dot)
        memcpy(dot, "Z", 2);
}

static void short_limit(int64_t limit, char buf[FORMAT_NUMBER_MAX])
{
    if (limit == STORE_LIMIT_DEFAULT)
        (void) snprintf(buf, FORMAT_NUMBER_MAX, "default");
    else
        (void) snprintf(buf, FORMAT_NUMBER_MAX, "%lld", (long long) limit);
}

static void print_key(const struct store_key *key)
{
    char created[FORMAT_UTC_MAX], used[FORMAT_UTC_MAX], revoked[FORMAT_UTC_MAX];
    char sessions[FORMAT_NUMBER_MAX], executions[FORMAT_NUMBER_MAX], rate[FORMAT_NUMBER_MAX];
    char name[FORMAT_QUOTED_MAX] = "";

    short_time(key->created_us, created);
    short_time(key->last_used_us, used);
    short_time(key->revoked_us, revoked);
    short_limit(key->sessions, sessions);
    short_limit(key->executions, executions);
    short_limit(key->rate_per_minute, rate);
    if (key->name[0])
        format_quoted(key->name, name);
    printf("%-12s  %-20s  %-20s  %-20s  %8s  %10s  %8s  %s\n", key->id, created, used, revoked,
           sessions, executions, rate, name);
}

static int key_list(const struct config *cfg, struct store *store, struct gb_err *err)
{
    autofree struct store_key *keys = NULL;
    size_t len;
    int r = keys_list(store, &keys, &len, err);

    if (r < 0)
        return r;
    if (cfg->json)
        return print_keys_json(keys, len, err);
    printf("%-12s  %-20s  %-20s  %-20s  %8s  %10s  %8s  %s\n", "ID", "CREATED", "LAST USED",
           "REVOKED", "SESSIONS", "EXECUTIONS", "RATE/MIN", "NAME");
    for (size_t i = 0; i < len; i++)
        print_key(&keys[i]);
    return fflush(stdout) != 0 ? gb_fail(err, EIO, "print the keys") : 0;
}

/* ---- revoke ---- */

static int key_revoke(const struct config *cfg, struct store *store, struct gb_err *err)
{
    int r = keys_revoke(store, cfg->args[0], err);

    if (r == 0 && cfg->json)
        return cmd_print_json(json_pack("{s:s, s:b}", "id", cfg->args[0], "revoked", 1), err);
    if (r == 0)
        say("revoked key %s", cfg->args[0]);
    return r;
}

int cmd_key(const struct config *cfg)
{
    struct gb_err err = { 0 };
    struct store *store = NULL;
    int r = cmd_open_store(cfg, cfg->action != ACTION_KEY_CREATE, &store, &err);

    if (r == 0 && cfg->action == ACTION_KEY_CREATE)
        r = key_create(cfg, store, &err);
    else if (r == 0 && cfg->action == ACTION_KEY_LIST)
        r = key_list(cfg, store, &err);
    else if (r == 0)
        r = key_revoke(cfg, store, &err);
    store_close(store);
    if (r == 0)
        return 0;
    say("%s", err.msg);
    if (r == -EINVAL)
        return EXIT_USAGE;
    return r == -ENOENT || r == -EALREADY ? EXIT_NO_KEY : EXIT_OURS;
}
