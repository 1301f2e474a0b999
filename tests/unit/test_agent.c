/* The agent with scripted models and the real service over an engine that runs nothing: what the
 * model "writes" is a word of service_harness.h. */
#include "service_harness.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "mark/agent/agent.h"
#include "mark/llm/llm.h"
#include "store/chats.h"

#include "base/banned.h"

struct kit {
    char dir[64];
    struct store *store;
    struct service *service;
    struct llm_models *models;
    struct agent *agent;
};

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void) st, (void) flag, (void) ftw;
    return remove(path);
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    (void) snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Opens the agent (again) with @script as its only model. */
static void kit_open(struct kit *kit, const char *script, const struct agent_config *wish)
{
    struct agent_config config = wish ? *wish : (struct agent_config){ 0 };
    char spec[128];
    char *models[] = { spec, NULL };
    struct llm_config llm = { .models = models };
    struct gb_err err;

    write_file(kit->dir, "script.json", script);
    (void) snprintf(spec, sizeof spec, "m=script:%s/script.json", kit->dir);
    if (llm_models_open(&llm, &kit->models, &err) < 0)
        fail_msg("%s", err.msg);
    config.service = kit->service;
    config.store = kit->store;
    config.models = kit->models;
    config.data_dir = kit->dir;
    if (agent_open(&config, &kit->agent, &err) < 0)
        fail_msg("%s", err.msg);
}

static void kit_close(struct kit *kit)
{
    agent_close(kit->agent);
    llm_models_close(kit->models);
    kit->agent = NULL;
    kit->models = NULL;
}

static void kit_init(struct kit *kit, const char *script, const struct agent_config *wish)
{
    struct store_config config = { .dir = kit->dir };
    struct service_config service;
    struct gb_err err;

    *kit = (struct kit){ .dir = "/tmp/glovebox-agent-XXXXXX" };
    assert_non_null(mkdtemp(kit->dir));
    if (store_open(&config, &kit->store, &err) < 0)
        fail_msg("%s", err.msg);
    config_init(&service);
    service.store = kit->store;
    kit->service = service_new(&service);
    kit_open(kit, script, wish);
}

static void kit_release(struct kit *kit)
{
    kit_close(kit);
    service_end(kit->service);
    store_close(kit->store);
    assert_int_equal(nftw(kit->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static struct answer *ask_in(struct kit *kit, const char *chat_id, const char *query)
{
    struct agent_question question = { .query = query, .chat_id = chat_id };
    struct answer *answer = NULL;
    struct fault fault;

    if (agent_ask(kit->agent, &alice, &question, &answer, &fault) < 0)
        fail_msg("%s: %s", fault.type, fault.detail);
    return answer;
}

/* Waits for it, and returns its response; the answer is released. */
static json_t *response_of(struct answer *answer)
{
    json_t *response;

    assert_true(answer_wait(answer, PATIENCE_US));
    response = answer_to_json(answer);
    assert_non_null(response);
    answer_unref(answer);
    return response;
}

static json_t *ask(struct kit *kit, const char *chat_id, const char *query)
{
    return response_of(ask_in(kit, chat_id, query));
}

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text ? text : "(none)";
}

static void check_status(const json_t *response, const char *status)
{
    if (strcmp(text_of(response, "status"), status) != 0)
        fail_msg("%s: %s", text_of(response, "status"), text_of(response, "answer_story"));
}

static void check_has(const json_t *response, const char *key, const char *part)
{
    if (!strstr(text_of(response, key), part))
        fail_msg("%s has no \"%s\": %s", key, part, text_of(response, key));
}

static size_t size_of(const json_t *response, const char *key)
{
    return json_array_size(json_object_get(response, key));
}

/* ---- answers ---- */

static void test_direct_answer(void **state)
{
    struct kit kit;
    json_t *response;

    (void) state;
    kit_init(&kit, "[{\"text\": \"Hello, I am Mark.\"}]", NULL);
    response = ask(&kit, NULL, "Hi");
    check_status(response, "ok");
    check_has(response, "answer_story", "Hello, I am Mark.");
    check_has(response, "model", "m");
    assert_int_equal(size_of(response, "steps"), 0);
    assert_true(json_is_null(json_object_get(response, "visualization")));
    assert_string_equal(order, ""); /* no box was needed */
    json_decref(response);
    kit_release(&kit);
}

#define CALL(code) "{\"name\": \"run_python\", \"arguments\": {\"code\": \"" code "\"}}"
#define RUN(code)  "{\"calls\": [" CALL(code) "]}"
#define ANSWER(story)                                                                              \
    "{\"calls\": [{\"name\": \"answer\", \"arguments\": {\"story\": \"" story "\"}}]}"
#define VALUE(name, value)                                                                         \
    "hand {\\\"kind\\\": \\\"value\\\", \\\"name\\\": \\\"" name "\\\", \\\"value\\\": " value     \
    ", \\\"unit\\\": \\\"EUR\\\", \\\"format\\\": null}"

static void test_computed_answer(void **state)
{
    struct kit kit;
    json_t *response, *value, *step;

    (void) state;
    kit_init(&kit,
             "[" RUN("say looking") "," RUN(VALUE("revenue", "1203411.5")) "," ANSWER(
                 "The revenue is {{revenue}}.") "]",
             NULL);
    response = ask(&kit, NULL, "What is the revenue?");
    check_status(response, "ok");
    assert_int_equal(size_of(response, "steps"), 2);
    assert_int_equal(size_of(response, "values"), 1);
    value = json_array_get(json_object_get(response, "values"), 0);
    assert_string_equal(text_of(value, "name"), "revenue");
    assert_int_equal(json_integer_value(json_object_get(value, "step")), 2);
    step = json_array_get(json_object_get(response, "steps"), 0);
    assert_string_equal(text_of(step, "code"), "say looking");
    assert_string_equal(text_of(json_object_get(step, "receipt"), "stdout"), "looking");
    check_has(response, "answer_story", "The revenue is ");
    json_decref(response);
    kit_release(&kit);
}

/* ---- events ---- */

static void test_events(void **state)
{
    struct kit kit;
    struct answer *answer;
    struct answer_event event;
    char names[1024] = "";
    int64_t after = 0;
    int r;

    (void) state;
    kit_init(&kit,
             "[{\"text\": \"Let me see.\", \"calls\": [" CALL("say looking") "]}," ANSWER(
                 "It is done, and this is a long story.") "]",
             NULL);
    answer = ask_in(&kit, NULL, "Do it");
    while ((r = answer_next_event(answer, after, PATIENCE_US, &event)) == 1) {
        size_t len = strlen(names), name = strlen(event.name);

        assert_true(event.id > after);
        after = event.id;
        if (!strstr(names, event.name) && len + name + 2 < sizeof names) {
            memcpy(names + len, event.name, name);
            memcpy(names + len + name, ";", 2);
        }
        free(event.data);
        assert_true(!event.last || strcmp(event.name, "done") == 0);
    }
    assert_int_equal(r, -1);
    assert_non_null(strstr(names, "chat;"));
    assert_non_null(strstr(names, "step;"));
    assert_non_null(strstr(names, "output;"));
    assert_non_null(strstr(names, "receipt;"));
    assert_non_null(strstr(names, "story;"));
    assert_non_null(strstr(names, "done;"));
    answer_unref(answer);
    kit_release(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_direct_answer),
        cmocka_unit_test(test_computed_answer),
        cmocka_unit_test(test_events),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
