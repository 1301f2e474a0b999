/* Streams of models: events, and the replies that they make, however they are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/autoclean.h"
#include "llm_harness.h"

#include "base/banned.h"

/* ---- server-sent events ---- */

static int write_event(void *arg, const char *name, const char *data, size_t len)
{
    struct text *out = arg;

    assert_int_equal(text_add(out, "[", 1, FEED_MAX), 0);
    assert_int_equal(text_add(out, name, strlen(name), FEED_MAX), 0);
    assert_int_equal(text_add(out, "|", 1, FEED_MAX), 0);
    assert_int_equal(text_add(out, data, len, FEED_MAX), 0);
    return text_add(out, "]", 1, FEED_MAX);
}

static const struct {
    const char *stream, *events;
} event_cases[] = {
    { "", "" },
    { "data: a\n\n", "[|a]" },
    { "data:a\n\n", "[|a]" },
    { "data:  a\n\n", "[| a]" },
    { "data: a\r\n\r\ndata: b\r\n\r\n", "[|a][|b]" },
    { "data: a\r\rdata: b\r\r", "[|a][|b]" },
    { "data: a\n\r\ndata: b\r\n\n", "[|a][|b]" },
    { "data: a\ndata: b\ndata:\ndata: c\n\n", "[|a\nb\n\nc]" },
    { ": comment\n\n:\ndata: a\n: more\ndata: b\n\n", "[|a\nb]" },
    { "event: x\ndata: a\n\ndata: b\n\n", "[x|a][|b]" },
    { "event: x\n\ndata: b\n\n", "[|b]" },
    { "id: 1\nretry: 5\ndata: a\nother: c\n\n", "[|a]" },
    { "data\n\n", "[|]" },
    { "data: a", "[|a]" },
    { "data: a\n", "[|a]" },
    { "event: end\ndata: a\r\n", "[end|a]" },
    { "\xef\xbb\xbf"
      "data: a\n\ndata: \xef\xbb\xbf\n\n",
      "[|a][|\xef\xbb\xbf]" },
    { "\n\n\ndata: a\n\n\n\n", "[|a]" },
    { "data: \xc3\xbc\xf0\x9f\x99\x82\n\n", "[|\xc3\xbc\xf0\x9f\x99\x82]" },
    { "dat: a\nxdata: b\ndata : c\n\n", "" },
    { "data: [DONE]\n\n", "[|[DONE]]" },
};

/* In two pieces, cut at @cut, or in single bytes if @cut is SIZE_MAX. */
static void check_events(const char *stream, size_t cut, const char *expected)
{
    struct text out = { 0 };
    struct sse sse = { .event = write_event, .arg = &out, .event_max = 1000 };
    size_t len = strlen(stream);

    if (cut == SIZE_MAX) {
        for (size_t i = 0; i < len; i++)
            assert_int_equal(sse_feed(&sse, stream + i, 1), 0);
    } else {
        assert_int_equal(sse_feed(&sse, stream, cut), 0);
        assert_int_equal(sse_feed(&sse, stream + cut, len - cut), 0);
    }
    assert_int_equal(sse_end(&sse), 0);
    assert_string_equal(text_str(&out), expected);
    text_release(&out);
    sse_release(&sse);
}

static void test_events(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(event_cases); i++) {
        for (size_t cut = 0; cut <= strlen(event_cases[i].stream); cut++)
            check_events(event_cases[i].stream, cut, event_cases[i].events);
        check_events(event_cases[i].stream, SIZE_MAX, event_cases[i].events);
    }
}

static int refuse_event(void *arg, const char *name, const char *data, size_t len)
{
    (void) arg, (void) name, (void) data, (void) len;
    return -EPROTO;
}

static void test_events_are_bounded(void **state)
{
    struct text out = { 0 };
    struct sse sse = { .event = write_event, .arg = &out, .event_max = 100 };
    int r = 0;

    (void) state;
    for (int i = 0; i < 200 && r == 0; i++)
        r = sse_feed(&sse, "x", 1);
    assert_int_equal(r, -EMSGSIZE);
    sse_release(&sse);
    sse = (struct sse){ .event = write_event, .arg = &out, .event_max = 100 };
    for (r = 0; r == 0;)
        r = sse_feed(&sse, "data: 0123456789\n", 17);
    assert_int_equal(r, -EMSGSIZE);
    sse_release(&sse);
    sse = (struct sse){ .event = refuse_event, .event_max = 100 };
    assert_int_equal(sse_feed(&sse, "data: a\n\ndata: b\n\n", 18), -EPROTO);
    sse_release(&sse);
    text_release(&out);
}

/* ---- replies ---- */

#define C(delta) "data: {\"choices\":[{\"index\":0,\"delta\":" delta "}]}\n\n"
#define END(word)                                                                                  \
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"" word "\"}]}\n\n"
#define DONE "data: [DONE]\n\n"
#define CALL(i, id, name, args)                                                                    \
    C("{\"tool_calls\":[{\"index\":" i ",\"id\":\"" id "\",\"function\":{\"name\":\"" name         \
      "\",\"arguments\":\"" args "\"}}]}")
#define MORE(i, args)                                                                              \
    C("{\"tool_calls\":[{\"index\":" i ",\"function\":{\"arguments\":\"" args "\"}}]}")

/* @reply: role and made-up ids left out; "STOP {...}". NULL: -EPROTO, "-": not complete,
 * "!": an error of the server. */
struct reply_case {
    const char *stream, *reply;
};

static const struct reply_case openai_cases[] = {
    { C("{\"role\":\"assistant\",\"content\":\"\"}") C("{\"content\":\"Good\"}")
          C("{\"content\":\" day \xf0\x9f\x99\x82\"}") END("stop") DONE,
      "STOP {\"content\":\"Good day \xf0\x9f\x99\x82\"}" },
    /* no [DONE]; no finish_reason; neither */
    { C("{\"content\":\"a\"}") END("stop"), "STOP {\"content\":\"a\"}" },
    { C("{\"content\":\"a\"}") DONE, "STOP {\"content\":\"a\"}" },
    { C("{\"content\":\"a\"}"), "-" },
    { "", "-" },
    { DONE, "STOP {\"content\":\"\"}" },
    /* finish_reason with the last data, null, and in a chunk of its own */
    { "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"length\"}]}\n\n",
      "LENGTH {\"content\":\"a\"}" },
    { "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n" DONE,
      "STOP {\"content\":\"a\"}" },
    /* usage: with empty choices, with null choices, twice */
    { C("{\"content\":\"a\"}") "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,"
                               "\"completion_tokens\":4}}\n\n",
      "STOP 3+4 {\"content\":\"a\"}" },
    { C("{\"content\":\"a\"}") "data: {\"choices\":null,\"usage\":{\"prompt_tokens\":3,"
                               "\"completion_tokens\":4}}\n\n" DONE,
      "STOP 3+4 {\"content\":\"a\"}" },
    { C("{\"content\":\"a\"}") "data: {\"usage\":{\"prompt_tokens\":\"x\",\"completion_tokens\":"
                               "1.5}}\n\n" DONE,
      "STOP {\"content\":\"a\"}" },
    /* calls in pieces, side by side */
    { CALL("0", "a", "f", "") MORE("0", "{\\\"x\\\":") MORE("0", "1}") END("tool_calls") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{\"x\":1},\"id\":\"a\",\"name\":"
      "\"f\"}]}" },
    { CALL("0", "a", "f", "") CALL("1", "b", "g", "{") MORE("0", "{}") MORE("1", "}")
          END("tool_calls") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{},\"id\":\"a\",\"name\":\"f\"},"
      "{\"arguments\":{},\"id\":\"b\",\"name\":\"g\"}]}" },
    /* the wrong reason */
    { CALL("0", "a", "f", "{}") END("stop") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{},\"id\":\"a\",\"name\":\"f\"}]}" },
    /* another id at the same index; the same id again is no other call */
    { CALL("0", "a", "f", "{}") CALL("0", "b", "f", "{}") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{},\"id\":\"a\",\"name\":\"f\"},"
      "{\"arguments\":{},\"id\":\"b\",\"name\":\"f\"}]}" },
    { CALL("0", "a", "f", "{\\\"x\\\":") CALL("0", "a", "f", "1}") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{\"x\":1},\"id\":\"a\",\"name\":"
      "\"f\"}]}" },
    /* sent again whole at the end */
    { CALL("0", "a", "f", "{\\\"x\\\":1}") CALL("0", "a", "f", "{\\\"x\\\":1}") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{\"x\":1},\"id\":\"a\",\"name\":"
      "\"f\"}]}" },
    /* no id, no index, arguments as an object; two of them */
    { C("{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}]}")
          C("{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"x\":2}}}]}") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{\"x\":1},\"name\":\"f\"},"
      "{\"arguments\":{\"x\":2},\"name\":\"f\"}]}" },
    { C("{\"tool_calls\":[{\"index\":0,\"id\":\"\",\"function\":{\"name\":\"f\"}}]}")
          MORE("0", "{}") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{},\"name\":\"f\"}]}" },
    /* the name later; no name at all; a name with marks */
    { MORE("0", "{}") C("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\"}"
                        "}]}") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{},\"id\":\"a\",\"name\":\"f\"}]}" },
    { MORE("0", "{}") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{},\"name\":\"unknown\"}]}" },
    { CALL("0", "a", "f<|channel|>x", "{}") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{},\"id\":\"a\",\"name\":\"f\"}]}" },
    /* encoded twice; nothing; not JSON; not an object */
    { CALL("0", "a", "f", "\\\"{\\\\\\\"x\\\\\\\":1}\\\"") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{\"x\":1},\"id\":\"a\",\"name\":"
      "\"f\"}]}" },
    { CALL("0", "a", "f", "") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{},\"id\":\"a\",\"name\":\"f\"}]}" },
    { CALL("0", "a", "f", "x = 1") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments_text\":\"x = 1\",\"id\":\"a\",\"name\":"
      "\"f\"}]}" },
    { CALL("0", "a", "f", "[1]") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments_text\":\"[1]\",\"id\":\"a\",\"name\":"
      "\"f\"}]}" },
    /* cut: by its own account, and by ours */
    { CALL("0", "a", "f", "{\\\"x\\\":") END("length") DONE,
      "LENGTH {\"content\":\"\",\"tool_calls\":[{\"arguments_text\":\"{\\\"x\\\":\",\"id\":\"a\","
      "\"name\":\"f\"}]}" },
    { CALL("0", "a", "f", "{\\\"x\\\":\\\"y") END("tool_calls") DONE,
      "LENGTH {\"content\":\"\",\"tool_calls\":[{\"arguments_text\":\"{\\\"x\\\":\\\"y\",\"id\":"
      "\"a\",\"name\":\"f\"}]}" },
    { CALL("0", "a", "f", "") END("length") DONE,
      "LENGTH {\"content\":\"\",\"tool_calls\":[{\"arguments_text\":\"\",\"id\":\"a\",\"name\":"
      "\"f\"}]}" },
    /* the old form */
    { C("{\"function_call\":{\"name\":\"f\",\"arguments\":\"{\"}}")
          C("{\"function_call\":{\"arguments\":\"}\"}}") END("function_call") DONE,
      "STOP {\"content\":\"\",\"tool_calls\":[{\"arguments\":{},\"name\":\"f\"}]}" },
    /* refusals and filters */
    { C("{\"refusal\":\"No\"}") C("{\"refusal\":\".\"}") END("stop") DONE,
      "REFUSED {\"content\":\"No.\"}" },
    { C("{\"content\":\"a\"}") END("content_filter") DONE, "REFUSED {\"content\":\"a\"}" },
    /* thoughts, also as text; both fields at once; a tag that is none */
    { C("{\"reasoning_content\":\"hm\"}") C("{\"content\":\"a\"}") DONE,
      "STOP (hm) {\"content\":\"a\"}" },
    { C("{\"reasoning\":\"hm\",\"reasoning_content\":\"hm\"}") C("{\"content\":\"a\"}") DONE,
      "STOP (hm) {\"content\":\"a\"}" },
    { C("{\"content\":\"\\n<t\"}") C("{\"content\":\"hink>a <b\"}") C("{\"content\":\"</t\"}")
          C("{\"content\":\"hink>\\n\\nc\"}") C("{\"content\":\"<think>d\"}") DONE,
      "STOP (a <b) {\"content\":\"c<think>d\"}" },
    { C("{\"content\":\"<thin\"}") C("{\"content\":\"g>\"}") DONE,
      "STOP {\"content\":\"<thing>\"}" },
    { C("{\"content\":\"<th\"}") DONE, "STOP {\"content\":\"<th\"}" },
    { C("{\"content\":\"<think>a</th\"}") DONE, "STOP (a</th) {\"content\":\"\"}" },
    /* parts, comments, other choices, unknown fields */
    { ": OPENROUTER PROCESSING\n\n" C(
          "{\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}") "data: "
                                                                "{\"choices\":[{\"index\":1,"
                                                                "\"delta\":{\"content\":\"no\"}}],"
                                                                "\"timings\":{}}\n\n" DONE,
      "STOP {\"content\":\"a\"}" },
    /* halves of characters, NUL, invalid UTF-8 */
    { C("{\"content\":\"a\\ud83d\"}") C("{\"content\":\"\\u0000b\xff\"}") DONE,
      "STOP {\"content\":\"a\xef\xbf\xbd\xef\xbf\xbd"
      "b\xef\xbf\xbd\"}" },
    /* errors */
    { C("{\"content\":\"a\"}") "data: {\"error\":{\"message\":\"x\"}}\n\n", "!" },
    { "data: {\"error\":\"x\"}\n\n", "!" },
    { "data: {\"error\":null,\"choices\":[]}\n\n" DONE, "STOP {\"content\":\"\"}" },
    { "data: nonsense\n\n", NULL },
    { "data: [1]\n\n", NULL },
    { "data: {\"choices\":\n\n", NULL },
    /* not what it should be, and harmless */
    { "data: {\"choices\":{\"a\":1}}\n\ndata: {\"choices\":[1,null,\"x\"]}\n\n"
      "data: {\"choices\":[{\"delta\":[]}]}\n\n" C("{\"content\":5,\"tool_calls\":7}")
          C("{\"tool_calls\":[null,3,{}]}") DONE,
      "STOP {\"content\":\"\"}" },
};

#define E(type, rest) "event: " type "\ndata: {\"type\":\"" type "\"" rest "}\n\n"
#define M_START                                                                                    \
    E("message_start",                                                                             \
      ",\"message\":{\"usage\":{\"input_tokens\":5,\"cache_read_input_tokens\":3,"                 \
      "\"cache_creation_input_tokens\":2,\"output_tokens\":1}}")
#define B_START(i, block) E("content_block_start", ",\"index\":" i ",\"content_block\":" block)
#define B_DELTA(i, delta) E("content_block_delta", ",\"index\":" i ",\"delta\":" delta)
#define B_STOP(i)         E("content_block_stop", ",\"index\":" i)
#define M_END(reason)                                                                              \
    E("message_delta",                                                                             \
      ",\"delta\":{\"stop_reason\":\"" reason "\"},\"usage\":{\"output_tokens\":9}")               \
    E("message_stop", "")
#define TEXT(i, text)                                                                              \
    B_START(i, "{\"type\":\"text\",\"text\":\"\"}")                                                \
    B_DELTA(i, "{\"type\":\"text_delta\",\"text\":\"" text "\"}") B_STOP(i)
#define TOOL(i, id)                                                                                \
    B_START(i, "{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"f\",\"input\":{}}")
#define JSON(i, json) B_DELTA(i, "{\"type\":\"input_json_delta\",\"partial_json\":\"" json "\"}")

static const struct reply_case anthropic_cases[] = {
    { M_START E("ping", "") TEXT("0", "Hi") M_END("end_turn"), "STOP 10+9 {\"content\":\"Hi\"}" },
    { M_START TEXT("0", "a") TEXT("1", "b") M_END("stop_sequence"),
      "STOP 10+9 {\"content\":\"ab\"}" },
    { M_START TOOL("0", "t") JSON("0", "") JSON("0", "{\\\"x\\\": ") JSON("0", "1}") B_STOP("0")
          M_END("tool_use"),
      "STOP 10+9 {\"content\":\"\",\"tool_calls\":[{\"arguments\":{\"x\":1},\"id\":\"t\","
      "\"name\":\"f\"}]}" },
    { M_START TOOL("0", "t") B_STOP("0") TOOL("1", "u") JSON("1", "{}") B_STOP("1")
          M_END("tool_use"),
      "STOP 10+9 {\"content\":\"\",\"tool_calls\":[{\"arguments\":{},\"id\":\"t\",\"name\":\"f\"},"
      "{\"arguments\":{},\"id\":\"u\",\"name\":\"f\"}]}" },
    { M_START TOOL("0", "t") JSON("0", "{\\\"x\\\": ") M_END("max_tokens"),
      "LENGTH 10+9 {\"content\":\"\",\"tool_calls\":[{\"arguments_text\":\"{\\\"x\\\": \",\"id\":"
      "\"t\",\"name\":\"f\"}]}" },
    { M_START B_START("0", "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}")
          B_DELTA("0", "{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}")
              B_DELTA("0", "{\"type\":\"signature_delta\",\"signature\":\"S\"}") B_STOP("0")
                  B_START("1", "{\"type\":\"redacted_thinking\",\"data\":\"D\"}") B_STOP("1")
                      TEXT("2", "Hi") TOOL("3", "t") JSON("3", "{\\\"x\\\":1}") B_STOP("3")
                          M_END("tool_use"),
      "STOP (hm) 10+9 {\"content\":\"Hi\",\"raw\":{\"content\":["
      "{\"signature\":\"S\",\"thinking\":\"hm\",\"type\":\"thinking\"},"
      "{\"data\":\"D\",\"type\":\"redacted_thinking\"},{\"text\":\"Hi\",\"type\":\"text\"},"
      "{\"id\":\"t\",\"input\":{\"x\":1},\"name\":\"f\",\"type\":\"tool_use\"}],"
      "\"model\":\"test\",\"provider\":\"anthropic\"},"
      "\"tool_calls\":[{\"arguments\":{\"x\":1},\"id\":\"t\",\"name\":\"f\"}]}" },
    { M_START TEXT("0", "No") M_END("refusal"), "REFUSED 10+9 {\"content\":\"No\"}" },
    { M_START TEXT("0", "No") M_END("model_context_window_exceeded"),
      "LENGTH 10+9 {\"content\":\"No\"}" },
    { M_START TEXT("0", "a"), "-" },
    { M_START TEXT("0", "a") E("error", ",\"error\":{\"type\":\"overloaded_error\"}"), "!" },
    { "data: {\"error\":{\"type\":\"api_error\"}}\n\n", "!" },
    { M_START E("news", ",\"x\":1") B_START("0", "{\"type\":\"text\",\"text\":\"a\"}")
          B_DELTA("0", "{\"type\":\"citations_delta\",\"citation\":{}}") M_END("end_turn"),
      "STOP 10+9 {\"content\":\"a\"}" },
    { M_START TEXT("0", "a") E("message_stop", "") DONE, "STOP 10+1 {\"content\":\"a\"}" },
    { M_START B_DELTA("0", "{\"type\":\"text_delta\",\"text\":\"a\"}"), NULL },
    { M_START B_START("0", "5"), NULL },
    { M_START B_START("0", "{\"type\":\"text\"}") B_START("0", "{\"type\":\"text\"}"), NULL },
    { M_START TOOL("0", "t") B_DELTA("0", "{\"type\":\"input_json_delta\",\"partial_json\":7}"),
      NULL },
    { M_START B_START("0", "{}") B_DELTA("-1", "{\"type\":\"text_delta\",\"text\":\"a\"}"), NULL },
    { "data: nonsense\n\n", NULL },
};

#define DELTA(kind, i, text)                                                                       \
    E("response." kind ".delta", ",\"output_index\":" i ",\"delta\":\"" text "\"")
#define F_ADDED(i)                                                                                 \
    E("response.output_item.added",                                                                \
      ",\"output_index\":" i ",\"item\":{\"type\":\"function_call\","                              \
      "\"call_id\":\"c" i "\",\"name\":\"f\",\"arguments\":\"\"}")
#define F_DONE(i, args)                                                                            \
    E("response.output_item.done",                                                                 \
      ",\"output_index\":" i ",\"item\":{\"type\":\"function_call\","                              \
      "\"call_id\":\"c" i "\",\"name\":\"f\",\"arguments\":\"" args "\"}")
#define R_END                                                                                      \
    E("response.completed", ",\"response\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":6}}")

static const struct reply_case responses_cases[] = {
    { E("response.created", "") DELTA("output_text", "0", "a") DELTA("output_text", "0", "b") R_END,
      "STOP 5+6 {\"content\":\"ab\"}" },
    { F_ADDED("0") DELTA("function_call_arguments", "0", "{\\\"x\\\":")
          DELTA("function_call_arguments", "0", "1}") F_DONE("0", "{\\\"x\\\":1}") R_END,
      "STOP 5+6 {\"content\":\"\",\"tool_calls\":[{\"arguments\":{\"x\":1},\"id\":\"c0\",\"name\":"
      "\"f\"}]}" },
    /* whole, without pieces; with an item before it */
    { F_DONE("1", "{}") F_ADDED("3") F_DONE("3", "{\\\"y\\\":2}") R_END,
      "STOP 5+6 {\"content\":\"\",\"tool_calls\":[{\"arguments\":{},\"id\":\"c1\",\"name\":\"f\"},"
      "{\"arguments\":{\"y\":2},\"id\":\"c3\",\"name\":\"f\"}]}" },
    { DELTA("reasoning_summary_text", "0", "hm") DELTA("refusal", "1", "No") R_END,
      "REFUSED (hm) 5+6 {\"content\":\"No\"}" },
    { DELTA("output_text", "0", "a")
          E("response.incomplete",
            ",\"response\":{\"incomplete_details\":{\"reason\":\"max_output_tokens\"}}"),
      "LENGTH {\"content\":\"a\"}" },
    { DELTA("output_text", "0", "a"), "-" },
    { E("response.failed", ",\"response\":{\"error\":{\"code\":\"server_error\"}}"), "!" },
    { E("error", ",\"code\":\"x\",\"message\":\"y\""), "!" },
    { E("response.news", ",\"delta\":\"x\"") E("response.output_item.done", ",\"item\":5") R_END,
      "STOP 5+6 {\"content\":\"\"}" },
    { DELTA("function_call_arguments", "7", "x"), NULL },
    { "data: [1]\n\n", NULL },
};

struct heard {
    struct text text, thinking;
    struct text calls[4];
};

static void on_text(void *arg, const char *text, size_t len)
{
    assert_int_equal(text_add(&((struct heard *) arg)->text, text, len, FEED_MAX), 0);
}

static void on_thinking(void *arg, const char *text, size_t len)
{
    assert_int_equal(text_add(&((struct heard *) arg)->thinking, text, len, FEED_MAX), 0);
}

static void on_call(void *arg, size_t i, const char *name, const char *text, size_t len)
{
    assert_true(i < 4 && *name);
    assert_int_equal(text_add(&((struct heard *) arg)->calls[i], text, len, FEED_MAX), 0);
}

/* What was streamed is what the message has. */
static void check_heard(const struct heard *heard, const struct feed *feed, const json_t *message)
{
    const char *content = json_in_string(message, "content");

    if (feed->draft.text.len > 0)
        assert_string_equal(text_str(&heard->text), content);
    assert_string_equal(text_str(&heard->thinking), text_str(&feed->draft.thinking));
    for (size_t i = 0; i < feed->draft.calls_len && i < 4; i++)
        assert_string_equal(text_str(&heard->calls[i]), text_str(&feed->draft.calls[i].arguments));
}

static void show(const struct feed *feed, struct llm_reply *reply, struct text *out)
{
    static const char *const finishes[] = { "STOP", "LENGTH", "REFUSED" };
    json_t *call;
    autofree char *json = NULL;
    char usage[64] = "";
    size_t i;

    (void) json_object_del(reply->message, "role");
    json_array_foreach (json_object_get(reply->message, "tool_calls"), i, call)
        if (strncmp(json_in_string(call, "id"), "call_", 5) == 0)
            (void) json_object_del(call, "id");
    json = json_dumps(reply->message, JSON_COMPACT | JSON_SORT_KEYS);
    if (reply->usage.prompt >= 0)
        (void) snprintf(usage, sizeof usage, "%d+%d ", (int) reply->usage.prompt,
                        (int) reply->usage.completion);
    (void) text_add(out, finishes[reply->finish], strlen(finishes[reply->finish]), FEED_MAX);
    (void) text_add(out, " ", 1, FEED_MAX);
    if (feed->draft.thinking.len > 0) {
        (void) text_add(out, "(", 1, FEED_MAX);
        (void) text_add(out, feed->draft.thinking.data, feed->draft.thinking.len, FEED_MAX);
        (void) text_add(out, ") ", 2, FEED_MAX);
    }
    (void) text_add(out, usage, strlen(usage), FEED_MAX);
    (void) text_add(out, json, strlen(json), FEED_MAX);
}

static void check_reply(const struct dialect *dialect, const struct reply_case *c, size_t cut)
{
    struct heard heard = { 0 };
    struct llm_watch watch = {
        .text = on_text, .thinking = on_thinking, .call = on_call, .arg = &heard
    };
    struct llm_reply reply;
    struct text shown = { 0 };
    struct feed feed;
    size_t len = strlen(c->stream);
    int r;

    feed_init(&feed, dialect, &watch);
    for (size_t i = 0; cut == SIZE_MAX && i < len; i++)
        feed_data(&feed, c->stream + i, 1);
    if (cut != SIZE_MAX) {
        feed_data(&feed, c->stream, cut);
        feed_data(&feed, c->stream + cut, len - cut);
    }
    r = feed_end(&feed, &reply);
    if (r == 0) {
        check_heard(&heard, &feed, reply.message);
        show(&feed, &reply, &shown);
    }
    if (!c->reply)
        assert_int_equal(r, -EPROTO);
    else if (strcmp(c->reply, "-") == 0)
        assert_int_equal(r, -EPIPE);
    else if (strcmp(c->reply, "!") == 0)
        assert_int_equal(r, -ECONNABORTED);
    else
        assert_string_equal(text_str(&shown), c->reply);
    llm_reply_release(&reply);
    text_release(&shown);
    text_release(&heard.text);
    text_release(&heard.thinking);
    for (size_t i = 0; i < 4; i++)
        text_release(&heard.calls[i]);
    feed_release(&feed);
}

static void check_replies(const struct dialect *dialect, const struct reply_case *cases, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        for (size_t cut = 0; cut <= strlen(cases[i].stream); cut++)
            check_reply(dialect, &cases[i], cut);
        check_reply(dialect, &cases[i], SIZE_MAX);
    }
}

static void test_openai(void **state)
{
    (void) state;
    check_replies(&openai_dialect, openai_cases, ARRAY_LEN(openai_cases));
}

static void test_anthropic(void **state)
{
    (void) state;
    check_replies(&anthropic_dialect, anthropic_cases, ARRAY_LEN(anthropic_cases));
}

static void test_responses(void **state)
{
    (void) state;
    check_replies(&responses_dialect, responses_cases, ARRAY_LEN(responses_cases));
}

/* Wherever a stream ends, the parser says that it is not complete, or that it is. */
static void test_streams_that_end(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(anthropic_cases); i++)
        for (size_t len = 0; len < strlen(anthropic_cases[i].stream); len++) {
            struct llm_reply reply;
            struct feed feed;

            feed_init(&feed, &anthropic_dialect, NULL);
            feed_data(&feed, anthropic_cases[i].stream, len);
            if (feed_end(&feed, &reply) == 0)
                assert_true(feed.decoder.done || feed.decoder.finish[0]);
            llm_reply_release(&reply);
            feed_release(&feed);
        }
}

static void test_too_many_calls(void **state)
{
    static const char call[] = C("{\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}");
    struct feed feed;
    struct llm_reply reply;

    (void) state;
    feed_init(&feed, &openai_dialect, NULL);
    for (int i = 0; i <= DRAFT_CALLS_MAX; i++)
        feed_data(&feed, call, strlen(call));
    assert_int_equal(feed_end(&feed, &reply), -EMSGSIZE);
    feed_release(&feed);
}

static void test_too_much_text(void **state)
{
    static const char chunk[] = C("{\"content\":\"0123456789\"}");
    struct feed feed;
    struct llm_reply reply;

    (void) state;
    feed_init(&feed, &openai_dialect, NULL);
    for (size_t i = 0; i <= FEED_MAX / 10; i++)
        feed_data(&feed, chunk, strlen(chunk));
    assert_int_equal(feed_end(&feed, &reply), -EMSGSIZE);
    feed_release(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),         cmocka_unit_test(test_events_are_bounded),
        cmocka_unit_test(test_openai),         cmocka_unit_test(test_anthropic),
        cmocka_unit_test(test_responses),      cmocka_unit_test(test_streams_that_end),
        cmocka_unit_test(test_too_many_calls), cmocka_unit_test(test_too_much_text),
    };

    return cmocka_run_group_tests_name("llm_stream", tests, NULL, NULL);
}
