/* Bodies, queries and responses of Mark. Each subject has its section; add yours to the list at the
 * end too. */
#include "server/mark/schemas.h"

#include "server/schema/schemas.h"
#include "server/schema/tables.h"

#include "base/banned.h"

/* clang-format off */

/* ---- accounts ---- */

/* Bounds of what is read at all; mark/auth/ has the rules, and says what to change. */
#define EMAIL_BYTES    1024
#define PASSWORD_BYTES 4096
#define TOKEN_BYTES    256

#define ROW_EMAIL(struct_)                                                                         \
    { "email", FIELD_TEXT, FIELD_REQUIRED, AT(struct_, email), 1, EMAIL_BYTES,                     \
      .help = "the address; letters of any case", .example = "\"ada@example.com\"" }
#define ROW_CURRENT(struct_, flags_, help_)                                                        \
    { "current_password", FIELD_TEXT, flags_, AT(struct_, current_password), 1, PASSWORD_BYTES,    \
      .help = help_ }

static const struct field fields_signup[] = {
    ROW_EMAIL(body_signup),
    { "password", FIELD_TEXT, FIELD_REQUIRED, AT(body_signup, password), 1, PASSWORD_BYTES,
      .help = "8 to 1024 bytes, not the address, not a common one",
      .example = "\"correct horse battery\"" },
    { "name", FIELD_TEXT, 0, AT(body_signup, name), 0, 512, .help = "what to call the person",
      .example = "\"Ada\"" },
    { "invitation", FIELD_TEXT, 0, AT(body_signup, invitation), 1, TOKEN_BYTES,
      .help = "a code from the operator (glovebox user invite), where sign-up needs one" },
    END,
};
REQUEST(signup, struct body_signup, "A new account.");

static const struct field fields_signin[] = {
    ROW_EMAIL(body_signin),
    { "password", FIELD_TEXT, FIELD_REQUIRED, AT(body_signin, password), 1, PASSWORD_BYTES,
      .help = "the password" },
    END,
};
REQUEST(signin, struct body_signin, "Who signs in.");

static const struct field fields_signin_form[] = {
    { "username", FIELD_TEXT, FIELD_REQUIRED, .help = "the address" },
    ALWAYS("password", FIELD_TEXT, "the password"),
    { "grant_type", FIELD_TEXT, .help = "password, if it is there" },
    { "scope", FIELD_TEXT, .help = "ignored" },
    END,
};
RESPONSE(signin_form, "The form of the OAuth2 password grant (RFC 6749, 4.3).");

static const struct field fields_refresh[] = {
    { "refresh_token", FIELD_TEXT, FIELD_REQUIRED, AT(body_refresh, refresh_token), 1, TOKEN_BYTES,
      .help = "the last one that was issued" },
    END,
};
REQUEST(refresh, struct body_refresh, "A refresh token.");

static const struct field fields_me_change[] = {
    { "name", FIELD_TEXT, 0, AT(body_me_change, name), 0, 512, .help = "the new name" },
    { "password", FIELD_TEXT, 0, AT(body_me_change, password), 1, PASSWORD_BYTES,
      .help = "the new password" },
    ROW_CURRENT(body_me_change, 0, "the current password; needed to change it"),
    END,
};
REQUEST(me_change, struct body_me_change, "Changes of an account; what is left out stays.");

static const struct field fields_me_delete[] = {
    ROW_CURRENT(body_me_delete, FIELD_REQUIRED, "the current password"),
    END,
};
REQUEST(me_delete, struct body_me_delete, "Proof that the owner asks for the deletion.");

#define ROWS_USER                                                                                  \
    ALWAYS("user_id", FIELD_TEXT, "a UUID"), ALWAYS("email", FIELD_TEXT, NULL),                    \
    ALWAYS("name", FIELD_TEXT, "may be empty"), ALWAYS("role", FIELD_TEXT, "operator, user or guest")

static const struct field fields_signed_in[] = {
    ROWS_USER,
    ALWAYS("access_token", FIELD_TEXT, "send it as Authorization: Bearer TOKEN"),
    ALWAYS("refresh_token", FIELD_TEXT, "works once, for POST /auth/refresh; keep it secret"),
    ALWAYS("token_type", FIELD_TEXT, "bearer"),
    ALWAYS("expires_in", FIELD_INT, "seconds that the access token is valid for"),
    END,
};
RESPONSE(signed_in, "An account and a pair of tokens.");

static const struct field fields_auth_state[] = {
    ALWAYS("mark", FIELD_TEXT, "off, no-model, demo or ready"),
    ALWAYS("accounts", FIELD_BOOL, "whether somebody has an account, guests aside"),
    ALWAYS("signup", FIELD_TEXT, "open, invite or closed, for this caller"),
    ALWAYS("first", FIELD_BOOL, "whether this caller may create the operator's account now"),
    ALWAYS("guest", FIELD_BOOL, "whether this caller may be a guest"),
    ALWAYS("authentication", FIELD_BOOL, "whether this address needs a key or a token"),
    END,
};
RESPONSE(auth_state, "What a caller may do without an account.");

static const struct field fields_me[] = {
    ROWS_USER, ALWAYS("created", FIELD_TEXT, "RFC 3339"), END };
RESPONSE(me, "An account.");

static const struct field fields_me_changed[] = {
    ROWS_USER, ALWAYS("created", FIELD_TEXT, "RFC 3339"),
    { "access_token", FIELD_TEXT, .help = "these four after a change of the password" },
    { "refresh_token", FIELD_TEXT, .help = "likewise" },
    { "token_type", FIELD_TEXT, .help = "likewise" },
    { "expires_in", FIELD_INT, .help = "likewise" },
    END,
};
RESPONSE(me_changed, "An account after a change.");


/* ---- the list ---- */

const struct schema *const mark_schemas[] = {
    /* accounts */
    &schema_signup, &schema_signin, &schema_signin_form, &schema_refresh, &schema_me_change,
    &schema_me_delete, &schema_signed_in, &schema_auth_state, &schema_me, &schema_me_changed,
    /* chats and messages (schemas_chats.c) */
    &schema_chat_change, &schema_feedback, &schema_chat_created, &schema_chat, &schema_chat_page,
    &schema_rating, &schema_mark_message, &schema_message_page,
    /* asking */
    &schema_ask, &schema_edit, &schema_regenerate_body, &schema_recheck_body, &schema_mark_query, &schema_mark_column, &schema_mark_chart, &schema_mark_table, &schema_mark_step, &schema_mark_value,
    &schema_mark_place, &schema_mark_numbers, &schema_mark_artifact, &schema_mark_usage,
    &schema_mark_amounts, &schema_mark_limits, &schema_mark_budget, &schema_mark_spent,
    &schema_mark_response, &schema_mark_event, &schema_stopped, &schema_recheck_item, &schema_recheck_error,
    &schema_recheck, &schema_exchange, &schema_trace, &schema_price, &schema_model, &schema_model_page,
    /* attachments (schemas_chats.c) */
    &schema_profile_column, &schema_profile_table, &schema_profile, &schema_attachment,
    &schema_attachment_brief, &schema_attachment_list,
    /* verified answers (schemas_verify.c) */
    &schema_verify, &schema_verified, &schema_verified_page, &schema_verified_check,
    &schema_verified_brief,
    /* data sources (schemas_sources.c) */
    &schema_source_limits, &schema_source_access, &schema_source_join, &schema_source_example,
    &schema_source_add, &schema_source_change, &schema_source,
    &schema_source_list, &schema_source_synced, &schema_source_check, &schema_source_checked,
    &schema_table_column, &schema_source_table, &schema_source_tables, &schema_column_change,
    &schema_table_change,
    NULL };
