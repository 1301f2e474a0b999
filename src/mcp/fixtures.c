/*
 * What the official conformance suite expects of a server: tools, prompts and resources with fixed
 * answers. `serve --mcp-fixtures` enters them beside the real ones; nobody else ever sees them.
 *
 * The suite's own descriptions say what each must do. They go through the same registry, the same
 * checks and the same calls as everything else, and that is what is tested. Tools that ask the
 * client for something are in fixtures_ask.c.
 */
#include "mcp/fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"

#include "base/banned.h"

#define DELAY_US (50 * USEC_PER_MSEC)

/* clang-format off */
#define PNG "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
#define WAV "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
/* clang-format on */

json_t *fixture_text(const char *text)
{
    return json_pack("{s:s, s:s}", "type", "text", "text", text);
}

static json_t *image(void)
{
    return json_pack("{s:s, s:s, s:s}", "type", "image", "data", PNG, "mimeType", "image/png");
}

static json_t *embedded(const char *uri, const char *mime, const char *text)
{
    return json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource", "uri", uri,
                     "mimeType", mime, "text", text);
}

void fixture_reply(struct mcp_call *call, json_t *block)
{
    call_reply(call, json_pack("{s:[o]}", "content", block));
}

/* ---- plain answers ---- */

static void simple_text(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    fixture_reply(call, fixture_text("This is a simple text response for testing."));
}

static void image_content(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    fixture_reply(call, image());
}

static void audio_content(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    fixture_reply(
        call, json_pack("{s:s, s:s, s:s}", "type", "audio", "data", WAV, "mimeType", "audio/wav"));
}

static void embedded_resource(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    fixture_reply(call, embedded("test://embedded-resource", "text/plain",
                                 "This is an embedded resource content."));
}

static void multiple_content(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    call_reply(call, json_pack("{s:[o, o, o]}", "content",
                               fixture_text("Multiple content types test:"), image(),
                               embedded("test://mixed-content-resource", "application/json",
                                        "{\"test\":\"data\",\"value\":123}")));
}

static void error_handling(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    call_reply(call, json_pack("{s:[o], s:b}", "content",
                               fixture_text("This tool intentionally returns an error for testing"),
                               "isError", 1));
}

static void echo_name(struct mcp_call *call, json_t *arguments)
{
    const char *name = json_string_value(json_object_get(arguments, "region"));

    fixture_reply(call, fixture_text(name ? name : ""));
}

/* ---- answers that take a while ---- */

struct stages {
    int at;
    int64_t due_us;
};

/* Whether the next stage is due; waits for it, but not for too long. */
static bool stage_due(struct mcp_call *call, int64_t timeout_us)
{
    struct stages *stages = call->work;
    int64_t left = stages->due_us - clock_now_us();

    if (left > 0)
        call_wait(call, left < timeout_us ? left : timeout_us);
    if (clock_now_us() < stages->due_us && !mcp_call_is_cancelled(call))
        return false;
    stages->due_us = clock_now_us() + DELAY_US;
    return true;
}

static void begin_stages(struct mcp_call *call, void (*step)(struct mcp_call *, int64_t))
{
    call->work = calloc(1, sizeof(struct stages));
    call->work_free = free;
    if (call->work)
        call->step = step;
    else
        call_reply(call, NULL);
}

static void logging_step(struct mcp_call *call, int64_t timeout_us)
{
    static const char *const texts[] = { "Tool execution started", "Tool processing data",
                                         "Tool execution completed" };
    struct stages *stages = call->work;

    if (!stage_due(call, timeout_us))
        return;
    call_log(call, LEVEL_INFO, "fixture", texts[stages->at], strlen(texts[stages->at]));
    if (++stages->at == (int) ARRAY_LEN(texts))
        fixture_reply(call, fixture_text("Tool with logging executed successfully"));
}

static void with_logging(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    begin_stages(call, logging_step);
}

static void progress_step(struct mcp_call *call, int64_t timeout_us)
{
    struct stages *stages = call->work;

    if (!stage_due(call, timeout_us))
        return;
    call_progress(call, 50 * stages->at, 100, NULL);
    if (++stages->at == 3)
        fixture_reply(call, fixture_text("Tool with progress executed successfully"));
}

static void with_progress(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    begin_stages(call, progress_step);
}

/* The stream is cut before the answer; the client must come back for it. */
static void reconnection_step(struct mcp_call *call, int64_t timeout_us)
{
    struct stages *stages = call->work;

    if (!stage_due(call, timeout_us))
        return;
    if (stages->at++ == 0) {
        pthread_mutex_lock(&call->lock);
        call->wants_break = true;
        pthread_mutex_unlock(&call->lock);
        stages->due_us = clock_now_us() + 2 * USEC_PER_SEC;
    } else {
        fixture_reply(call, fixture_text("Reconnection test completed"));
    }
}

static void reconnection(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    begin_stages(call, reconnection_step);
}

/* ---- lists that change ---- */

static const struct mcp_tool passing_tool = {
    "test_passing_tool",
    "A tool that comes and goes",
    "Comes and goes with test_trigger_tool_change.",
    "{\"type\":\"object\"}",
    NULL,
    NULL,
    simple_text,
};

static void passing_prompt_get(struct mcp_call *call, const json_t *arguments);

static const struct mcp_prompt passing_prompt = {
    "test_passing_prompt",
    "A prompt that comes and goes",
    "Comes and goes with test_trigger_prompt_change.",
    NULL,
    passing_prompt_get,
};

static void trigger_tool_change(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    registry_add_tool(call->mcp, &passing_tool);
    change_publish(call->mcp, CHANGE_TOOLS, NULL, NULL);
    registry_remove_tool(call->mcp, passing_tool.name);
    change_publish(call->mcp, CHANGE_TOOLS, NULL, NULL);
    fixture_reply(call, fixture_text("The list of tools has changed"));
}

static void trigger_prompt_change(struct mcp_call *call, json_t *arguments)
{
    (void) arguments;
    registry_add_prompt(call->mcp, &passing_prompt);
    change_publish(call->mcp, CHANGE_PROMPTS, NULL, NULL);
    registry_remove_prompt(call->mcp, passing_prompt.name);
    change_publish(call->mcp, CHANGE_PROMPTS, NULL, NULL);
    fixture_reply(call, fixture_text("The list of prompts has changed"));
}

/* ---- the table ---- */

#define ROW(name, handler)                                                                         \
    {                                                                                              \
        name, name, "For the conformance suite.", "{\"type\":\"object\"}", NULL, NULL, handler     \
    }

static const struct mcp_tool tools[] = {
    ROW("test_simple_text", simple_text),
    ROW("test_image_content", image_content),
    ROW("test_audio_content", audio_content),
    ROW("test_embedded_resource", embedded_resource),
    ROW("test_multiple_content_types", multiple_content),
    ROW("test_tool_with_logging", with_logging),
    ROW("test_logging_tool", with_logging),
    ROW("test_error_handling", error_handling),
    ROW("test_tool_with_progress", with_progress),
    ROW("test_reconnection", reconnection),
    ROW("test_trigger_tool_change", trigger_tool_change),
    ROW("test_trigger_prompt_change", trigger_prompt_change),
    { "test_custom_header", "Custom header", "For the conformance suite.",
      "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":"
      "\"Region\"}}}",
      NULL, NULL, echo_name },
    { "json_schema_2020_12_tool", "JSON Schema 2020-12", "Tool with JSON Schema 2020-12 features",
      "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\",\"$defs\":"
      "{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{\"street\":"
      "{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},\"properties\":{\"name\":{\"type\":"
      "\"string\"},\"address\":{\"$ref\":\"#/$defs/"
      "address\"},\"contactMethod\":{\"type\":\"string\","
      "\"enum\":[\"phone\",\"email\"]},\"phone\":{\"type\":\"string\"},\"email\":{\"type\":"
      "\"string\"}},\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}]"
      ","
      "\"if\":{\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},\"required\":["
      "\"contactMethod\"]},\"then\":{\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},"
      "\"additionalProperties\":false}",
      NULL, NULL, simple_text },
};

/* ---- prompts ---- */

static json_t *message(json_t *content)
{
    return json_pack("{s:s, s:o}", "role", "user", "content", content);
}

static void simple_prompt(struct mcp_call *call, const json_t *arguments)
{
    (void) arguments;
    call_reply(call, json_pack("{s:[o]}", "messages",
                               message(fixture_text("This is a simple prompt for testing."))));
}

static void passing_prompt_get(struct mcp_call *call, const json_t *arguments)
{
    simple_prompt(call, arguments);
}

static void prompt_with_arguments(struct mcp_call *call, const json_t *arguments)
{
    autofree char *text = NULL;

    if (asprintf(&text, "Prompt with arguments: arg1='%s', arg2='%s'",
                 json_string_value(json_object_get(arguments, "arg1")),
                 json_string_value(json_object_get(arguments, "arg2"))) < 0)
        text = NULL;
    call_reply(call, json_pack("{s:[o]}", "messages", message(fixture_text(text ? text : ""))));
}

static void prompt_with_resource(struct mcp_call *call, const json_t *arguments)
{
    const char *uri = json_string_value(json_object_get(arguments, "resourceUri"));

    call_reply(
        call,
        json_pack("{s:[o, o]}", "messages",
                  message(embedded(uri, "text/plain", "Embedded resource content for testing.")),
                  message(fixture_text("Please process the embedded resource above."))));
}

static void prompt_with_image(struct mcp_call *call, const json_t *arguments)
{
    (void) arguments;
    call_reply(call, json_pack("{s:[o, o]}", "messages", message(image()),
                               message(fixture_text("Please analyze the image above."))));
}

static const struct mcp_prompt_argument two_arguments[] = {
    { "arg1", "First test argument", true },
    { "arg2", "Second test argument", true },
    { NULL, NULL, false },
};

static const struct mcp_prompt_argument uri_argument[] = {
    { "resourceUri", "URI of the resource to embed", true },
    { NULL, NULL, false },
};

static const struct mcp_prompt prompts[] = {
    { "test_simple_prompt", "Simple", "For the conformance suite.", NULL, simple_prompt },
    { "test_prompt_with_arguments", "With arguments", "For the conformance suite.", two_arguments,
      prompt_with_arguments },
    { "test_prompt_with_embedded_resource", "With a resource", "For the conformance suite.",
      uri_argument, prompt_with_resource },
    { "test_prompt_with_image", "With an image", "For the conformance suite.", NULL,
      prompt_with_image },
};

/* ---- resources ---- */

static void reply_contents(struct mcp_call *call, const char *uri, const char *mime,
                           const char *member, const char *text)
{
    call_reply(call, json_pack("{s:[{s:s, s:s, s:s}]}", "contents", "uri", uri, "mimeType", mime,
                               member, text));
}

static bool read_text(struct mcp_call *call, const char *uri)
{
    if (strcmp(uri, "test://static-text") != 0)
        return false;
    reply_contents(call, uri, "text/plain", "text",
                   "This is the content of the static text resource.");
    return true;
}

static bool read_binary(struct mcp_call *call, const char *uri)
{
    if (strcmp(uri, "test://static-binary") != 0)
        return false;
    reply_contents(call, uri, "image/png", "blob", PNG);
    return true;
}

static bool read_watched(struct mcp_call *call, const char *uri)
{
    if (strcmp(uri, "test://watched-resource") != 0)
        return false;
    reply_contents(call, uri, "text/plain", "text", "Watched resource content");
    return true;
}

static bool read_template(struct mcp_call *call, const char *uri)
{
    autofree char *text = NULL;
    char id[32];
    int used = 0;

    if (sscanf(uri, "test://template/%31[^/]/data%n", id, &used) != 1 || used == 0 || uri[used])
        return false;
    if (asprintf(&text, "{\"id\":\"%s\",\"templateTest\":true,\"data\":\"Data for ID: %s\"}", id,
                 id) < 0)
        text = NULL;
    reply_contents(call, uri, "application/json", "text", text ? text : "");
    return true;
}

static const struct mcp_resource resources[] = {
    { "test://static-text", "static-text", "Text", "For the conformance suite.", "text/plain",
      false, read_text },
    { "test://static-binary", "static-binary", "Binary", "For the conformance suite.", "image/png",
      false, read_binary },
    { "test://watched-resource", "watched", "Watched", "For the conformance suite.", "text/plain",
      false, read_watched },
    { "test://template/{id}/data", "template", "Template", "For the conformance suite.",
      "application/json", true, read_template },
};

void fixtures_register(struct mcp *mcp)
{
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        registry_add_tool(mcp, &tools[i]);
    for (size_t i = 0; i < ARRAY_LEN(prompts); i++)
        registry_add_prompt(mcp, &prompts[i]);
    for (size_t i = 0; i < ARRAY_LEN(resources); i++)
        registry_add_resource(mcp, &resources[i]);
    fixtures_ask_register(mcp);
}
