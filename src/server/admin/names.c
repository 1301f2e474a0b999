/* Principals as people know them: the name of a key, the address of an account, the listener. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "server/admin/internal.h"

#include "base/banned.h"

#define USER_PREFIX "user-"

void names_init(struct names *names, struct request *rq)
{
    *names = (struct names){ .rq = rq, .known = json_object() };
}

void names_release(struct names *names)
{
    json_decref(names->known);
    free(names->keys);
}

static json_t *user_name(struct names *names, const char *id)
{
    struct auth *auth = mark_auth(names->rq->server->config.mark);
    struct fault ignored;
    json_t *user = NULL, *name;

    if (auth_user(auth, id, &user, &ignored) < 0)
        return json_string("a deleted account");
    name = json_incref(json_object_get(user, "email"));
    json_decref(user);
    return name;
}

static json_t *key_name(struct names *names, const char *id)
{
    struct gb_err ignored;

    if (!names->keys_read && keys_list(mark_store(names->rq->server->config.mark), &names->keys,
                                       &names->keys_len, &ignored) < 0)
        names->keys_len = 0;
    names->keys_read = true;
    for (size_t i = 0; i < names->keys_len; i++)
        if (strcmp(names->keys[i].id, id) == 0 && names->keys[i].name[0])
            return json_string(names->keys[i].name);
    return json_sprintf("key %s", id);
}

static json_t *name_of(struct names *names, const char *principal)
{
    json_t *name = json_object_get(names->known, principal);

    if (name)
        return json_incref(name);
    if (strcmp(principal, PRINCIPAL_TEXT_LOCAL) == 0)
        name = json_string("local (no key)");
    else if (strncmp(principal, USER_PREFIX, sizeof USER_PREFIX - 1) == 0)
        name = user_name(names, principal + sizeof USER_PREFIX - 1);
    else
        name = key_name(names, principal);
    (void) json_object_set(names->known, principal, name);
    return name;
}

void names_add(struct names *names, json_t *list, const char *member)
{
    json_t *item;
    size_t i;

    json_array_foreach (list, i, item) {
        const char *principal = json_string_value(json_object_get(item, member));
        const char *listener = json_string_value(json_object_get(item, "listener"));

        if (!principal)
            continue;
        if (listener && strcmp(principal, PRINCIPAL_TEXT_LOCAL) == 0)
            (void) json_object_set_new(item, "name", json_string(listener));
        else
            (void) json_object_set_new(item, "name", name_of(names, principal));
    }
}

/* The last key with that name, unless it is the id of one. */
static bool find_key(struct request *rq, const char *text, char ret_principal[PRINCIPAL_ID_MAX])
{
    autofree struct store_key *keys = NULL;
    const char *id = NULL;
    struct gb_err ignored;
    size_t len = 0;

    if (keys_list(mark_store(rq->server->config.mark), &keys, &len, &ignored) < 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (strcmp(keys[i].id, text) == 0)
            return false;
        if (strcasecmp(keys[i].name, text) == 0)
            id = keys[i].id;
    }
    if (id)
        snprintf(ret_principal, PRINCIPAL_ID_MAX, "%s", id);
    return id;
}

bool names_find(struct request *rq, const char *text, char ret_principal[PRINCIPAL_ID_MAX])
{
    json_t *users = NULL, *user;
    struct fault ignored;
    bool found = false;
    size_t i;

    if (strcmp(text, PRINCIPAL_TEXT_LOCAL) != 0 && find_key(rq, text, ret_principal))
        return true;
    if (!strchr(text, '@')) {
        found = strlen(text) < PRINCIPAL_ID_MAX;
        snprintf(ret_principal, PRINCIPAL_ID_MAX, "%s", text);
        return found;
    }
    if (auth_list(mark_auth(rq->server->config.mark), &users, &ignored) < 0)
        return false;
    json_array_foreach (users, i, user) {
        const char *id = json_string_value(json_object_get(user, "user_id"));
        const char *email = json_string_value(json_object_get(user, "email"));
        struct principal principal;

        if (!id || !email || strcasecmp(email, text) != 0 ||
            principal_from_user(id, &principal) < 0)
            continue;
        memcpy(ret_principal, principal.id, PRINCIPAL_ID_MAX);
        found = true;
    }
    json_decref(users);
    return found;
}
