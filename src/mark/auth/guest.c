/* Guests: accounts without a password that end after a day. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/autoclean.h"
#include "mark/auth/internal.h"

#include "base/banned.h"

#define FULL_RETRY_S 600

bool auth_guest_is_over(int64_t created_us, int64_t now_us)
{
    return created_us + AUTH_GUEST_US <= now_us;
}

int auth_fail_over(struct fault *fault)
{
    return fault_set(fault, PROBLEM_TOKEN_INVALID, NULL,
                     "the day of this guest is over; create an account with POST /auth/signup, or "
                     "be another guest with POST /auth/guest");
}

/* Nobody else could tell who uses the machine; and where new accounts need a word of the operator,
 * so do these. */
static bool may_be_guest(struct auth *auth, const struct auth_peer *peer)
{
    return peer->loopback && (auth->signup == AUTH_SIGNUP_AUTO || auth->signup == AUTH_SIGNUP_OPEN);
}

void auth_get_state(struct auth *auth, const struct auth_peer *peer, struct auth_state *ret_state)
{
    uint8_t hash[STORE_HASH_BYTES];
    const uint8_t *let_in;
    struct fault fault = { 0 };
    bool open = auth_may_sign_up(auth, peer, NULL, hash, &let_in, &fault) == 0;
    bool any = auth_any(auth);

    *ret_state = (struct auth_state){ .accounts = any,
                                      .signup = "closed",
                                      .first = open && !any,
                                      .guest = may_be_guest(auth, peer) };
    if (open)
        ret_state->signup = "open";
    else if (auth->signup != AUTH_SIGNUP_CLOSED && (any || peer->loopback))
        ret_state->signup = "invite";
}

int auth_guest(struct auth *auth, const struct auth_peer *peer, json_t **ret_json,
               struct fault *fault)
{
    int64_t now_us = auth->now_us();
    struct store_user user = { .name = "Guest", .created_us = now_us, .valid_from_us = now_us };
    struct gb_err err = { 0 };
    int64_t wait_us;
    int r;

    if (!may_be_guest(auth, peer))
        return fault_set(fault, PROBLEM_GUESTS_CLOSED, NULL,
                         "guests come from the machine of the service itself, and only while "
                         "signing up is open there; create an account with POST /auth/signup");
    wait_us = throttle_take(&auth->guests, peer->address, now_us);
    if (wait_us > 0)
        return auth_fail_throttled(wait_us, fault);
    mark_id_make(user.id);
    /* An address that nobody can have; the domain is reserved for that (RFC 2606). */
    (void) snprintf(user.email, sizeof user.email, "guest-%.8s@guest.invalid", user.id);
    r = store_guest_add(auth->store, &user, AUTH_GUESTS_MAX, &err);
    if (r == -EUSERS) {
        r = fault_set(fault, PROBLEM_TOO_MANY_GUESTS, NULL,
                      "there are %d guests already, and each stays for a day; create an account "
                      "with POST /auth/signup",
                      AUTH_GUESTS_MAX);
        fault->retry_after_s = FULL_RETRY_S;
        return r;
    }
    if (r < 0)
        return auth_fail_store(&err, fault);
    known_changed(&auth->known);
    return auth_issue(auth, &user, ret_json, fault);
}

int auth_guests_over(struct auth *auth, char (**ret_ids)[STORE_ID_MAX], size_t *ret_len,
                     struct fault *fault)
{
    autofree struct store_user *users = NULL;
    struct gb_err err = { 0 };
    char(*ids)[STORE_ID_MAX];
    size_t len;

    if (store_guest_list(auth->store, auth->now_us() - AUTH_GUEST_US, &users, &len, &err) < 0)
        return auth_fail_store(&err, fault);
    ids = calloc(len + 1, sizeof *ids);
    if (!ids)
        return fault_no_memory(fault);
    for (size_t i = 0; i < len; i++)
        (void) snprintf(ids[i], sizeof ids[i], "%s", users[i].id);
    *ret_ids = ids;
    *ret_len = len;
    return 0;
}
