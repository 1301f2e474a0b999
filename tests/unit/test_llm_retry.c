/* Which failures of a model's server may be tried again, when, and what they are called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/llm/internal.h"
#include "mark/llm/retry.h"

#include "base/banned.h"

static json_t *json_of(const char *text)
{
    json_t *json = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

    assert_true(json || !text);
    return json;
}

static void test_decisions(void **state)
{
    static const struct {
        int status;
        const char *should, *error;
        enum llm_failure failure;
        bool may;
    } cases[] = {
        { 0, NULL, NULL, LLM_UNREACHABLE, true },
        { 400, NULL, "{\"message\":\"x\"}", LLM_INVALID, false },
        { 401, NULL, NULL, LLM_DENIED, false },
        { 402, NULL, NULL, LLM_UNPAID, false },
        { 402, "true", NULL, LLM_UNPAID, false },
        { 403, NULL, NULL, LLM_DENIED, false },
        { 404, NULL, NULL, LLM_INVALID, false },
        { 408, NULL, NULL, LLM_UNREACHABLE, true },
        { 409, NULL, NULL, LLM_INVALID, true },
        { 413, NULL, NULL, LLM_TOO_LONG, false },
        { 422, NULL, NULL, LLM_INVALID, false },
        { 429, NULL, NULL, LLM_BUSY, true },
        { 429, "false", NULL, LLM_BUSY, false },
        { 400, "true", NULL, LLM_INVALID, true },
        { 400, "TRUE", NULL, LLM_INVALID, true },
        { 400, "yes", NULL, LLM_INVALID, false },
        { 500, "false", NULL, LLM_UNREACHABLE, false },
        { 500, NULL, NULL, LLM_UNREACHABLE, true },
        { 503, NULL, NULL, LLM_BUSY, true },
        { 504, NULL, NULL, LLM_UNREACHABLE, true },
        { 529, NULL, "{\"type\":\"overloaded_error\"}", LLM_BUSY, true },
        { 429, NULL, "{\"code\":\"insufficient_quota\"}", LLM_UNPAID, false },
        { 429, "true", "{\"type\":\"insufficient_quota\"}", LLM_UNPAID, false },
        { 429, NULL, "{\"message\":\"You exceeded your current quota, please\"}", LLM_UNPAID,
          false },
        { 429, NULL, "{\"details\":{\"error_code\":\"enforced_spend_limit_reached\"}}", LLM_UNPAID,
          false },
        { 400, NULL, "{\"message\":\"Your credit balance is too low to\"}", LLM_UNPAID, false },
        { 400, NULL, "{\"code\":\"context_length_exceeded\"}", LLM_TOO_LONG, false },
        { 400, NULL, "{\"type\":\"exceed_context_size_error\"}", LLM_TOO_LONG, false },
        { 400, NULL, "{\"message\":\"prompt is too long: 3 tokens > 2 maximum\"}", LLM_TOO_LONG,
          false },
        { 400, NULL, "{\"message\":\"This model's maximum context length is 8\"}", LLM_TOO_LONG,
          false },
        { 500, NULL, "{\"message\":\"the request exceeds the available context size\"}",
          LLM_TOO_LONG, false },
        { 429, NULL, "{\"message\":\"tokens per minute; context length\"}", LLM_BUSY, true },
        { 400, NULL, "\"just text\"", LLM_INVALID, false },
        { 302, NULL, NULL, LLM_INVALID, false },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *error = json_of(cases[i].error);
        struct retry_facts facts = { .status = cases[i].status,
                                     .should_retry = cases[i].should,
                                     .error = error };

        assert_int_equal(retry_failure(&facts), cases[i].failure);
        assert_int_equal(retry_may(&facts, 0), cases[i].may);
        json_decref(error);
    }
}

static void test_waits(void **state)
{
    static const struct {
        const char *ms, *after;
        int64_t us; /* 0: not told */
    } cases[] = {
        { "20", NULL, 20000 },
        { "20.5", "7", 20500 },
        { NULL, "7", 7000000 },
        { NULL, "0.25", 250000 },
        { NULL, "119.999999", 119999999 },
        { NULL, "120", 120000000 },
        { NULL, "121", 121000000 },
        { NULL, "99999999999999999999", INT64_C(9999999999) * 1000000 },
        { "x", "7", 7000000 },
        { NULL, "0", 0 },
        { NULL, "-1", 0 },
        { NULL, "1e3", 0 },
        { NULL, "soon", 0 },
        { NULL, "", 0 },
        { NULL, NULL, 0 },
        { NULL, "Thu, 01 Jan 2026 00:00:09 GMT", 9000000 },
        { NULL, "Thu, 01 Jan 2026 00:00:00 GMT", 0 },
        { NULL, "Wed, 31 Dec 2025 23:00:00 GMT", 0 },
    };
    const int64_t now = INT64_C(1767225600) * USEC_PER_SEC; /* 2026-01-01 */

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct retry_facts facts = { .status = 429,
                                     .retry_after_ms = cases[i].ms,
                                     .retry_after = cases[i].after };
        int64_t us = cases[i].us, wait = retry_wait_us(&facts, 0, 0, now);

        assert_int_equal(retry_told_us(&facts, now), us);
        assert_int_equal(retry_may(&facts, now), us <= RETRY_WAIT_MAX_US);
        assert_int_equal(wait, us == 0 ? 500000 : us < RETRY_WAIT_MAX_US ? us : RETRY_WAIT_MAX_US);
    }
}

static void test_waits_grow(void **state)
{
    static const int64_t expected[] = { 500000, 1000000, 2000000, 4000000, 8000000, 8000000 };
    struct retry_facts facts = { .status = 500 };

    (void) state;
    for (int n = 0; n < (int) ARRAY_LEN(expected); n++) {
        assert_int_equal(retry_wait_us(&facts, n, 0, 0), expected[n]);
        assert_int_equal(retry_wait_us(&facts, n, 1, 0), expected[n] * 3 / 4);
    }
    assert_int_equal(retry_wait_us(&facts, 1000, 0, 0), 8000000);
}

static void test_status_of_errors_in_streams(void **state)
{
    static const struct {
        const char *error;
        int status;
    } cases[] = {
        { "{\"type\":\"overloaded_error\"}", 529 },
        { "{\"type\":\"rate_limit_error\"}", 429 },
        { "{\"code\":\"rate_limit_exceeded\"}", 429 },
        { "{\"type\":\"api_error\"}", 500 },
        { "{\"code\":503}", 503 },
        { "{\"code\":7}", 500 },
        { "{\"type\":\"invalid_request_error\"}", 400 },
        { "{}", 500 },
        { "\"text\"", 500 },
        { "{\"type\":\"authentication_error\"}", 401 },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *error = json_of(cases[i].error);

        assert_int_equal(retry_status_of(error), cases[i].status);
        json_decref(error);
    }
}

/* ---- parameters that a server refuses ---- */

static void test_quirks(void **state)
{
    static const struct {
        enum llm_kind kind;
        unsigned have;
        int status;
        const char *error;
        unsigned quirk;
    } cases[] = {
        { LLM_KIND_OPENAI, 0, 400,
          "{\"message\":\"Unsupported parameter: 'max_tokens' is not supported with this model. "
          "Use "
          "'max_completion_tokens' instead.\",\"param\":\"max_tokens\"}",
          QUIRK_OTHER_MAX },
        { LLM_KIND_OPENAI, QUIRK_OTHER_MAX, 400, "{\"param\":\"max_completion_tokens\"}", 0 },
        { LLM_KIND_OPENAI, 0, 422, "{\"message\":\"stream_options: extra fields not permitted\"}",
          QUIRK_NO_USAGE },
        { LLM_KIND_OPENAI, 0, 400, "\"unknown field parallel_tool_calls\"", QUIRK_NO_PARALLEL },
        { LLM_KIND_OPENAI, 0, 500, "{\"message\":\"tool_choice not supported\"}", QUIRK_NO_CHOICE },
        { LLM_KIND_OPENAI, 0, 429, "{\"message\":\"tool_choice\"}", 0 },
        { LLM_KIND_OPENAI, 0, 400, "{\"message\":\"cache_control\"}", 0 },
        { LLM_KIND_OPENAI, 0, 400, "{\"message\":\"something else\"}", 0 },
        { LLM_KIND_OPENAI, 0, 400, "{}", 0 },
        { LLM_KIND_ANTHROPIC, 0, 400, "{\"message\":\"system.0.cache_control: not permitted\"}",
          QUIRK_NO_CACHE },
        { LLM_KIND_ANTHROPIC, 0, 400, "{\"message\":\"max_tokens: too large\"}", 0 },
        { LLM_KIND_ANTHROPIC, 0, 400, "{\"message\":\"tool_choice forces tool use\"}",
          QUIRK_NO_CHOICE },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *error = json_of(cases[i].error);

        assert_int_equal(quirk_for(cases[i].kind, cases[i].have, cases[i].status, error),
                         cases[i].quirk);
        json_decref(error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions),  cmocka_unit_test(test_waits),
        cmocka_unit_test(test_waits_grow), cmocka_unit_test(test_status_of_errors_in_streams),
        cmocka_unit_test(test_quirks),
    };

    return cmocka_run_group_tests_name("llm_retry", tests, NULL, NULL);
}
