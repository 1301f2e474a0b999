/*
 * State that a client carries from one round to the next.
 *
 * In the era without sessions a tool that needs an answer first sends its state along, and gets it
 * back with the answer. So it is authenticated: for this server, this caller, this method and tool,
 * and for a limited time. It is not encrypted; nothing in it is secret.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define STATE_AGE_US (INT64_C(600) * USEC_PER_SEC)
#define STATE_MAX    16384
#define VARIANT      sodium_base64_VARIANT_URLSAFE_NO_PADDING

/* Binds the state to a method, a tool and a caller. */
static void mac_of(const struct mcp_call *call, const char *body,
                   unsigned char mac[crypto_auth_BYTES])
{
    const char *name = json_string_value(json_object_get(call->params, "name"));
    const char *parts[] = { principal_record(&call->caller.principal), call->method->name,
                            name ? name : "", body };
    crypto_auth_hmacsha512256_state state;

    crypto_auth_hmacsha512256_init(&state, call->mcp->state_key, sizeof call->mcp->state_key);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) /* with the NUL, so that parts cannot shift */
        crypto_auth_hmacsha512256_update(&state, (const unsigned char *) parts[i],
                                         strlen(parts[i]) + 1);
    crypto_auth_hmacsha512256_final(&state, mac);
}

char *state_seal(const struct mcp_call *call, const json_t *state)
{
    json_t *whole =
        json_pack("{s:I, s:O}", "t", (json_int_t) clock_now_us(), "s", (json_t *) state);
    autofree char *body = whole ? json_dumps(whole, MCP_JSON) : NULL;
    char mac_text[sodium_base64_ENCODED_LEN(crypto_auth_BYTES, VARIANT)];
    unsigned char mac[crypto_auth_BYTES];
    size_t len = body ? strlen(body) : 0, size = sodium_base64_encoded_len(len, VARIANT);
    autofree char *text = body ? malloc(size) : NULL;
    char *sealed = NULL;

    json_decref(whole);
    if (!text)
        return NULL;
    mac_of(call, body, mac);
    sodium_bin2base64(text, size, (unsigned char *) body, len, VARIANT);
    sodium_bin2base64(mac_text, sizeof mac_text, mac, sizeof mac, VARIANT);
    return asprintf(&sealed, "%s.%s", text, mac_text) < 0 ? NULL : sealed;
}

json_t *state_open(const struct mcp_call *call, const char *text)
{
    unsigned char mac[crypto_auth_BYTES], given[crypto_auth_BYTES];
    const char *dot = strchr(text, '.');
    json_t *whole, *state = NULL;
    autofree char *body = NULL;
    size_t len = 0, mac_len = 0;
    int64_t age;

    if (!dot || strlen(text) > STATE_MAX || !(body = malloc(STATE_MAX)))
        return NULL;
    if (sodium_base642bin((unsigned char *) body, STATE_MAX - 1, text, (size_t) (dot - text), NULL,
                          &len, NULL, VARIANT) != 0 ||
        sodium_base642bin(given, sizeof given, dot + 1, strlen(dot + 1), NULL, &mac_len, NULL,
                          VARIANT) != 0 ||
        mac_len != sizeof given || memchr(body, 0, len))
        return NULL;
    body[len] = '\0';
    mac_of(call, body, mac);
    if (sodium_memcmp(mac, given, sizeof mac) != 0)
        return NULL;
    whole = json_loads(body, 0, NULL);
    age = clock_now_us() - json_integer_value(json_object_get(whole, "t"));
    if (age >= 0 && age < STATE_AGE_US)
        state = json_incref(json_object_get(whole, "s"));
    json_decref(whole);
    return state;
}
