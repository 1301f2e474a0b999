#include "mark/llm/retry.h"

#include <curl/curl.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/llm/json_in.h"

#include "base/banned.h"

#define STATUS_OVERLOADED 529

static bool is_one_of(const char *word, const char *const *list)
{
    for (; word && *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

static bool says(const json_t *error, const char *const *phrases)
{
    const char *message = retry_message(error);

    for (; message && *phrases; phrases++)
        if (strcasestr(message, *phrases))
            return true;
    return false;
}

const char *retry_message(const json_t *error)
{
    const char *message;

    if (json_is_string(error))
        return json_string_value(error); /* Ollama's own API, and FastAPI's "detail" */
    message = json_in_string(error, "message");
    return message ? message : json_in_string(error, "detail");
}

int retry_status_of(const json_t *error)
{
    static const struct {
        const char *word;
        int status;
    } table[] = {
        { "invalid_request_error", 400 },
        { "authentication_error", 401 },
        { "billing_error", 402 },
        { "permission_error", 403 },
        { "not_found_error", 404 },
        { "conflict_error", 409 },
        { "request_too_large", 413 },
        { "rate_limit_error", 429 },
        { "rate_limit_exceeded", 429 },
        { "insufficient_quota", 429 },
        { "api_error", 500 },
        { "server_error", 500 },
        { "timeout_error", 504 },
        { "overloaded_error", STATUS_OVERLOADED },
        { "tokens", 429 },
        { "requests", 429 },
        { "BadRequestError", 400 }, /* vLLM */
    };
    const char *type = json_in_string(error, "type"), *code = json_in_string(error, "code");
    json_int_t number = json_integer_value(json_object_get(error, "code"));

    if (number >= 400 && number < 600)
        return (int) number;
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if ((type && strcmp(type, table[i].word) == 0) ||
            (code && strcmp(code, table[i].word) == 0))
            return table[i].status;
    return 500;
}

static bool is_unpaid(const struct retry_facts *facts)
{
    static const char *const words[] = { "insufficient_quota",           "billing_error",
                                         "billing_hard_limit_reached",   "billing_not_active",
                                         "enforced_spend_limit_reached", NULL };
    static const char *const phrases[] = { "credit balance is too low",
                                           "exceeded your current quota", NULL };
    const json_t *error = facts->error, *details = json_object_get(error, "details");

    return facts->status == 402 || is_one_of(json_in_string(error, "code"), words) ||
           is_one_of(json_in_string(error, "type"), words) ||
           is_one_of(json_in_string(details, "error_code"), words) || says(error, phrases);
}

static bool is_too_long(const struct retry_facts *facts)
{
    static const char *const words[] = { "context_length_exceeded", "exceed_context_size_error",
                                         "request_too_large", "string_above_max_length", NULL };
    static const char *const phrases[] = {
        "maximum context length", "prompt is too long",
        "exceed context limit",   "exceeds the available context",
        "context window",         "context length",
        "context size",           NULL
    };
    const json_t *error = facts->error;

    if (facts->status == 413)
        return true;
    return facts->status >= 400 && facts->status <= 500 && facts->status != 429 &&
           (is_one_of(json_in_string(error, "code"), words) ||
            is_one_of(json_in_string(error, "type"), words) || says(error, phrases));
}

enum llm_failure retry_failure(const struct retry_facts *facts)
{
    int status = facts->status;

    if (is_unpaid(facts))
        return LLM_UNPAID;
    if (is_too_long(facts))
        return LLM_TOO_LONG;
    if (status == 401 || status == 403)
        return LLM_DENIED;
    if (status == 429 || status == 503 || status == STATUS_OVERLOADED)
        return LLM_BUSY;
    if (status == 0 || status == 408 || status >= 500)
        return LLM_UNREACHABLE;
    return LLM_INVALID;
}

bool retry_may(const struct retry_facts *facts, int64_t wall_us)
{
    int status = facts->status;

    if (is_unpaid(facts) || is_too_long(facts) || retry_told_us(facts, wall_us) > RETRY_WAIT_MAX_US)
        return false;
    if (facts->should_retry && strcasecmp(facts->should_retry, "true") == 0)
        return true;
    if (facts->should_retry && strcasecmp(facts->should_retry, "false") == 0)
        return false;
    return status == 0 || status == 408 || status == 409 || status == 429 || status >= 500;
}

/* "1", "1.5": without a sign, an exponent or a locale. @unit_us is one. -1: not such a number. */
static int64_t read_decimal(const char *text, int64_t unit_us)
{
    int64_t whole = 0, part = 0, scale = 1;
    const char *p = text;

    for (; *p >= '0' && *p <= '9'; p++)
        if (whole < INT64_C(1000000000))
            whole = whole * 10 + (*p - '0');
    if (p > text && *p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++)
            if (scale < 1000000) {
                part = part * 10 + (*p - '0');
                scale *= 10;
            }
    if (p == text || *p != '\0')
        return -1;
    return whole * unit_us + part * unit_us / scale;
}

int64_t retry_told_us(const struct retry_facts *facts, int64_t wall_us)
{
    int64_t us = -1;
    time_t date;

    if (facts->retry_after_ms)
        us = read_decimal(facts->retry_after_ms, USEC_PER_MSEC);
    if (us < 0 && facts->retry_after)
        us = read_decimal(facts->retry_after, USEC_PER_SEC);
    if (us < 0 && facts->retry_after) {
        date = curl_getdate(facts->retry_after, NULL);
        if (date >= 0)
            us = (int64_t) date * USEC_PER_SEC - wall_us;
    }
    return us > 0 ? us : 0;
}

int64_t retry_wait_us(const struct retry_facts *facts, int n, double jitter, int64_t wall_us)
{
    int64_t us = retry_told_us(facts, wall_us);

    if (us > 0)
        return us < RETRY_WAIT_MAX_US ? us : RETRY_WAIT_MAX_US; /* a date may have come closer */
    us = n < 4 ? (USEC_PER_SEC / 2) << (n > 0 ? n : 0) : 8 * USEC_PER_SEC;
    return us - (int64_t) ((double) us * 0.25 * jitter);
}
