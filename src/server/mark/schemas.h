/* The tables of bodies and queries of Mark, and the structs that they fill. */
#pragma once

#include "schema/fields.h"

/* ---- accounts ---- */

struct body_signup {
    const char *email, *password, *name, *invitation;
};

struct body_signin {
    const char *email, *password;
};

struct body_refresh {
    const char *refresh_token;
};

struct body_me_change {
    const char *name, *password, *current_password;
};

struct body_me_delete {
    const char *current_password;
};

extern const struct schema schema_signup, schema_signin, schema_signin_form, schema_refresh,
    schema_me_change, schema_me_delete, schema_signed_in, schema_me, schema_me_changed;

/* ---- chats and messages ---- */

/* ---- asking ---- */

/* ---- attachments ---- */
