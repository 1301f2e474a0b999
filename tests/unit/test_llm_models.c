/* Which models there are, keys, servers of this machine, the scripted model, conversations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "mark/llm/internal.h"
#include "mark/llm/json_in.h"
#include "mark/llm/local.h"
#include "mark/llm/net.h"
#include "mark/llm/spec.h"
#include "mark/llm/text.h"

#include "base/banned.h"

#define CANARY    "sk-canary-5f2b9c7e1d"
#define TEN       "aaaaaaaaaa"
#define LONG_NAME TEN TEN TEN TEN TEN TEN TEN

static char dir[] = "/tmp/glovebox-test-llm-XXXXXX";

static int make_dir(void **state)
{
    (void) state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void) state;
    return rmdir(dir);
}

/* A file in the directory, which the caller unlinks. */
static void write_file(char path[64], const char *text, mode_t mode)
{
    int fd;

    (void) snprintf(path, 64, "%s/file", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

/* ---- specifications ---- */

static void test_specs(void **state)
{
    static const struct {
        const char *text;
        enum llm_kind kind;
        const char *name, *model, *url;
    } good[] = {
        { "a=openai:gpt-5.4", LLM_KIND_OPENAI, "a", "gpt-5.4", NULL },
        { "a=openai:llama3.1:8b@http://127.0.0.1:11434/v1", LLM_KIND_OPENAI, "a", "llama3.1:8b",
          "http://127.0.0.1:11434/v1" },
        { "x.y:z/1-2_3=anthropic:claude@20250101@https://h/", LLM_KIND_ANTHROPIC, "x.y:z/1-2_3",
          "claude@20250101", "https://h/" },
        { "a=openai:m@HTTPS://h", LLM_KIND_OPENAI, "a", "m", "HTTPS://h" },
        { "s=script:/a/b=c.json", LLM_KIND_SCRIPT, "s", "/a/b=c.json", NULL },
        { "d=demo", LLM_KIND_DEMO, "d", NULL, NULL },
    };
    static const char *const bad[] = { "",
                                       "a",
                                       "=openai:m",
                                       "a=",
                                       "a=m",
                                       "a=openai",
                                       "a=openai:",
                                       "a=openai:@http://h",
                                       "a=openai:m@ftp://h",
                                       "a=openai:m@h:80",
                                       "a=script:",
                                       "a=demo2",
                                       "a b=demo",
                                       ".a=demo",
                                       "a\n=demo",
                                       "a=openai:m m",
                                       "\xc3\xbc=demo",
                                       LONG_NAME "=demo" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct model_spec spec;
        struct gb_err err;

        assert_int_equal(spec_parse(good[i].text, &spec, &err), 0);
        assert_int_equal(spec.kind, good[i].kind);
        assert_string_equal(spec.name, good[i].name);
        assert_true(good[i].model ? strcmp(spec.model, good[i].model) == 0 : !spec.model);
        assert_true(good[i].url ? strcmp(spec.url, good[i].url) == 0 : !spec.url);
        spec_release(&spec);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct model_spec spec;
        struct gb_err err = { 0 };

        assert_true(spec_parse(bad[i], &spec, &err) < 0);
        assert_true(strstr(err.msg, "--model"));
    }
}

static void test_endpoints(void **state)
{
    static const struct {
        enum llm_kind kind;
        const char *base, *key, *url; /* NULL: refused */
    } cases[] = {
        { LLM_KIND_OPENAI, "https://api.openai.com/v1", CANARY,
          "https://api.openai.com/v1/chat/completions" },
        { LLM_KIND_OPENAI, "http://127.0.0.1:11434", NULL,
          "http://127.0.0.1:11434/v1/chat/completions" },
        { LLM_KIND_OPENAI, "http://localhost:1234/v1/", CANARY,
          "http://localhost:1234/v1/chat/completions" },
        { LLM_KIND_OPENAI, "https://h/a/b", NULL, "https://h/a/b/chat/completions" },
        { LLM_KIND_ANTHROPIC, "https://api.anthropic.com", CANARY,
          "https://api.anthropic.com/v1/messages" },
        { LLM_KIND_ANTHROPIC, "https://h/v1/", CANARY, "https://h/v1/messages" },
        { LLM_KIND_ANTHROPIC, "https://h/anthropic", CANARY, "https://h/anthropic/v1/messages" },
        { LLM_KIND_OPENAI, "http://h/v1", NULL, "http://h/v1/chat/completions" },
        { LLM_KIND_OPENAI, "http://h/v1", CANARY, NULL }, /* in clear */
        { LLM_KIND_OPENAI, "http://127.example.com/v1", CANARY, NULL },
        { LLM_KIND_OPENAI, "http://localhost.example.com/v1", CANARY, NULL },
        { LLM_KIND_OPENAI, "http://[::1]:80/v1", CANARY, "http://[::1]:80/v1/chat/completions" },
        { LLM_KIND_OPENAI, "https://user:hunter2@h/v1", NULL, NULL },
        { LLM_KIND_OPENAI, "https://h/v1?x=1", NULL, NULL },
        { LLM_KIND_OPENAI, "file:///etc/passwd", NULL, NULL },
        { LLM_KIND_OPENAI, "https://", NULL, NULL },
        { LLM_KIND_OPENAI, "nonsense with blanks", NULL, NULL },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct llm_model model = { .name = (char *) "m", .key = (char *) cases[i].key };
        struct gb_err err = { 0 };
        int r = spec_endpoint(cases[i].kind, cases[i].base, &model, &err);

        assert_int_equal(r == 0, cases[i].url != NULL);
        if (r == 0)
            assert_string_equal(model.url, cases[i].url);
        else
            assert_null(strstr(err.msg, "hunter2"));
        assert_null(strstr(err.msg, CANARY));
        free(model.url);
        free(model.responses_url);
        free(model.where);
    }
}

static void test_key_files(void **state)
{
    static const struct {
        const char *text;
        mode_t mode;
        bool good;
    } cases[] = {
        { CANARY, 0600, true },      { "  " CANARY " \r\n\n", 0640, true },
        { CANARY, 0604, false },     { "", 0600, false },
        { " \n", 0600, false },      { "a b", 0600, false },
        { "a\nb\n", 0600, false },   { "a\x01", 0600, false },
        { "\xc3\xbc", 0600, false }, { "a\r\nX: y", 0600, false },
    };
    struct gb_err err;
    char path[64], *key;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int r;

        key = NULL;
        err.msg[0] = '\0';
        write_file(path, cases[i].text, cases[i].mode);
        r = spec_read_key(path, &key, &err);
        assert_int_equal(r == 0, cases[i].good);
        if (r == 0)
            assert_string_equal(key, CANARY);
        assert_null(strstr(err.msg, CANARY));
        free(key);
        assert_int_equal(unlink(path), 0);
    }
    assert_true(spec_read_key("/nonexistent", &key, &err) < 0);
    assert_true(spec_read_key("/dev/null", &key, &err) < 0);
    assert_true(spec_read_key("/", &key, &err) < 0);
}

/* ---- opening ---- */

static void check_open(char *const *specs, char *const *keys, char *const *env,
                       const char *expected)
{
    struct llm_config config = {
        .models = specs, .model_keys = keys, .environ = env, .demo = true, .retries = -1
    };
    struct llm_models *models = NULL;
    struct gb_err err = { 0 };
    struct text out = { 0 };

    if (llm_models_open(&config, &models, &err) < 0) {
        assert_null(strstr(err.msg, CANARY));
        assert_non_null(expected);
        assert_non_null(strstr(err.msg, expected));
        return;
    }
    for (size_t i = 0; llm_model_at(models, i); i++) {
        json_t *json = llm_model_to_json(llm_model_at(models, i));
        autofree char *text = json_dumps(json, 0);

        assert_null(strstr(text, CANARY));
        assert_true(llm_model_context(llm_model_at(models, i)) > 0);
        assert_true(llm_model_has_tools(llm_model_at(models, i)));
        (void) text_add(&out, json_in_string(json, "name"), strlen(json_in_string(json, "name")),
                        1000);
        (void) text_add(&out, " ", 1, 1000);
        json_decref(json);
    }
    assert_string_equal(text_str(&out), expected);
    assert_ptr_equal(llm_model_find(models, NULL), llm_model_at(models, 0));
    assert_ptr_equal(llm_model_find(models, ""), llm_model_at(models, 0));
    assert_null(llm_model_find(models, "nobody"));
    text_release(&out);
    llm_models_close(models);
}

#define LIST(...)                                                                                  \
    (char *[])                                                                                     \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void test_open(void **state)
{
    char path[64], named[80];

    (void) state;
    check_open(NULL, NULL, NULL, "demo ");
    check_open(LIST("a=openai:m", "b=anthropic:n@https://h"), NULL, NULL, "a b demo ");
    check_open(LIST("a=openai:m"), NULL,
               LIST("OPENAI_API_KEY=" CANARY, "ANTHROPIC_API_KEY=" CANARY, "X=1"),
               "a gpt-5.4 claude-sonnet-5-5 demo ");
    check_open(NULL, NULL, LIST("OPENAI_API_KEY="), "demo ");
    check_open(NULL, NULL, LIST("OPENAI_BASE_URL=http://h/v1", "OPENAI_MODEL=q"), "q demo ");
    check_open(NULL, NULL, LIST("OPENAI_BASE_URL=http://h/v1"), "demo ");
    check_open(LIST("q=openai:m"), NULL, LIST("OPENAI_API_KEY=k", "OPENAI_MODEL=q"),
               "q q@openai demo ");
    check_open(LIST("demo=openai:m"), NULL, NULL, "demo ");
    check_open(NULL, NULL, LIST("OPENAI_API_KEY=" CANARY " x"), "OPENAI_API_KEY");
    check_open(NULL, NULL, LIST("OPENAI_API_KEY=" CANARY, "OPENAI_BASE_URL=http://h/v1"),
               "in clear");
    check_open(LIST("a=openai:m", "a=demo"), NULL, NULL, "two models");
    check_open(LIST("a=nonsense"), NULL, NULL, "provider");
    check_open(LIST("a=script:/nonexistent"), NULL, NULL, "/nonexistent");
    check_open(NULL, LIST("b=/x"), NULL, "no --model has this name");
    check_open(LIST("a=openai:m"), LIST(CANARY), NULL, "NAME=FILE");
    check_open(LIST("a=openai:m"), LIST("a=/nonexistent"), NULL, "/nonexistent");
    write_file(path, CANARY, 0600);
    (void) snprintf(named, sizeof named, "a=%s", path);
    check_open(LIST("a=openai:m"), LIST(named), NULL, "a demo ");
    check_open(LIST("a=openai:m@http://h/v1"), LIST(named), NULL, "in clear");
    assert_int_equal(unlink(path), 0);
}

static void test_default(void **state)
{
    struct llm_config config = { .models = LIST("a=openai:m", "b=anthropic:n"), .use = "b" };
    struct llm_models *models = NULL;
    struct gb_err err;

    (void) state;
    assert_int_equal(llm_models_open(&config, &models, &err), 0);
    assert_string_equal(llm_model_name(llm_model_find(models, NULL)), "b");
    assert_string_equal(llm_model_name(llm_model_at(models, 0)), "a");
    llm_models_close(models);
    config.use = "c";
    assert_int_equal(llm_models_open(&config, &models, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "a, b"));
}

/* ---- servers of this machine ---- */

struct peer {
    int fd, port;
    pthread_t thread;
    const char *list, *show; /* NULL: accepts and says nothing */
};

static void *peer_serve(void *arg)
{
    struct peer *peer = arg;
    int held[8], held_len = 0;

    for (;;) {
        char request[2000] = "";
        autofree char *reply = NULL;
        int fd = accept4(peer->fd, NULL, NULL, SOCK_CLOEXEC);
        const char *body;

        if (fd < 0)
            break;
        if (!peer->list && held_len < 8) {
            held[held_len++] = fd;
            continue;
        }
        (void) !recv(fd, request, sizeof request - 1, 0);
        body = strstr(request, "/api/show") ? peer->show : peer->list;
        if (asprintf(&reply, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                     *body == '{' ? "200 OK" : "404 No", strlen(body), body) >= 0)
            (void) !send(fd, reply, strlen(reply), MSG_NOSIGNAL);
        (void) close(fd);
    }
    while (held_len > 0)
        (void) close(held[--held_len]);
    return NULL;
}

static void peer_start(struct peer *peer)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;

    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(peer->fd >= 0);
    assert_int_equal(bind(peer->fd, (struct sockaddr *) &at, sizeof at), 0);
    assert_int_equal(listen(peer->fd, 16), 0);
    assert_int_equal(getsockname(peer->fd, (struct sockaddr *) &at, &len), 0);
    peer->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&peer->thread, NULL, peer_serve, peer), 0);
}

static void peer_stop(struct peer *peer)
{
    (void) shutdown(peer->fd, SHUT_RDWR);
    assert_int_equal(pthread_join(peer->thread, NULL), 0);
    assert_int_equal(close(peer->fd), 0);
}

static void test_local_servers(void **state)
{
    struct peer peers[] = {
        { .list = "{\"object\":\"list\",\"data\":[{\"id\":\"llama3:8b\"},{\"id\":\"nomic-embed\"},"
                  "{\"id\":\"bad id\"},{\"id\":7},5]}",
          .show = "{\"capabilities\":[\"completion\"],\"parameters\":\"stop x\\nnum_ctx 16384\"}" },
        { .list = "{\"data\":[{\"id\":\"qwen\",\"max_model_len\":4000}]}", .show = "{}" },
        { .list = "{\"type\":\"urn:glovebox:problem:not-found\",\"status\":404}", .show = "{}" },
        { .list = "<html>", .show = "<html>" },
        { .list = NULL },
    };
    struct local_server servers[ARRAY_LEN(peers)];
    struct local_model *models;
    struct net *net = net_new();
    autofree char *first = NULL;
    char url[64];
    size_t len;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(peers); i++) {
        peer_start(&peers[i]);
        servers[i] = (struct local_server){ i == 0 ? "Ollama" : "vLLM", peers[i].port };
    }
    assert_int_equal(local_find(net, servers, ARRAY_LEN(servers), &models, &len), 0);
    assert_int_equal(len, 2);
    assert_string_equal(models[0].model, "llama3:8b");
    assert_int_equal(models[0].context, 16384);
    assert_true(models[0].no_tools);
    assert_string_equal(models[1].model, "qwen");
    assert_int_equal(models[1].context, 4000);
    assert_false(models[1].no_tools);
    local_free(models, len);
    (void) snprintf(url, sizeof url, "http://127.0.0.1:%d/v1/", peers[1].port);
    first = local_first(net, url);
    assert_string_equal(first, "qwen");
    net_free(net);
    for (size_t i = 0; i < ARRAY_LEN(peers); i++)
        peer_stop(&peers[i]);
}

/* Threads share the connections that are kept. */
static void *talk_over_http(void *arg)
{
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "x");
    struct llm_request request = { .messages = messages };

    for (int i = 0; i < 10; i++) {
        struct llm_reply reply;
        struct llm_error error;

        assert_int_equal(llm_chat(arg, &request, NULL, -1, &reply, &error), 0);
        assert_string_equal(json_in_string(reply.message, "content"), "fine");
        llm_reply_release(&reply);
    }
    json_decref(messages);
    return NULL;
}

static void test_many_over_http(void **state)
{
    struct peer peer = { .list = "{\"choices\":[{\"message\":{\"content\":\"fine\"}}]}" };
    char spec[80];
    struct llm_config config = { .models = LIST(spec), .retries = 0 };
    struct llm_models *models = NULL;
    pthread_t threads[8];
    struct gb_err err;

    (void) state;
    peer_start(&peer);
    (void) snprintf(spec, sizeof spec, "m=openai:m@http://127.0.0.1:%d/v1", peer.port);
    assert_int_equal(llm_models_open(&config, &models, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, talk_over_http, (void *) llm_model_find(models, "m")),
            0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    llm_models_close(models);
    peer_stop(&peer);
}

/* ---- the scripted model ---- */

static const char script_text[] =
    "{\"context\": 5000, \"piece\": 3, \"replies\": ["
    "{\"text\": \"first\"},"
    "{\"asked\": \"sum\", \"calls\": [{\"name\": \"run_python\", \"arguments\": {\"code\": "
    "\"1\"}}]},"
    "{\"asked\": \"sum\", \"text\": \"It is $LAST \xf0\x9f\x99\x82.\"},"
    "{\"when\": \"KeyError\", \"text\": \"mend\"},"
    "{\"text\": \"second\", \"thinking\": \"hm\", \"restart\": true,"
    " \"usage\": {\"prompt\": 5, \"completion\": 6, \"cost\": 0.5}},"
    "{\"calls\": [{\"name\": \"f\", \"arguments_text\": \"{\\\"x\\\"\"}], \"finish\": \"length\"},"
    "{\"text\": \"no\", \"finish\": \"refused\"},"
    "{\"error\": {\"failure\": \"busy\", \"status\": 429, \"message\": \"later\", \"retry_ms\": "
    "5}},"
    "{\"asked\": \"slow\", \"text\": \"x\", \"delay_ms\": 600000}"
    "]}";

static struct llm_models *open_script(const char *text)
{
    char path[64], spec[80];
    struct llm_config config = { .models = LIST(spec), .retries = -1 };
    struct llm_models *models = NULL;
    struct gb_err err;

    write_file(path, text, 0644);
    (void) snprintf(spec, sizeof spec, "s=script:%s", path);
    assert_int_equal(llm_models_open(&config, &models, &err), 0);
    assert_int_equal(unlink(path), 0);
    return models;
}

struct heard {
    struct text text;
    size_t restarts, pieces;
};

static void on_text(void *arg, const char *text, size_t len)
{
    struct heard *heard = arg;

    heard->pieces++;
    assert_int_equal(text_add(&heard->text, text, len, 10000), 0);
}

static void on_restart(void *arg)
{
    struct heard *heard = arg;

    heard->restarts++;
    text_release(&heard->text);
}

/* @messages: letters, a(ssistant), t(ool result "KeyError"), q(uestion), s(um), w(ait). */
static int talk(const struct llm_models *models, const char *letters, struct heard *heard,
                int cancel_fd, struct llm_reply *reply, struct llm_error *error)
{
    json_t *messages = json_array();
    struct llm_request request = { .messages = messages };
    struct llm_watch watch = { .text = on_text, .restart = on_restart, .arg = heard };
    int r;

    for (; *letters; letters++) {
        const char *role = *letters == 'a' ? "assistant" : *letters == 't' ? "tool" : "user";
        const char *content = *letters == 't'   ? "KeyError"
                              : *letters == 's' ? "the sum?"
                              : *letters == '7' ? "7"
                              : *letters == 'w' ? "slow"
                                                : "x";

        if (*letters == '7')
            role = "tool";
        (void) json_array_append_new(messages,
                                     json_pack("{s:s, s:s}", "role", role, "content", content));
    }
    r = llm_chat(llm_model_find(models, "s"), &request, &watch, cancel_fd, reply, error);
    json_decref(messages);
    return r;
}

static void check_talk(const struct llm_models *models, const char *letters, const char *expected)
{
    struct heard heard = { 0 };
    struct llm_reply reply;
    struct llm_error error;

    assert_int_equal(talk(models, letters, &heard, -1, &reply, &error), 0);
    assert_string_equal(json_in_string(reply.message, "content"), expected);
    assert_string_equal(text_str(&heard.text), expected);
    assert_non_null(reply.trace);
    llm_reply_release(&reply);
    text_release(&heard.text);
}

static void test_script(void **state)
{
    struct llm_models *models = open_script(script_text);
    struct heard heard = { 0 };
    struct llm_reply reply;
    struct llm_error error;

    (void) state;
    assert_int_equal(llm_model_context(llm_model_find(models, "s")), 5000);
    check_talk(models, "q", "first");
    check_talk(models, "qat", "mend");
    check_talk(models, "s", "");
    check_talk(models, "sa7", "It is 7 \xf0\x9f\x99\x82.");
    check_talk(models, "qasa7", "It is 7 \xf0\x9f\x99\x82.");
    assert_int_equal(talk(models, "qaq", &heard, -1, &reply, &error), 0);
    assert_int_equal(heard.restarts, 1);
    assert_int_equal(heard.pieces, 4);
    assert_string_equal(text_str(&heard.text), "second");
    assert_int_equal(reply.usage.prompt, 5);
    assert_int_equal(reply.usage.cached, -1);
    assert_true(reply.usage.cost > 0.49 && reply.usage.cost < 0.51);
    llm_reply_release(&reply);
    text_release(&heard.text);
    assert_int_equal(talk(models, "qaqaq", &heard, -1, &reply, &error), 0);
    assert_int_equal(reply.finish, LLM_LENGTH);
    llm_reply_release(&reply);
    assert_int_equal(talk(models, "qaqaqaq", &heard, -1, &reply, &error), 0);
    assert_int_equal(reply.finish, LLM_REFUSED);
    llm_reply_release(&reply);
    assert_true(talk(models, "qaqaqaqaq", &heard, -1, &reply, &error) < 0);
    assert_int_equal(error.failure, LLM_BUSY);
    assert_int_equal(error.retry_us, 5000);
    assert_string_equal(error.message, "later");
    llm_error_release(&error);
    assert_true(talk(models, "qaqaqaqaqaq", &heard, -1, &reply, &error) < 0);
    assert_int_equal(error.failure, LLM_INVALID);
    llm_error_release(&error);
    text_release(&heard.text);
    llm_models_close(models);
}

static void test_script_is_cancelled(void **state)
{
    struct llm_models *models = open_script(script_text);
    struct heard heard = { 0 };
    struct llm_reply reply;
    struct llm_error error;
    int fd = eventfd(1, EFD_CLOEXEC);

    (void) state;
    assert_true(talk(models, "w", &heard, fd, &reply, &error) < 0);
    assert_int_equal(error.failure, LLM_CANCELLED);
    llm_error_release(&error);
    assert_int_equal(close(fd), 0);
    llm_models_close(models);
}

static void test_bad_scripts(void **state)
{
    static const char *const bad[] = { "", "{", "5", "{}", "{\"replies\": 1}", "[1]", "[[]]" };
    struct script *script;
    struct gb_err err;
    char path[64];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        write_file(path, bad[i], 0600);
        assert_true(script_open(path, &script, &err) < 0);
        assert_non_null(strstr(err.msg, path));
        assert_int_equal(unlink(path), 0);
    }
}

#define THREADS 40

static void *talk_often(void *arg)
{
    for (int i = 0; i < 50; i++) {
        check_talk(arg, "sa7", "It is 7 \xf0\x9f\x99\x82.");
        check_talk(arg, "qat", "mend");
    }
    return NULL;
}

static void test_many_conversations(void **state)
{
    struct llm_models *models = open_script(script_text);
    pthread_t threads[THREADS];

    (void) state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, talk_often, models), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    llm_models_close(models);
}

/* ---- small things ---- */

static void test_redaction(void **state)
{
    char text[] = "a " CANARY CANARY " b", printable[] = "a\nb\x1b[1m\xff\xc3\xbc\xc2\x85";
    json_t *json = json_pack("{s:[s, {s:s}], s:s}", "x", CANARY, "y", "z" CANARY, "w", "fine");
    autofree char *dumped = NULL;

    (void) state;
    llm_redact_text(text, CANARY);
    assert_string_equal(text, "a [key][key] b");
    llm_redact_text(text, "a");
    assert_string_equal(text, "a [key][key] b");
    assert_int_equal(llm_redact_json(json, CANARY), 0);
    dumped = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(dumped, "{\"w\":\"fine\",\"x\":[\"[key]\",{\"y\":\"z[key]\"}]}");
    json_decref(json);
    llm_make_printable(printable);
    assert_string_equal(printable, "a b [1m \xc3\xbc ");
}

static void test_costs(void **state)
{
    struct llm_price price = { .prompt = 2, .cached = 0.5, .completion = 8 };
    struct llm_usage usage = { .prompt = 1000000, .completion = 500000, .cached = 400000 };

    (void) state;
    assert_true(llm_cost(&price, &usage) > 5.3999 && llm_cost(&price, &usage) < 5.4001);
    usage.cached = -1;
    assert_true(llm_cost(&price, &usage) > 5.9999 && llm_cost(&price, &usage) < 6.0001);
    usage.completion = -1;
    assert_true(llm_cost(&price, &usage) < 0);
    usage.completion = 1;
    price.prompt = -1;
    assert_true(llm_cost(&price, &usage) < 0);
}

static void check_history(const char *in, const char *expected)
{
    json_t *json = json_loads(in, 0, NULL), *clean = llm_history_clean(json);
    autofree char *text = json_dumps(clean, JSON_COMPACT | JSON_SORT_KEYS);

    assert_string_equal(text, expected);
    json_decref(json);
    json_decref(clean);
}

static void test_history(void **state)
{
    (void) state;
    check_history("[]", "[]");
    check_history("[{\"role\":\"user\",\"content\":\"\"}, 5, {}, {\"role\":7}]",
                  "[{\"content\":\"(empty)\",\"role\":\"user\"}]");
    check_history("[{\"role\":\"tool\",\"tool_call_id\":\"x\",\"content\":\"lost\"}]",
                  "[{\"content\":\"lost\",\"role\":\"user\"}]");
    check_history("[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a/b\",\"name\":\"f g\","
                  "\"arguments_text\":\"{\"}]}]",
                  "[{\"content\":\"\",\"role\":\"assistant\",\"tool_calls\":[{\"arguments\":"
                  "{\"invalid_json\":\"{\"},\"id\":\"a_b\",\"name\":\"f_g\"}]},"
                  "{\"content\":\"(stopped before it was run)\",\"error\":true,\"name\":\"f_g\","
                  "\"role\":\"tool\",\"tool_call_id\":\"a_b\"}]");
    /* results in another order, and one of them twice */
    check_history("[{\"role\":\"assistant\",\"content\":\"c\",\"tool_calls\":["
                  "{\"id\":\"a\",\"name\":\"f\",\"arguments\":{}},"
                  "{\"id\":\"b\",\"name\":\"f\",\"arguments\":{}}]},"
                  "{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"2\"},"
                  "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"1\"},"
                  "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"1 again\"}]",
                  "[{\"content\":\"c\",\"role\":\"assistant\",\"tool_calls\":["
                  "{\"arguments\":{},\"id\":\"a\",\"name\":\"f\"},"
                  "{\"arguments\":{},\"id\":\"b\",\"name\":\"f\"}]},"
                  "{\"content\":\"1\",\"name\":\"f\",\"role\":\"tool\",\"tool_call_id\":\"a\"},"
                  "{\"content\":\"2\",\"name\":\"f\",\"role\":\"tool\",\"tool_call_id\":\"b\"}]");
}

static void test_json_from_servers(void **state)
{
    static const struct {
        const char *in, *out; /* NULL: refused */
    } cases[] = {
        { "{}", "{}" },
        { "{\"a\":\"\\ud83d\\ude42\"}", "{\"a\":\"\xf0\x9f\x99\x82\"}" },
        { "{\"a\":\"\\ud83d\"}", "{\"a\":\"\xef\xbf\xbd\"}" },
        { "{\"a\":\"\\ude42\\ud83d\"}", "{\"a\":\"\xef\xbf\xbd\xef\xbf\xbd\"}" },
        { "{\"a\":\"\\u0000\"}", "{\"a\":\"\xef\xbf\xbd\"}" },
        { "{\"a\":\"\\\\ud83d \\ud83d\"}", "{\"a\":\"\\\\ud83d \xef\xbf\xbd\"}" },
        { "{\"a\":\"\xff\"}", "{\"a\":\"\xef\xbf\xbd\"}" },
        { "{\"a\":\"\\ud8", NULL },
        { "[]", NULL },
        { "\"x\"", NULL },
        { "", NULL },
        { "{\"a\":1}x", NULL },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *json = json_in_object(cases[i].in, strlen(cases[i].in));
        autofree char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

        assert_int_equal(!text, !cases[i].out);
        if (text)
            assert_string_equal(text, cases[i].out);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_specs),
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_key_files),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_default),
        cmocka_unit_test(test_local_servers),
        cmocka_unit_test(test_many_over_http),
        cmocka_unit_test(test_script),
        cmocka_unit_test(test_script_is_cancelled),
        cmocka_unit_test(test_bad_scripts),
        cmocka_unit_test(test_many_conversations),
        cmocka_unit_test(test_redaction),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_history),
        cmocka_unit_test(test_json_from_servers),
    };

    return cmocka_run_group_tests_name("llm_models", tests, make_dir, remove_dir);
}
