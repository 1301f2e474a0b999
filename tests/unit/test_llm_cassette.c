/* Recording exchanges with a model, and saying them again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "mark/llm/cassette.h"

#include "base/banned.h"

#define CANARY    "sk-canary-5f2b9c7e1d"
#define THREADS   8
#define EACH      25
#define FENCE     "<data 0123456789ab>\\n1\\n</data 0123456789ab>"
#define FENCE_TWO "<data ba9876543210>\\n1\\n</data ba9876543210>"
#define ID        "0b9c5a1e-7d2f-4c3b-8a6e-112233445566"
#define ID_TWO    "ffffffff-7d2f-4c3b-8a6e-112233445566"

static char dir[] = "/tmp/glovebox-test-cassette-XXXXXX";
static char file[64];

static int set_up(void **state)
{
    (void) state;
    if (!mkdtemp(dir))
        return -1;
    (void) snprintf(file, sizeof file, "%s/tape", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void) state;
    return rmdir(dir);
}

static void write_file(const char *text)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(close(fd), 0);
}

static json_t *parse(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    return json;
}

/* ---- which request it is ---- */

static void key_of(const char *messages, char key[CASSETTE_KEY_MAX])
{
    json_t *json = parse(messages);
    struct llm_request request = { .messages = json };

    assert_int_equal(cassette_key(&request, key), 0);
    json_decref(json);
}

static void test_keys(void **state)
{
    static const struct {
        const char *one, *other;
        bool same;
    } cases[] = {
        { "[{\"role\": \"user\", \"content\": \"a\"}]",
          "[{\"content\": \"a\", \"role\": \"user\"}]", true },
        { "[{\"role\": \"user\", \"content\": \"a\"}]",
          "[{\"role\": \"user\", \"content\": \"b\"}]", false },
        { "[{\"role\": \"user\", \"content\": \"a\"}]",
          "[{\"role\": \"system\", \"content\": \"a\"}]", false },
        /* a text that is cut elsewhere is another */
        { "[{\"role\": \"user\", \"content\": \"ab\"}, {\"role\": \"user\", \"content\": \"\"}]",
          "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": \"b\"}]",
          false },
        /* what differs from run to run */
        { "[{\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": \"x\"}]",
          "[{\"role\": \"tool\", \"tool_call_id\": \"2\", \"content\": \"x\"}]", true },
        { "[{\"role\": \"tool\", \"content\": \"<data 0123456789ab>\"}]",
          "[{\"role\": \"tool\", \"content\": \"<data ba9876543210>\"}]", true },
        { "[{\"role\": \"tool\", \"content\": \"see " ID " there\"}]",
          "[{\"role\": \"tool\", \"content\": \"see " ID_TWO " there\"}]", true },
        { "[{\"role\": \"tool\", \"content\": \"<a at 0x7f0011223344>\"}]",
          "[{\"role\": \"tool\", \"content\": \"<a at 0x7f0011225555>\"}]", true },
        /* and what only looks like it */
        { "[{\"role\": \"tool\", \"content\": \"0x12\"}]",
          "[{\"role\": \"tool\", \"content\": \"0x13\"}]", false },
        { "[{\"role\": \"tool\", \"content\": \"<data 12>\"}]",
          "[{\"role\": \"tool\", \"content\": \"<data 13>\"}]", false },
        { "[{\"role\": \"tool\", \"content\": \"212166.41\"}]",
          "[{\"role\": \"tool\", \"content\": \"212166.42\"}]", false },
        { "[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"1\", \"name\": \"f\", "
          "\"arguments\": {\"a\": 1, \"b\": 2}}]}]",
          "[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"2\", \"name\": \"f\", "
          "\"arguments\": {\"b\": 2, \"a\": 1}}]}]",
          true },
        { "[{\"role\": \"assistant\", \"tool_calls\": [{\"name\": \"f\", \"arguments\": {}}]}]",
          "[{\"role\": \"assistant\", \"tool_calls\": [{\"name\": \"g\", \"arguments\": {}}]}]",
          false },
    };
    char one[CASSETTE_KEY_MAX], other[CASSETTE_KEY_MAX];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        key_of(cases[i].one, one);
        key_of(cases[i].other, other);
        if ((strcmp(one, other) == 0) != cases[i].same)
            fail_msg("%s and %s", cases[i].one, cases[i].other);
    }
}

/* ---- recording, and saying it again ---- */

static struct llm_model *open_cassette(const char *name, struct llm_models **models)
{
    char spec[100];
    char *list[] = { spec, NULL };
    struct llm_config config = { .models = list };
    struct gb_err err = { 0 };

    (void) snprintf(spec, sizeof spec, "%s=cassette:%s", name, file);
    if (llm_models_open(&config, models, &err) < 0) {
        print_message("%s\n", err.msg);
        return NULL;
    }
    return (struct llm_model *) llm_model_at(*models, 0);
}

static void record(struct llm_recorder *recorder, const char *name, const char *key,
                   const char *question, const char *messages, const char *message)
{
    json_t *json = parse(messages), *said = parse(message);
    struct llm_model model = { .name = (char *) name, .key = (char *) key, .context = 5000 };
    struct llm_request request = { .question = question, .messages = json };
    struct llm_reply reply = { .message = said, .usage = { 10, 5, -1, 0.25 } };

    model.learned = calloc(1, sizeof *model.learned);
    assert_non_null(model.learned);
    recorder_add(recorder, &model, &request, &reply);
    free(model.learned);
    json_decref(json);
    json_decref(said);
}

static void test_say_again(void **state)
{
    static const char asked[] = "[{\"role\": \"user\", \"content\": \"How many? " FENCE "\"}]";
    static const char other_fence[] =
        "[{\"role\": \"user\", \"content\": \"How many? " FENCE_TWO "\"}]";
    static const char changed[] = "[{\"role\": \"user\", \"content\": \"How many?\"}]";
    struct llm_recorder *recorder = NULL;
    struct llm_models *models = NULL;
    struct llm_model *model;
    struct llm_request request = { .question = "How many?" };
    struct llm_error error;
    struct llm_reply reply;
    struct gb_err err;
    struct stat st;
    size_t count;
    json_t *call;

    (void) state;
    assert_int_equal(llm_recorder_open(file, &recorder, &err), 0);
    record(recorder, "big", CANARY, "How many? " CANARY, "[]",
           "{\"role\": \"assistant\", \"content\": \"my key is " CANARY "\"}");
    record(recorder, "big", CANARY, "How many?", asked,
           "{\"role\": \"assistant\", \"content\": \"$LAST\", \"raw\": {\"signature\": \"x\"}, "
           "\"tool_calls\": [{\"id\": \"c1\", \"name\": \"run_python\", \"arguments\": {\"code\": "
           "\"1\"}}]}");
    assert_int_equal(llm_recorder_close(recorder, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);

    /* it is not written over */
    assert_int_equal(llm_recorder_open(file, &recorder, &err), -EEXIST);

    model = open_cassette("any", &models);
    assert_non_null(model);
    assert_true(llm_model_has_tools(model));
    assert_int_equal(llm_model_context(model), 5000);
    request.messages = parse(other_fence);
    assert_int_equal(llm_chat(model, &request, NULL, -1, &reply, &error), 0);
    assert_string_equal(json_string_value(json_object_get(reply.message, "content")), "$LAST");
    call = json_array_get(json_object_get(reply.message, "tool_calls"), 0);
    assert_string_equal(json_string_value(json_object_get(call, "name")), "run_python");
    assert_int_equal(reply.usage.prompt, 10);
    assert_int_equal(reply.usage.cached, -1);
    assert_true(reply.usage.cost == 0.25);
    assert_string_equal(json_string_value(json_object_get(reply.trace, "recorded")), "exact");
    assert_int_equal(llm_model_drifted(model), 0);
    llm_reply_release(&reply);
    json_decref((json_t *) request.messages);

    request.messages = parse(changed);
    assert_int_equal(llm_chat(model, &request, NULL, -1, &reply, &error), 0);
    assert_string_equal(json_string_value(json_object_get(reply.trace, "recorded")), "drifted");
    assert_int_equal(llm_model_drifted(model), 1);
    llm_reply_release(&reply);

    request.question = "How much?";
    assert_int_equal(llm_chat(model, &request, NULL, -1, &reply, &error), -1);
    assert_int_equal(error.failure, LLM_INVALID);
    assert_non_null(strstr(error.message, "turn 0"));
    llm_error_release(&error);
    json_decref((json_t *) request.messages);
    llm_models_close(models);
    assert_int_equal(unlink(file), 0);
}

static void test_no_key(void **state)
{
    struct llm_recorder *recorder = NULL;
    struct gb_err err;
    char text[4096] = "";
    size_t count;
    int fd;

    (void) state;
    assert_int_equal(llm_recorder_open(file, &recorder, &err), 0);
    record(recorder, "m", CANARY, "is it " CANARY "?", "[]",
           "{\"role\": \"assistant\", \"content\": \"" CANARY "\", \"tool_calls\": [{\"name\": "
           "\"f\", \"arguments\": {\"a\": [\"" CANARY "\"]}}]}");
    assert_int_equal(llm_recorder_close(recorder, &count, &err), 0);
    fd = open(file, O_RDONLY | O_CLOEXEC);
    assert_true(io_read_all(fd, text, sizeof text - 1) > 0);
    assert_int_equal(close(fd), 0);
    assert_non_null(strstr(text, "[key]"));
    assert_null(strstr(text, "sk-canary"));
    assert_int_equal(unlink(file), 0);
}

/* ---- several at the same time ---- */

static void *record_many(void *arg)
{
    char question[32];

    for (int i = 0; i < EACH; i++) {
        (void) snprintf(question, sizeof question, "%p %d", (void *) &question, i);
        record(arg, "m", NULL, question, "[{\"role\": \"user\", \"content\": \"a\"}]",
               "{\"role\": \"assistant\", \"content\": \"a reply\"}");
    }
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t threads[THREADS];
    struct llm_recorder *recorder = NULL;
    struct llm_models *models = NULL;
    struct gb_err err;
    size_t count;

    (void) state;
    assert_int_equal(llm_recorder_open(file, &recorder, &err), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record_many, recorder), 0);
    for (int i = 0; i < THREADS; i++)
        (void) pthread_join(threads[i], NULL);
    assert_int_equal(llm_recorder_close(recorder, &count, &err), 0);
    assert_int_equal(count, THREADS * EACH);
    assert_non_null(open_cassette("m", &models)); /* every line is whole */
    llm_models_close(models);
    assert_int_equal(unlink(file), 0);
}

/* ---- files of others ---- */

#define HASH "0123456789012345678901234567890123456789012345678901234567890123"
#define LINE(name)                                                                                 \
    "{\"v\": 1, \"model\": \"" name "\", \"hash\": \"" HASH "\", \"question\": \"q\", "
#define REPLY "\"turn\": 0, \"reply\": {\"text\": \"t\"}}"

static void test_bad_files(void **state)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "", "is empty" },
        { "\n\n", "is empty" },
        { "[]\n", "line 1" },
        { "{}\n", "line 1" },
        { LINE("a") REPLY "\nrubbish\n", "line 2" },
        { LINE("a") REPLY "\n" LINE("a") "\"turn\": 0, \"re", "line 2" }, /* cut */
        { LINE("a") "\"turn\": -1, \"reply\": {}}\n", "line 1" },
        { LINE("a") "\"turn\": 0, \"reply\": []}\n", "line 1" },
        { LINE("a") "\"turn\": 0, \"reply\": {\"calls\": {}}}\n", "line 1" },
        { LINE("a") "\"turn\": 0, \"reply\": {\"calls\": [{\"name\": 1}]}}\n", "line 1" },
        { LINE("a") "\"turn\": 0, \"reply\": {\"calls\": [{\"name\": \"f\"}]}}\n", "line 1" },
        { "{\"v\": 2, \"model\": \"a\", \"hash\": \"" HASH "\", " REPLY "\n", "line 1" },
        { "{\"v\": 1, \"model\": \"a\", \"hash\": \"../x\", " REPLY "\n", "line 1" },
        { LINE("a") REPLY "\n" LINE("b") REPLY "\n", "several models" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct cassette *cassette = NULL;
        struct gb_err err = { 0 };

        write_file(bad[i].text);
        assert_true(cassette_open(file, "x", &cassette, &err) < 0);
        if (!strstr(err.msg, bad[i].why))
            fail_msg("%s: %s", bad[i].text, err.msg);
    }
    assert_int_equal(unlink(file), 0);
}

/* What a script may say and a recording not: delays, errors. Names choose among several models. */
static void test_only_replies(void **state)
{
    struct llm_models *models = NULL;
    struct llm_model *model;
    json_t *messages = parse("[]");
    struct llm_request request = { .question = "q", .messages = messages };
    struct llm_error error;
    struct llm_reply reply;

    (void) state;
    write_file(LINE("a") "\"turn\": 0, \"reply\": {\"text\": \"of a\"}}\n" LINE(
        "b") "\"turn\": 0, \"reply\": {\"text\": \"of b\", \"delay_ms\": 100000000, \"error\": "
             "{\"failure\": \"denied\"}, \"finish\": \"length\"}}\n");
    model = open_cassette("b", &models);
    assert_non_null(model);
    assert_false(llm_model_has_tools(model));
    assert_int_equal(llm_chat(model, &request, NULL, -1, &reply, &error), 0);
    assert_string_equal(json_string_value(json_object_get(reply.message, "content")), "of b");
    assert_int_equal(reply.finish, LLM_LENGTH);
    llm_reply_release(&reply);
    llm_models_close(models);
    json_decref(messages);
    assert_int_equal(unlink(file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),      cmocka_unit_test(test_say_again),
        cmocka_unit_test(test_no_key),    cmocka_unit_test(test_threads),
        cmocka_unit_test(test_bad_files), cmocka_unit_test(test_only_replies),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
