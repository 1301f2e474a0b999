/*
 * Fixtures that ask the client for something before they answer: a model's words, a person's, a
 * list of roots. In the old era that is a request of ours on the stream of the call; in the new one
 * the call ends with resultType input_required and the client comes again with the answers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mcp/fixtures.h"

#include "base/banned.h"

/* ---- the old era ---- */

struct ask {
    int64_t deadline_us;
    const char *prefix;
};

static void ask_step(struct mcp_call *call, int64_t timeout_us)
{
    struct ask *ask = call->work;
    autofree char *text = NULL, *result = NULL;
    json_t *answer;

    call_wait(call, timeout_us);
    answer = call_take_answer(call);
    if (!answer) {
        if (mcp_call_is_cancelled(call) || clock_now_us() > ask->deadline_us)
            call_fail(call, MCP_INTERNAL, "the client has not answered");
        return;
    }
    result = json_dumps(
        json_object_get(answer, json_object_get(answer, "result") ? "result" : "error"), MCP_JSON);
    if (asprintf(&text, "%s%s", ask->prefix, result ? result : "") < 0)
        text = NULL;
    fixture_reply(call, fixture_text(text ? text : ""));
    json_decref(answer);
}

/* Takes @params. */
static void ask(struct mcp_call *call, const char *capability, const char *method, json_t *params,
                const char *prefix)
{
    struct ask *work;

    if (!call_needs_capability(call, capability)) {
        json_decref(params);
        return;
    }
    work = calloc(1, sizeof *work);
    if (!work) {
        json_decref(params);
        call_reply(call, NULL);
        return;
    }
    work->deadline_us = clock_now_us() + MCP_ASK_US;
    work->prefix = prefix;
    call->work = work;
    call->work_free = free;
    call->step = ask_step;
    call_ask(call, method, params);
}

static json_t *sampling_params(const char *prompt, int tokens)
{
    return json_pack("{s:[{s:s, s:{s:s, s:s}}], s:i}", "messages", "role", "user", "content",
                     "type", "text", "text", prompt, "maxTokens", tokens);
}

static json_t *form(const char *message, const char *schema)
{
    return json_pack("{s:s, s:o}", "message", message, "requestedSchema",
                     json_loads(schema, 0, NULL));
}

static void sampling(struct mcp_call *call, json_t *arguments)
{
    const char *prompt = json_string_value(json_object_get(arguments, "prompt"));

    ask(call, "sampling", "sampling/createMessage", sampling_params(prompt ? prompt : "", 100),
        "LLM response: ");
}

static void elicitation(struct mcp_call *call, json_t *arguments)
{
    const char *message = json_string_value(json_object_get(arguments, "message"));

    ask(call, "elicitation", "elicitation/create",
        form(message ? message : "",
             "{\"type\":\"object\",\"properties\":{\"username\":{\"type\":\"string\","
             "\"description\":"
             "\"User's response\"},\"email\":{\"type\":\"string\",\"description\":\"User's email "
             "address\"}},\"required\":[\"username\",\"email\"]}"),
        "User response: ");
}

static void elicitation_defaults(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    ask(call, "elicitation", "elicitation/create",
        form(
            "Please review the defaults",
            "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"default\":\"John "
            "Doe\"},\"age\":{\"type\":\"integer\",\"default\":30},\"score\":{\"type\":\"number\","
            "\"default\":95.5},\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\","
            "\"pending\"],\"default\":\"active\"},\"verified\":{\"type\":\"boolean\",\"default\":"
            "true}},\"required\":[]}"),
        "Elicitation completed: ");
}

static void elicitation_enums(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    ask(call, "elicitation", "elicitation/create",
        form("Please choose",
             "{\"type\":\"object\",\"properties\":{\"untitledSingle\":{\"type\":\"string\","
             "\"enum\":["
             "\"option1\",\"option2\",\"option3\"]},\"titledSingle\":{\"type\":\"string\","
             "\"oneOf\":["
             "{\"const\":\"value1\",\"title\":\"First Option\"},{\"const\":\"value2\",\"title\":"
             "\"Second Option\"},{\"const\":\"value3\",\"title\":\"Third "
             "Option\"}]},\"legacyEnum\":{"
             "\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],\"enumNames\":[\"Option "
             "One\",\"Option Two\",\"Option Three\"]},\"untitledMulti\":{\"type\":\"array\","
             "\"items\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\",\"option3\"]}},"
             "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"value1\","
             "\"title\":\"First Choice\"},{\"const\":\"value2\",\"title\":\"Second Choice\"},{"
             "\"const\":\"value3\",\"title\":\"Third Choice\"}]}}},\"required\":[]}"),
        "Elicitation completed: ");
}

/* ---- the new era ---- */

#define NAME_FORM                                                                                  \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"]" \
    "}"
#define COLOR_FORM                                                                                 \
    "{\"type\":\"object\",\"properties\":{\"color\":{\"type\":\"string\"}},\"required\":["         \
    "\"color\"]}"
#define OK_FORM                                                                                    \
    "{\"type\":\"object\",\"properties\":{\"ok\":{\"type\":\"boolean\"}},\"required\":[\"ok\"]}"
#define CONTEXT_FORM                                                                               \
    "{\"type\":\"object\",\"properties\":{\"context\":{\"type\":\"string\"}},\"required\":["       \
    "\"context\"]}"

static json_t *input(const char *method, json_t *params)
{
    return json_pack("{s:s, s:o}", "method", method, "params", params);
}

static json_t *elicit(const char *message, const char *schema)
{
    return input("elicitation/create", form(message, schema));
}

/* The answer to the request @key, if it is there. */
static const json_t *answer_to(const struct mcp_call *call, const char *key)
{
    return message_object(call->input_responses, key);
}

/* Of a form: the text under @name, once the user has accepted. */
static const char *accepted(const struct mcp_call *call, const char *key, const char *name)
{
    const json_t *answer = answer_to(call, key);
    const char *action = json_string_value(json_object_get(answer, "action"));

    if (!action || strcmp(action, "accept") != 0)
        return NULL;
    return json_string_value(json_object_get(message_object(answer, "content"), name));
}

static void input_elicitation(struct mcp_call *call, json_t *arguments)
{
    const char *name = accepted(call, "user_name", "name");
    autofree char *text = NULL;

    (void) arguments;
    if (!name) {
        if (call_needs_capability(call, "elicitation"))
            call_require_input(
                call, json_pack("{s:o}", "user_name", elicit("What is your name?", NAME_FORM)),
                NULL);
        return;
    }
    if (asprintf(&text, "Hello, %s!", name) < 0)
        text = NULL;
    fixture_reply(call, fixture_text(text ? text : ""));
}

static void input_sampling(struct mcp_call *call, json_t *arguments)
{
    const json_t *answer = answer_to(call, "capital_question");
    const char *text =
        json_string_value(json_object_get(message_object(answer, "content"), "text"));

    (void) arguments;
    if (text)
        fixture_reply(call, fixture_text(text));
    else if (call_needs_capability(call, "sampling"))
        call_require_input(call,
                           json_pack("{s:o}", "capital_question",
                                     input("sampling/createMessage",
                                           sampling_params("What is the capital of France?", 100))),
                           NULL);
}

static void input_roots(struct mcp_call *call, json_t *arguments)
{
    const json_t *roots = json_object_get(answer_to(call, "client_roots"), "roots");
    autofree char *text = NULL;

    (void) arguments;
    if (!json_is_array(roots)) {
        if (call_needs_capability(call, "roots"))
            call_require_input(
                call, json_pack("{s:o}", "client_roots", input("roots/list", json_object())), NULL);
        return;
    }
    text = json_dumps(roots, MCP_JSON);
    fixture_reply(call, fixture_text(text ? text : ""));
}

static void input_state(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    if (call->request_state && answer_to(call, "confirm"))
        fixture_reply(call, fixture_text("state-ok"));
    else if (call_needs_capability(call, "elicitation"))
        call_require_input(call, json_pack("{s:o}", "confirm", elicit("Please confirm", OK_FORM)),
                           json_string("confirm"));
}

static void input_multiple(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    if (call->request_state && answer_to(call, "user_name") && answer_to(call, "greeting") &&
        answer_to(call, "client_roots")) {
        fixture_reply(call, fixture_text("All inputs are there"));
        return;
    }
    if (call_needs_capability(call, "elicitation") && call_needs_capability(call, "sampling") &&
        call_needs_capability(call, "roots"))
        call_require_input(
            call,
            json_pack("{s:o, s:o, s:o}", "user_name", elicit("What is your name?", NAME_FORM),
                      "greeting",
                      input("sampling/createMessage", sampling_params("Generate a greeting", 50)),
                      "client_roots", input("roots/list", json_object())),
            json_string("multiple"));
}

static void input_rounds(struct mcp_call *call, json_t *arguments)
{
    const char *name = json_string_value(call->request_state), *color;
    autofree char *text = NULL;

    (void) arguments;
    if (name && strcmp(name, "1") == 0 && (name = accepted(call, "step1", "name"))) {
        call_require_input(
            call,
            json_pack("{s:o}", "step2", elicit("Step 2: What is your favorite color?", COLOR_FORM)),
            json_pack("s+", "2", name));
        return;
    }
    color = accepted(call, "step2", "color");
    if (name && name[0] == '2' && color) {
        if (asprintf(&text, "%s likes %s", name + 1, color) < 0)
            text = NULL;
        fixture_reply(call, fixture_text(text ? text : ""));
        return;
    }
    if (call_needs_capability(call, "elicitation"))
        call_require_input(
            call, json_pack("{s:o}", "step1", elicit("Step 1: What is your name?", NAME_FORM)),
            json_string("1"));
}

/* Only what the client can do. */
static void input_capabilities(struct mcp_call *call, json_t *arguments)
{
    json_t *requests = json_object();

    (void) arguments;
    if (call_has_capability(call, "sampling"))
        (void) json_object_set_new(
            requests, "question",
            input("sampling/createMessage", sampling_params("Say hello", 20)));
    if (call_has_capability(call, "elicitation"))
        (void) json_object_set_new(requests, "user_name", elicit("What is your name?", NAME_FORM));
    if (json_object_size(requests) > 0 && !call->input_responses) {
        call_require_input(call, requests, NULL);
        return;
    }
    json_decref(requests);
    fixture_reply(call, fixture_text("Nothing more to ask"));
}

static void missing_capability(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    if (call_needs_capability(call, "sampling"))
        fixture_reply(call, fixture_text("The client has the capability"));
}

/* In either era: what is asked is never a request on the stream in the new one. */
static void streaming_elicitation(struct mcp_call *call, json_t *arguments)
{
    if (call->era == MCP_MODERN)
        input_elicitation(call, arguments);
    else
        elicitation(call, arguments);
}

static void input_prompt(struct mcp_call *call, const json_t *arguments)
{
    const char *context = accepted(call, "user_context", "context");

    (void) arguments;
    if (context)
        call_reply(call, json_pack("{s:[{s:s, s:o}]}", "messages", "role", "user", "content",
                                   fixture_text(context)));
    else if (call_needs_capability(call, "elicitation"))
        call_require_input(call,
                           json_pack("{s:o}", "user_context",
                                     elicit("What context should the prompt use?", CONTEXT_FORM)),
                           NULL);
}

#define WHAT "For the conformance suite."
#define ROW(name, handler)                                                                         \
    {                                                                                              \
        name, name, WHAT, "{\"type\":\"object\"}", NULL, NULL, handler                             \
    }

static const struct mcp_tool tools[] = {
    ROW("test_sampling", sampling),
    ROW("test_elicitation", elicitation),
    ROW("test_elicitation_sep1034_defaults", elicitation_defaults),
    ROW("test_elicitation_sep1330_enums", elicitation_enums),
    ROW("test_missing_capability", missing_capability),
    ROW("test_streaming_elicitation", streaming_elicitation),
    ROW("test_input_required_result_elicitation", input_elicitation),
    ROW("test_input_required_result_sampling", input_sampling),
    ROW("test_input_required_result_list_roots", input_roots),
    ROW("test_input_required_result_request_state", input_state),
    ROW("test_input_required_result_tampered_state", input_state),
    ROW("test_input_required_result_multiple_inputs", input_multiple),
    ROW("test_input_required_result_multi_round", input_rounds),
    ROW("test_input_required_result_capabilities", input_capabilities),
};

static const struct mcp_prompt prompt = { "test_input_required_result_prompt", "With input", WHAT,
                                          NULL, input_prompt };

void fixtures_ask_register(struct mcp *mcp)
{
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        registry_add_tool(mcp, &tools[i]);
    registry_add_prompt(mcp, &prompt);
}
