/* `glovebox user`: the people who have accounts of Mark. It works beside a running service, which
 * notices changes within about a second. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/parse.h"
#include "cli/cmd.h"
#include "cli/password.h"
#include "cli/user_budget.h"
#include "mark/attach/attachments.h"
#include "mark/auth/auth.h"
#include "service/access/data.h"

#include "base/banned.h"

enum { EXIT_NO_USER = 1 };

/* ---- the password ---- */

struct password {
    char text[PASSWORD_SIZE];
    bool made; /* by us, so it has to be shown */
};

static int ask(const char *email, struct password *password, struct gb_err *err)
{
    char again[PASSWORD_SIZE], prompt[320];
    int r;

    (void) snprintf(prompt, sizeof prompt, "Password for %.250s (empty: make one): ", email);
    r = password_ask(prompt, password->text, err);
    if (r < 0)
        return r;
    password->made = password->text[0] == '\0';
    if (password->made)
        return 0;
    r = password_ask("Again: ", again, err);
    if (r == 0 && strcmp(again, password->text) != 0)
        r = gb_fail_plain(err, EINVAL, "the two are not the same; try again");
    explicit_bzero(again, sizeof again);
    return r;
}

static int get_password(const struct config *cfg, struct password *password, struct gb_err *err)
{
    int r = 0;

    if (cfg->password_file)
        r = password_read_file(cfg->password_file, password->text, err);
    else if (password_can_ask())
        r = ask(cfg->args[0], password, err);
    else
        password->made = true;
    if (r == 0 && password->made) {
        _Static_assert(PASSWORD_SIZE >= AUTH_CODE_MAX, "one that is made fits");
        auth_make_password(password->text);
    }
    return r;
}

/* ---- what the subcommands share ---- */

struct users {
    const struct config *cfg;
    char *data_dir;
    struct store *store;
    struct auth *auth;
};

static int fail_fault(const struct fault *fault, struct gb_err *err)
{
    if (fault->problem == PROBLEM_EMAIL_TAKEN)
        return gb_fail_plain(err, EEXIST, "an account with this address exists already");
    return gb_fail_plain(err,
                         fault->problem == PROBLEM_BAD_CREDENTIALS ? ENOENT
                         : fault->kind == FAULT_INVALID            ? EINVAL
                                                                   : EIO,
                         "%s", fault->detail);
}

/* Prints @json, which it takes, or what people read; and the password if we made it. */
static int print_made(const struct users *users, json_t *json, const struct password *password,
                      const char *what, struct gb_err *err)
{
    if (users->cfg->json) {
        if (password->made && json &&
            json_object_set_new(json, "password", json_string(password->text)) < 0) {
            json_decref(json);
            json = NULL;
        }
        return cmd_print_json(json, err);
    }
    json_decref(json);
    say("%s %s%s", what, users->cfg->args[0],
        password->made ? "; the password is shown only once:" : "");
    if (password->made && (printf("%s\n", password->text) < 0 || fflush(stdout) != 0))
        return gb_fail(err, EIO, "print the password");
    return 0;
}

/* ---- subcommands ---- */

static int user_add(struct users *users, struct gb_err *err)
{
    struct password password = { 0 };
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r = get_password(users->cfg, &password, err);

    if (r == 0 && auth_add(users->auth, users->cfg->args[0], password.text, users->cfg->key_name,
                           &json, &fault) < 0)
        r = fail_fault(&fault, err);
    if (r == 0)
        r = print_made(users, json, &password, "created the account", err);
    explicit_bzero(&password, sizeof password);
    return r;
}

static int user_reset(struct users *users, struct gb_err *err)
{
    struct password password = { 0 };
    struct fault fault = { 0 };
    int r = get_password(users->cfg, &password, err);

    if (r == 0 && auth_reset(users->auth, users->cfg->args[0], password.text, &fault) < 0)
        r = fail_fault(&fault, err);
    if (r == 0)
        r = print_made(users, json_pack("{s:s}", "email", users->cfg->args[0]), &password,
                       "set the password of", err);
    explicit_bzero(&password, sizeof password);
    return r;
}

static void print_user(const json_t *user)
{
    const char *created = json_string_value(json_object_get(user, "created"));
    const char *name = json_string_value(json_object_get(user, "name"));
    char quoted[FORMAT_QUOTED_MAX] = "";

    if (name && name[0])
        format_quoted(name, quoted);
    printf("%-36s  %-8s  %-19.19sZ  %-32s  %s\n",
           json_string_value(json_object_get(user, "user_id")),
           json_string_value(json_object_get(user, "role")), created ? created : "",
           json_string_value(json_object_get(user, "email")), quoted);
}

static int user_list(struct users *users, struct gb_err *err)
{
    struct fault fault = { 0 };
    json_t *list = NULL, *user;
    size_t i;

    if (auth_list(users->auth, &list, &fault) < 0)
        return fail_fault(&fault, err);
    if (users->cfg->json)
        return cmd_print_json(json_pack("{s:o}", "users", list), err);
    printf("%-36s  %-8s  %-20s  %-32s  %s\n", "ID", "ROLE", "CREATED", "ADDRESS", "NAME");
    json_array_foreach (list, i, user)
        print_user(user);
    json_decref(list);
    return fflush(stdout) != 0 ? gb_fail(err, EIO, "print the users") : 0;
}

/* Opening the attachments removes files that nobody has any more, beside a running service too. */
static int user_remove(struct users *users, struct gb_err *err)
{
    struct attachments_config config = { .store = users->store, .data_dir = users->data_dir };
    struct attachments *attachments = NULL;
    struct fault fault = { 0 };
    int r;

    if (auth_remove(users->auth, users->cfg->args[0], &fault) < 0)
        return fail_fault(&fault, err);
    r = attachments_open(&config, &attachments, err);
    attachments_close(attachments);
    if (r < 0)
        return r;
    if (users->cfg->json)
        return cmd_print_json(json_pack("{s:s,s:b}", "email", users->cfg->args[0], "removed", 1),
                              err);
    say("removed the account %s and everything in it", users->cfg->args[0]);
    return 0;
}

static int user_invite(struct users *users, struct gb_err *err)
{
    char code[AUTH_CODE_MAX], until[FORMAT_UTC_MAX];
    struct fault fault = { 0 };

    if (auth_invite(users->auth, users->cfg->invite_us, code, &fault) < 0)
        return fail_fault(&fault, err);
    format_utc(clock_wall_us() + users->cfg->invite_us, until);
    if (users->cfg->json)
        return cmd_print_json(json_pack("{s:s,s:s}", "invitation", code, "expires", until), err);
    say("whoever signs up with this invitation until %.16sZ gets an account; it is shown only "
        "once:",
        until);
    if (printf("%s\n", code) < 0 || fflush(stdout) != 0)
        return gb_fail(err, EIO, "print the invitation");
    return 0;
}

static int budget(struct users *users, struct gb_err *err)
{
    return user_budget(users->cfg, users->store, users->auth, err);
}

static const struct {
    enum action_id action;
    bool creates; /* the data directory, if there is none */
    int (*run)(struct users *users, struct gb_err *err);
} subcommands[] = {
    { ACTION_USER_ADD, true, user_add },       { ACTION_USER_LIST, false, user_list },
    { ACTION_USER_RESET, false, user_reset },  { ACTION_USER_REMOVE, false, user_remove },
    { ACTION_USER_INVITE, true, user_invite }, { ACTION_USER_BUDGET, false, budget },
};

static int run(struct users *users, struct gb_err *err)
{
    struct auth_config config = { 0 };
    size_t i = 0;
    int r = cmd_data_dir(users->cfg, &users->data_dir, err);

    while (i + 1 < ARRAY_LEN(subcommands) && subcommands[i].action != users->cfg->action)
        i++;
    if (r == 0)
        r = cmd_open_store(users->cfg, !subcommands[i].creates, &users->store, err);
    config.store = users->store;
    config.data_dir = users->data_dir;
    if (r == 0)
        r = auth_open(&config, &users->auth, err);
    return r == 0 ? subcommands[i].run(users, err) : r;
}

int cmd_user(const struct config *cfg)
{
    struct users users = { .cfg = cfg };
    struct gb_err err = { 0 };
    int r = run(&users, &err);

    auth_close(users.auth);
    store_close(users.store);
    free(users.data_dir);
    if (r == 0)
        return 0;
    say("%s", err.msg);
    if (r == -EINVAL)
        return EXIT_USAGE;
    return r == -ENOENT || r == -EEXIST || r == -EINTR ? EXIT_NO_USER : EXIT_OURS;
}
