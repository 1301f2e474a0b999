/*
 * The conformance suite of the store, continued: chats, messages, traces, ratings, attachments. As
 * in test_store.c, nothing but the headers is used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/text/strv.h"
#include "store/attachments.h"
#include "store/chats.h"
#include "store/feedback.h"

#include "store_harness.h"

#include "base/banned.h"

#define THREADS 4
#define ROUNDS  25

/* ---- chats ---- */

static struct store_chat chat_of(const char *id, const char *title, int64_t time_us)
{
    struct store_chat chat = { .created_us = time_us, .updated_us = time_us };

    snprintf(chat.id, sizeof chat.id, "%s", id);
    snprintf(chat.owner, sizeof chat.owner, "ann");
    snprintf(chat.title, sizeof chat.title, "%s", title);
    return chat;
}

static void add_chat(struct harness_store *f, const char *id, const char *title, int64_t time_us)
{
    struct store_chat chat = chat_of(id, title, time_us);

    assert_int_equal(store_chat_add(f->store, &chat, &f->err), 0);
}

static struct store_chat get_chat(struct harness_store *f, const char *id)
{
    struct store_chat chat;

    assert_int_equal(store_chat_get(f->store, "ann", id, &chat, &f->err), 0);
    return chat;
}

/* The ids of the chats that a search finds, with blanks between them. */
static void assert_found(struct harness_store *f, const char *q, const char *ids)
{
    struct store_chat_query query = { .owner = "ann", .q = q, .limit = 100 };
    autofree struct store_chat *chats = NULL;
    char found[256] = "";
    size_t len;

    assert_int_equal(store_chat_list(f->store, &query, &chats, &len, &f->err), 0);
    for (size_t i = 0; i < len; i++) {
        size_t at = strlen(found);

        snprintf(found + at, sizeof found - at, "%s%s", at ? " " : "", chats[i].id);
    }
    assert_string_equal(found, ids);
}

static void test_chat(void **state)
{
    struct harness_store *f = *state;
    struct store_chat chat = chat_of("c1", "Größe", 5), got = { .title = "x" };

    assert_int_equal(store_chat_get(f->store, "ann", "c1", &got, &f->err), -ENOENT);
    assert_string_equal(got.title, "x"); /* not written */
    assert_int_equal(store_chat_add(f->store, &chat, &f->err), 0);
    assert_int_equal(store_chat_add(f->store, &chat, &f->err), -EEXIST);
    got = get_chat(f, "c1");
    assert_string_equal(got.owner, "ann");
    assert_string_equal(got.title, "Größe");
    assert_string_equal(got.session_id, "");
    assert_string_equal(got.model, "");
    assert_int_equal(got.created_us, 5);

    assert_int_equal(store_chat_set(f->store, "c1", "s1", NULL, &f->err), 0);
    assert_int_equal(store_chat_set(f->store, "c1", NULL, "llama 3", &f->err), 0);
    assert_string_equal(get_chat(f, "c1").session_id, "s1");
    assert_string_equal(get_chat(f, "c1").model, "llama 3");
    assert_int_equal(store_chat_set(f->store, "c1", "", NULL, &f->err), 0);
    assert_string_equal(get_chat(f, "c1").session_id, "");
    assert_string_equal(get_chat(f, "c1").model, "llama 3");
    assert_int_equal(store_chat_set(f->store, "none", "s1", NULL, &f->err), -ENOENT);

    assert_int_equal(store_chat_rename(f->store, "ann", "c1", "New", 9, &f->err), 0);
    assert_string_equal(get_chat(f, "c1").title, "New");
    assert_int_equal(get_chat(f, "c1").updated_us, 9);
    assert_int_equal(store_chat_rename(f->store, "ann", "c1", "Newer", 3, &f->err), 0);
    assert_int_equal(get_chat(f, "c1").updated_us, 9); /* a clock that went back */
}

static void test_chat_of_others(void **state)
{
    struct harness_store *f = *state;
    struct store_chat_query query = { .owner = "bob", .limit = 10 };
    struct store_chat got, *chats;
    size_t len;

    add_chat(f, "c1", "mine", 1);
    assert_int_equal(store_chat_get(f->store, "bob", "c1", &got, &f->err), -ENOENT);
    assert_int_equal(store_chat_rename(f->store, "bob", "c1", "x", 2, &f->err), -ENOENT);
    assert_int_equal(store_chat_delete(f->store, "bob", "c1", &f->err), -ENOENT);
    assert_int_equal(store_chat_list(f->store, &query, &chats, &len, &f->err), 0);
    assert_int_equal(len, 0);
    free(chats);
    assert_string_equal(get_chat(f, "c1").title, "mine");
}

static void test_chat_pages(void **state)
{
    struct harness_store *f = *state;
    struct store_chat_query query = { .owner = "ann", .limit = 2 };
    struct store_chat *chats;
    size_t len;

    add_chat(f, "c1", "", 10);
    add_chat(f, "c2", "", 20);
    add_chat(f, "c3", "", 20);
    add_chat(f, "c4", "", 30);
    assert_found(f, NULL, "c4 c3 c2 c1");
    assert_found(f, "", "c4 c3 c2 c1");
    assert_int_equal(store_chat_list(f->store, &query, &chats, &len, &f->err), 0);
    assert_int_equal(len, 2);
    assert_string_equal(chats[1].id, "c3");
    query.after_us = chats[1].updated_us;
    query.after_id = "c3";
    free(chats);
    /* the place stays valid when its chat is gone */
    assert_int_equal(store_chat_delete(f->store, "ann", "c3", &f->err), 0);
    assert_int_equal(store_chat_list(f->store, &query, &chats, &len, &f->err), 0);
    assert_int_equal(len, 2);
    assert_string_equal(chats[0].id, "c2");
    assert_string_equal(chats[1].id, "c1");
    free(chats);
}

static void test_chat_bad(void **state)
{
    struct harness_store *f = *state;
    struct store_chat chat = chat_of("../x", "", 1), *chats;
    struct store_chat_query query = { .owner = "ann" };
    char longest[STORE_SEARCH_MAX + 2];
    size_t len;

    assert_int_equal(store_chat_add(f->store, &chat, &f->err), -EINVAL);
    chat = chat_of("c1", "\xff", 1);
    assert_int_equal(store_chat_add(f->store, &chat, &f->err), -EINVAL);
    memset(chat.title, 'x', sizeof chat.title);
    assert_int_equal(store_chat_add(f->store, &chat, &f->err), -EINVAL);
    add_chat(f, "c1", "a", 1);
    memset(longest, 'x', sizeof longest);
    longest[STORE_TITLE_MAX] = '\0';
    assert_int_equal(store_chat_rename(f->store, "ann", "c1", longest, 1, &f->err), -EINVAL);
    assert_int_equal(store_chat_set(f->store, "c1", "s 1", NULL, &f->err), -EINVAL);
    assert_int_equal(store_chat_set(f->store, "c1", NULL, "\xc3", &f->err), -EINVAL);
    assert_int_equal(store_chat_list(f->store, &query, &chats, &len, &f->err), -EINVAL);
    query.limit = STORE_CHAT_ROWS_MAX + 1;
    assert_int_equal(store_chat_list(f->store, &query, &chats, &len, &f->err), -EINVAL);
    query.limit = 1;
    query.q = "\xff";
    assert_int_equal(store_chat_list(f->store, &query, &chats, &len, &f->err), -EINVAL);
    memset(longest, 'x', sizeof longest);
    longest[STORE_SEARCH_MAX + 1] = '\0';
    query.q = longest;
    assert_int_equal(store_chat_list(f->store, &query, &chats, &len, &f->err), -EINVAL);
    longest[STORE_SEARCH_MAX] = '\0';
    assert_found(f, longest, "");
}

/* ---- messages ---- */

static struct store_message message_of(const char *id, const char *chat_id, enum store_role role,
                                       const char *text)
{
    static char parts[] = "[{\"type\":\"text\"}]";
    struct store_message message = { .role = role, .parts = parts, .text = (char *) text };

    snprintf(message.id, sizeof message.id, "%s", id);
    snprintf(message.chat_id, sizeof message.chat_id, "%s", chat_id);
    message.status = role == STORE_ROLE_USER ? STORE_MESSAGE_OK : STORE_MESSAGE_PENDING;
    message.created_us = message.updated_us = 100;
    return message;
}

/* A question "q<n>" and its answer "a<n>". */
static void add_pair(struct harness_store *f, const char *chat_id, int n, const char *text)
{
    char q[16], a[16];
    struct store_message question, answer;

    snprintf(q, sizeof q, "q%d", n);
    snprintf(a, sizeof a, "a%d", n);
    question = message_of(q, chat_id, STORE_ROLE_USER, text);
    answer = message_of(a, chat_id, STORE_ROLE_ASSISTANT, NULL);
    snprintf(answer.reply_to, sizeof answer.reply_to, "%s", q);
    assert_int_equal(store_message_add(f->store, &question, &answer, &f->err), 0);
}

static void test_owner_of(void **state)
{
    struct harness_store *f = *state;
    char owner[STORE_ID_MAX];
    bool chat = false;

    add_chat(f, "c1", "mine", 1);
    add_pair(f, "c1", 1, "why");
    assert_int_equal(store_owner_of(f->store, "c1", owner, &chat, &f->err), 0);
    assert_string_equal(owner, "ann");
    assert_true(chat);
    assert_int_equal(store_owner_of(f->store, "q1", owner, &chat, &f->err), 0);
    assert_string_equal(owner, "ann");
    assert_false(chat);
    assert_int_equal(store_owner_of(f->store, "c2", owner, &chat, &f->err), -ENOENT);
    assert_int_equal(store_owner_of(f->store, "", owner, &chat, &f->err), -EINVAL);
}

static void assert_messages(struct harness_store *f, struct store_message_query *query,
                            const char *ids)
{
    struct store_message *messages;
    char found[256] = "";
    size_t len;

    query->owner = "ann";
    query->chat_id = "c1";
    assert_int_equal(store_message_list(f->store, query, &messages, &len, &f->err), 0);
    for (size_t i = 0; i < len; i++) {
        size_t at = strlen(found);

        snprintf(found + at, sizeof found - at, "%s%s", at ? " " : "", messages[i].id);
    }
    store_messages_free(messages, len);
    assert_string_equal(found, ids);
}

static void test_message(void **state)
{
    struct harness_store *f = *state;
    struct store_message question = message_of("q1", "c1", STORE_ROLE_USER, "How many?");
    struct store_message answer = message_of("a1", "c1", STORE_ROLE_ASSISTANT, NULL), got;
    char attachments[] = "[\"x\"]";

    add_chat(f, "c1", "", 1);
    question.attachments = attachments;
    snprintf(answer.reply_to, sizeof answer.reply_to, "q1");
    assert_int_equal(store_message_add(f->store, &question, &answer, &f->err), 0);
    assert_int_equal(question.seq, 1);
    assert_int_equal(answer.seq, 2);
    assert_int_equal(get_chat(f, "c1").updated_us, 100);
    assert_int_equal(store_message_add(f->store, &question, &answer, &f->err), -EEXIST);

    assert_int_equal(store_message_get(f->store, "ann", "q1", &got, &f->err), 0);
    assert_string_equal(got.owner, "ann");
    assert_string_equal(got.chat_id, "c1");
    assert_string_equal(got.reply_to, "");
    assert_int_equal(got.role, STORE_ROLE_USER);
    assert_int_equal(got.status, STORE_MESSAGE_OK);
    assert_int_equal(got.seq, 1);
    assert_string_equal(got.parts, question.parts);
    assert_string_equal(got.attachments, "[\"x\"]");
    assert_null(got.response);
    store_message_release(&got);

    assert_int_equal(store_message_get(f->store, "ann", "a1", &got, &f->err), 0);
    assert_string_equal(got.reply_to, "q1");
    assert_int_equal(got.status, STORE_MESSAGE_PENDING);
    assert_null(got.attachments);
    store_message_release(&got);
    assert_int_equal(store_message_get(f->store, "bob", "a1", &got, &f->err), -ENOENT);
    assert_int_equal(store_message_get(f->store, "ann", "a2", &got, &f->err), -ENOENT);
}

static void test_message_finish(void **state)
{
    static const enum store_message_status ends[] = { STORE_MESSAGE_OK, STORE_MESSAGE_ERROR,
                                                      STORE_MESSAGE_STOPPED,
                                                      STORE_MESSAGE_NEEDS_INPUT };
    struct harness_store *f = *state;
    char response[] = "{\"answer_story\":\"Forty-two\"}", details[] = "{}", usage[] = "{\"n\":1}";
    struct store_message finished = message_of("a1", "c1", STORE_ROLE_ASSISTANT, "Forty-two"), got;
    struct store_message_query query = { .owner = "ann", .chat_id = "c1", .limit = 10 };
    struct store_message *list;
    size_t len;

    add_chat(f, "c1", "", 1);
    add_pair(f, "c1", 1, "How many?");
    finished.response = response;
    finished.details = details;
    finished.usage = usage;
    finished.updated_us = 500;
    snprintf(finished.prompt_version, sizeof finished.prompt_version, "abc");
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        finished.status = ends[i];
        assert_int_equal(store_message_finish(f->store, &finished, &f->err), 0);
        assert_int_equal(store_message_get(f->store, "ann", "a1", &got, &f->err), 0);
        assert_int_equal(got.status, ends[i]);
        assert_string_equal(got.response, response);
        assert_string_equal(got.details, details);
        assert_string_equal(got.usage, usage);
        assert_string_equal(got.prompt_version, "abc");
        assert_string_equal(got.parts, finished.parts);
        assert_int_equal(got.created_us, 100);
        assert_int_equal(got.updated_us, 500);
        store_message_release(&got);
    }
    assert_int_equal(get_chat(f, "c1").updated_us, 500);
    assert_found(f, "forty", "c1");
    query.without_response = true;
    assert_int_equal(store_message_list(f->store, &query, &list, &len, &f->err), 0);
    assert_int_equal(len, 2);
    assert_null(list[1].response);
    assert_string_equal(list[1].details, details);
    store_messages_free(list, len);
    finished.parts = finished.text = NULL; /* unchanged */
    assert_int_equal(store_message_finish(f->store, &finished, &f->err), 0);
    assert_found(f, "forty", "c1");
    snprintf(finished.id, sizeof finished.id, "q1"); /* a question cannot be finished */
    assert_int_equal(store_message_finish(f->store, &finished, &f->err), -ENOENT);
    snprintf(finished.id, sizeof finished.id, "a1");
    assert_int_equal(store_chat_delete(f->store, "ann", "c1", &f->err), 0);
    assert_int_equal(store_message_finish(f->store, &finished, &f->err), -ENOENT);
}

static void test_message_list(void **state)
{
    struct harness_store *f = *state;
    struct store_message_query query = { .limit = 3 };
    struct store_message again = message_of("a9", "c1", STORE_ROLE_ASSISTANT, NULL), *messages;
    size_t len;

    add_chat(f, "c1", "", 1);
    add_chat(f, "c2", "", 1);
    add_pair(f, "c1", 1, "one");
    add_pair(f, "c2", 2, "other");
    add_pair(f, "c1", 3, "two");
    assert_int_equal(store_message_add(f->store, NULL, &again, &f->err), 0); /* regenerate */
    assert_int_equal(again.seq, 5);
    assert_messages(f, &query, "q1 a1 q3");
    query.after_seq = 3;
    assert_messages(f, &query, "a3 a9");
    query = (struct store_message_query){ .limit = 2, .newest = true };
    assert_messages(f, &query, "a3 a9");
    query.before_seq = 4;
    assert_messages(f, &query, "a1 q3");
    query = (struct store_message_query){ .limit = 10, .bytes_max = 1 };
    assert_messages(f, &query, "q1");
    query.bytes_max = 1000;
    assert_messages(f, &query, "q1 a1 q3 a3 a9");
    query.without_response = true;
    assert_messages(f, &query, "q1 a1 q3 a3 a9");
    query.owner = "bob";
    assert_int_equal(store_message_list(f->store, &query, &messages, &len, &f->err), -ENOENT);
    query = (struct store_message_query){ .owner = "ann", .chat_id = "c9", .limit = 1 };
    assert_int_equal(store_message_list(f->store, &query, &messages, &len, &f->err), -ENOENT);
    query.limit = 0;
    assert_int_equal(store_message_list(f->store, &query, &messages, &len, &f->err), -EINVAL);
}

static void test_message_pending(void **state)
{
    struct harness_store *f = *state;
    struct store_message finished = message_of("a1", "c1", STORE_ROLE_ASSISTANT, NULL), *messages;
    size_t len;

    add_chat(f, "c1", "", 1);
    add_pair(f, "c1", 1, "one");
    add_pair(f, "c1", 2, "two");
    finished.status = STORE_MESSAGE_OK;
    assert_int_equal(store_message_finish(f->store, &finished, &f->err), 0);
    store_close(f->store);
    f->store = harness_open(f->dir);
    assert_int_equal(store_message_pending(f->store, &messages, &len, &f->err), 0);
    assert_int_equal(len, 1);
    assert_string_equal(messages[0].id, "a2");
    assert_string_equal(messages[0].chat_id, "c1");
    assert_string_equal(messages[0].owner, "ann");
    assert_null(messages[0].parts);
    store_messages_free(messages, len);
}

static char *text_of(size_t len)
{
    char *text = malloc(len + 1);

    assert_non_null(text);
    memset(text, 'x', len);
    text[len] = '\0';
    return text;
}

static void test_message_large(void **state)
{
    struct harness_store *f = *state;
    struct store_message finished = message_of("a1", "c1", STORE_ROLE_ASSISTANT, NULL), got;
    autofree char *large = text_of(STORE_TEXT_MAX), *larger = text_of(STORE_TEXT_MAX + 1);

    add_chat(f, "c1", "", 1);
    add_pair(f, "c1", 1, "one");
    finished.status = STORE_MESSAGE_OK;
    finished.response = larger;
    assert_int_equal(store_message_finish(f->store, &finished, &f->err), -E2BIG);
    finished.response = finished.details = large; /* each fits, both do not */
    assert_int_equal(store_message_finish(f->store, &finished, &f->err), -E2BIG);
    finished.details = NULL;
    assert_int_equal(store_message_finish(f->store, &finished, &f->err), 0);
    assert_int_equal(store_message_get(f->store, "ann", "a1", &got, &f->err), 0);
    assert_int_equal(strlen(got.response), STORE_TEXT_MAX);
    store_message_release(&got);
    assert_int_equal(store_trace_add(f->store, "a1", 1, larger, &f->err), -E2BIG);
    assert_int_equal(store_trace_add(f->store, "a1", 1, large, &f->err), 0);
}

static void test_message_bad(void **state)
{
    struct harness_store *f = *state;
    struct store_message question = message_of("q1", "c1", STORE_ROLE_USER, "x");
    struct store_message answer = message_of("a1", "c1", STORE_ROLE_ASSISTANT, NULL);
    struct store_message_query query = { .limit = 10 };

    assert_int_equal(store_message_add(f->store, &question, &answer, &f->err), -ENOENT);
    add_chat(f, "c1", "", 1);
    add_chat(f, "c2", "", 1);
    assert_int_equal(store_message_add(f->store, &answer, &question, &f->err), -EINVAL);
    answer = message_of("a1", "c2", STORE_ROLE_ASSISTANT, NULL);
    assert_int_equal(store_message_add(f->store, &question, &answer, &f->err), -EINVAL);
    answer = message_of("a1", "c1", STORE_ROLE_ASSISTANT, "\xf0\x9f");
    assert_int_equal(store_message_add(f->store, &question, &answer, &f->err), -EINVAL);
    answer = message_of("a1", "c1", STORE_ROLE_ASSISTANT, NULL);
    answer.parts = NULL;
    assert_int_equal(store_message_add(f->store, &question, &answer, &f->err), -EINVAL);
    answer = message_of("a1", "c1", STORE_ROLE_ASSISTANT, NULL);
    answer.status = (enum store_message_status) 77;
    assert_int_equal(store_message_add(f->store, &question, &answer, &f->err), -EINVAL);
    assert_int_equal(store_message_finish(f->store, &answer, &f->err), -EINVAL);
    answer = message_of("q1", "c1", STORE_ROLE_ASSISTANT, NULL); /* the same id twice */
    assert_int_equal(store_message_add(f->store, &question, &answer, &f->err), -EEXIST);
    assert_messages(f, &query, ""); /* both or none */
}

static void test_search(void **state)
{
    struct harness_store *f = *state;

    add_chat(f, "c1", "Sales in ÜBERLINGEN", 1);
    add_chat(f, "c2", "100% of_it!", 2);
    add_chat(f, "c3", "plain", 3);
    add_pair(f, "c3", 1, "Quite a groß Ärger: \"type\" \\ ΣΑΣ");
    assert_found(f, "überlingen", "c1");
    assert_found(f, "SALES", "c1");
    assert_found(f, "ärger", "c3");
    assert_found(f, "GROß", "c3");
    assert_found(f, "\\ σ", "c3");
    assert_found(f, "%", "c2"); /* not wildcards */
    assert_found(f, "f_i", "c2");
    assert_found(f, "t!", "c2");
    assert_found(f, "!", "c2");
    assert_found(f, "l_i", "");
    assert_found(f, "text", ""); /* the form of a message is not found */
    assert_found(f, "' OR 1=1 --", "");
    assert_int_equal(store_chat_rename(f->store, "ann", "c1", "Costs", 9, &f->err), 0);
    assert_found(f, "sales", "");
    assert_found(f, "COSTS", "c1");
}

struct worker {
    struct store *store;
    int number;
    int failed;
};

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < ROUNDS && !w->failed; i++) {
        char id[32];
        struct store_message question, answer;

        snprintf(id, sizeof id, "q%d-%d", w->number, i);
        question = message_of(id, "c1", STORE_ROLE_USER, "x");
        id[0] = 'a';
        answer = message_of(id, "c1", STORE_ROLE_ASSISTANT, NULL);
        w->failed = store_message_add(w->store, &question, &answer, NULL) < 0 ||
                    answer.seq != question.seq + 1;
    }
    return NULL;
}

/* Numbers have no gap and no double, by threads over one opening and over two. */
static void test_message_threads(void **state)
{
    struct harness_store *f = *state;
    struct store *other = harness_open(f->dir);
    struct store_message_query query = { .owner = "ann", .chat_id = "c1", .limit = 1000 };
    struct store_message *messages;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    size_t len;

    add_chat(f, "c1", "", 1);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ i % 2 ? other : f->store, i, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].failed, 0);
    }
    assert_int_equal(store_message_list(f->store, &query, &messages, &len, &f->err), 0);
    assert_int_equal(len, 2 * THREADS * ROUNDS);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(messages[i].seq, i + 1);
    store_messages_free(messages, len);
    store_close(other);
}

/* ---- traces and ratings ---- */

static void test_trace(void **state)
{
    struct harness_store *f = *state;
    char **texts;

    add_chat(f, "c1", "", 1);
    add_pair(f, "c1", 1, "one");
    assert_int_equal(store_trace_list(f->store, "ann", "a1", &texts, &f->err), 0);
    assert_int_equal(strv_len((const char *const *) texts), 0);
    strv_free(texts);
    assert_int_equal(store_trace_add(f->store, "a1", 2, "{\"n\":2}", &f->err), 0);
    assert_int_equal(store_trace_add(f->store, "a1", 1, "{\"n\":1}", &f->err), 0);
    assert_int_equal(store_trace_add(f->store, "a1", 1, "{}", &f->err), -EEXIST);
    assert_int_equal(store_trace_add(f->store, "none", 1, "{}", &f->err), -ENOENT);
    assert_int_equal(store_trace_add(f->store, "a1", 3, "\xff", &f->err), -EINVAL);
    assert_int_equal(store_trace_list(f->store, "ann", "a1", &texts, &f->err), 0);
    assert_int_equal(strv_len((const char *const *) texts), 2);
    assert_string_equal(texts[0], "{\"n\":1}");
    assert_string_equal(texts[1], "{\"n\":2}");
    strv_free(texts);
    assert_int_equal(store_trace_list(f->store, "bob", "a1", &texts, &f->err), -ENOENT);
}

static struct store_feedback feedback_of(const char *id, bool up, int64_t time_us)
{
    struct store_feedback feedback = { .up = up, .created_us = time_us };

    snprintf(feedback.message_id, sizeof feedback.message_id, "%s", id);
    snprintf(feedback.owner, sizeof feedback.owner, "ann");
    return feedback;
}

static void test_feedback(void **state)
{
    struct harness_store *f = *state;
    struct store_feedback feedback = feedback_of("a1", true, 10), *got;
    char reasons[] = "[\"wrong\"]", comment[] = "Ça va";
    size_t len;

    add_chat(f, "c1", "", 1);
    add_pair(f, "c1", 1, "one");
    assert_int_equal(store_feedback_set(f->store, &feedback, &f->err), 0);
    feedback = feedback_of("a1", false, 20);
    feedback.reasons = reasons;
    feedback.comment = comment;
    assert_int_equal(store_feedback_set(f->store, &feedback, &f->err), 0); /* replaces it */
    assert_int_equal(store_feedback_of_chat(f->store, "ann", "c1", 1, 2, &got, &len, &f->err), 0);
    assert_int_equal(len, 1);
    assert_string_equal(got[0].message_id, "a1");
    assert_string_equal(got[0].owner, "ann");
    assert_false(got[0].up);
    assert_string_equal(got[0].reasons, reasons);
    assert_string_equal(got[0].comment, comment);
    assert_int_equal(got[0].created_us, 20);
    store_feedbacks_free(got, len);
    assert_int_equal(store_feedback_of_chat(f->store, "ann", "c1", 3, 9, &got, &len, &f->err), 0);
    assert_int_equal(len, 0);
    store_feedbacks_free(got, len);

    feedback = feedback_of("q1", true, 30); /* a question is not rated */
    assert_int_equal(store_feedback_set(f->store, &feedback, &f->err), -ENOENT);
    feedback = feedback_of("a1", true, 30);
    snprintf(feedback.owner, sizeof feedback.owner, "bob");
    assert_int_equal(store_feedback_set(f->store, &feedback, &f->err), -ENOENT);
    feedback = feedback_of("a1", true, 30);
    feedback.comment = text_of(STORE_COMMENT_MAX);
    assert_int_equal(store_feedback_set(f->store, &feedback, &f->err), -EINVAL);
    feedback.comment[STORE_COMMENT_MAX - 1] = '\0';
    assert_int_equal(store_feedback_set(f->store, &feedback, &f->err), 0);
    free(feedback.comment);
}

static void test_feedback_list(void **state)
{
    struct harness_store *f = *state;
    struct store_feedback *got;
    size_t len;

    add_chat(f, "c1", "", 1);
    for (int i = 1; i <= 4; i++) {
        char id[16];
        struct store_feedback feedback;

        add_pair(f, "c1", i, "x");
        snprintf(id, sizeof id, "a%d", i);
        feedback = feedback_of(id, true, i < 4 ? 10 * i : 30);
        assert_int_equal(store_feedback_set(f->store, &feedback, &f->err), 0);
    }
    assert_int_equal(store_feedback_list(f->store, 20, 0, "", 2, &got, &len, &f->err), 0);
    assert_int_equal(len, 2);
    assert_string_equal(got[0].message_id, "a2");
    assert_string_equal(got[1].message_id, "a3");
    store_feedbacks_free(got, len);
    assert_int_equal(store_feedback_list(f->store, 20, 30, "a3", 2, &got, &len, &f->err), 0);
    assert_int_equal(len, 1);
    assert_string_equal(got[0].message_id, "a4");
    store_feedbacks_free(got, len);
    assert_int_equal(store_feedback_list(f->store, 0, 0, "", 0, &got, &len, &f->err), -EINVAL);
}

/* ---- attachments ---- */

static struct store_attachment attachment_of(const char *id, uint8_t content, int64_t size)
{
    struct store_attachment attachment = { .size = size, .created_us = 7 };

    snprintf(attachment.id, sizeof attachment.id, "%s", id);
    snprintf(attachment.owner, sizeof attachment.owner, "ann");
    snprintf(attachment.name, sizeof attachment.name, "Zahlen für %s.csv", id);
    snprintf(attachment.media_type, sizeof attachment.media_type, "text/csv");
    memset(attachment.sha256, content, sizeof attachment.sha256);
    return attachment;
}

static void test_attachment(void **state)
{
    struct harness_store *f = *state;
    struct store_attachment attachment = attachment_of("f1", 1, 10), got, *list;
    int64_t count, bytes;
    size_t len;
    bool has;

    assert_int_equal(store_attachment_add(f->store, &attachment, -1, -1, &f->err), 0);
    assert_int_equal(store_attachment_add(f->store, &attachment, -1, -1, &f->err), -EEXIST);
    attachment = attachment_of("f2", 1, 10);
    assert_int_equal(store_attachment_add(f->store, &attachment, -1, -1, &f->err), 0);
    assert_int_equal(store_attachment_set_profile(f->store, "ann", "f1", "{}", &f->err), 0);
    assert_int_equal(store_attachment_set_profile(f->store, "bob", "f1", "[]", &f->err), -ENOENT);
    assert_int_equal(store_attachment_get(f->store, "ann", "f1", &got, &f->err), 0);
    assert_string_equal(got.name, "Zahlen für f1.csv");
    assert_string_equal(got.media_type, "text/csv");
    assert_string_equal(got.owner, "ann");
    assert_int_equal(got.size, 10);
    assert_int_equal(got.created_us, 7);
    assert_int_equal(got.sha256[31], 1);
    assert_string_equal(got.profile, "{}");
    store_attachment_release(&got);
    assert_int_equal(store_attachment_get(f->store, "bob", "f1", &got, &f->err), -ENOENT);

    assert_int_equal(store_attachment_list(f->store, "ann", &list, &len, &f->err), 0);
    assert_int_equal(len, 2);
    assert_string_equal(list[0].id, "f1");
    assert_null(list[1].profile);
    store_attachments_free(list, len);
    assert_int_equal(store_attachment_sum(f->store, "ann", &count, &bytes, &f->err), 0);
    assert_int_equal(count, 2);
    assert_int_equal(bytes, 20);
    assert_int_equal(store_attachment_sum(f->store, "bob", &count, &bytes, &f->err), 0);
    assert_int_equal(count + bytes, 0);

    assert_int_equal(store_attachment_delete(f->store, "bob", "f1", &f->err), -ENOENT);
    assert_int_equal(store_attachment_delete(f->store, "ann", "f1", &f->err), 0);
    assert_int_equal(store_attachment_delete(f->store, "ann", "f1", &f->err), -ENOENT);
    assert_int_equal(store_attachment_has(f->store, attachment.sha256, &has, &f->err), 0);
    assert_true(has); /* the other one */
    assert_int_equal(store_attachment_delete(f->store, "ann", "f2", &f->err), 0);
    assert_int_equal(store_attachment_has(f->store, attachment.sha256, &has, &f->err), 0);
    assert_false(has);
}

static void test_attachment_quota(void **state)
{
    struct harness_store *f = *state;
    struct store_attachment attachment = attachment_of("f1", 1, 60);

    assert_int_equal(store_attachment_add(f->store, &attachment, 0, -1, &f->err), -EDQUOT);
    assert_int_equal(store_attachment_add(f->store, &attachment, 2, 59, &f->err), -EDQUOT);
    assert_int_equal(store_attachment_add(f->store, &attachment, 2, 100, &f->err), 0);
    attachment = attachment_of("f2", 2, 41);
    assert_int_equal(store_attachment_add(f->store, &attachment, 2, 100, &f->err), -EDQUOT);
    attachment.size = 40;
    assert_int_equal(store_attachment_add(f->store, &attachment, 2, 100, &f->err), 0);
    attachment = attachment_of("f3", 3, 0);
    assert_int_equal(store_attachment_add(f->store, &attachment, 2, 100, &f->err), -EDQUOT);
    snprintf(attachment.owner, sizeof attachment.owner, "bob"); /* has room of its own */
    assert_int_equal(store_attachment_add(f->store, &attachment, 2, 100, &f->err), 0);
}

static void test_attachment_bad(void **state)
{
    static const char *const names[] = { "", ".", "..", "a/b", "a\nb", "a\x7f", "\xff" };
    struct harness_store *f = *state;
    struct store_attachment attachment;
    autofree char *longest = text_of(STORE_PROFILE_MAX + 1);

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        attachment = attachment_of("f1", 1, 1);
        snprintf(attachment.name, sizeof attachment.name, "%s", names[i]);
        assert_int_equal(store_attachment_add(f->store, &attachment, -1, -1, &f->err), -EINVAL);
    }
    attachment = attachment_of("f1", 1, -1);
    assert_int_equal(store_attachment_add(f->store, &attachment, -1, -1, &f->err), -EINVAL);
    attachment = attachment_of("f1", 1, 1);
    attachment.profile = longest;
    assert_int_equal(store_attachment_add(f->store, &attachment, -1, -1, &f->err), -E2BIG);
    longest[STORE_PROFILE_MAX] = '\0';
    assert_int_equal(store_attachment_add(f->store, &attachment, -1, -1, &f->err), 0);
}

static void *attach(void *arg)
{
    struct worker *w = arg;

    w->failed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct store_attachment attachment;
        char id[32];
        int r;

        snprintf(id, sizeof id, "f%d-%d", w->number, i);
        attachment = attachment_of(id, 1, 10);
        r = store_attachment_add(w->store, &attachment, 1000, 205, NULL);
        w->failed += r < 0 && r != -EDQUOT;
    }
    return NULL;
}

static void test_attachment_threads(void **state)
{
    struct harness_store *f = *state;
    struct store *other = harness_open(f->dir);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    int64_t count, bytes;

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ i % 2 ? other : f->store, i, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, attach, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].failed, 0);
    }
    assert_int_equal(store_attachment_sum(f->store, "ann", &count, &bytes, &f->err), 0);
    assert_int_equal(count, 20);
    assert_int_equal(bytes, 200);
    store_close(other);
}

/* ---- replacing ---- */

static void finish(struct harness_store *f, const char *id)
{
    struct store_message message = message_of(id, "c1", STORE_ROLE_ASSISTANT, "Done.");
    char response[] = "{}";

    message.status = STORE_MESSAGE_OK;
    message.response = response;
    assert_int_equal(store_message_finish(f->store, &message, &f->err), 0);
}

static int replace(struct harness_store *f, const char *owner, const char *id, const char *chat_id,
                   int n)
{
    struct store_replaced replaced = { .owner = owner, .message_id = id };
    char question_id[8], answer_id[8];
    struct store_message question, answer;
    int r;

    snprintf(question_id, sizeof question_id, "q%d", n);
    snprintf(answer_id, sizeof answer_id, "a%d", n);
    question = message_of(question_id, chat_id, STORE_ROLE_USER, "Instead?");
    answer = message_of(answer_id, chat_id, STORE_ROLE_ASSISTANT, NULL);
    snprintf(answer.reply_to, sizeof answer.reply_to, "%s", question_id);
    r = store_message_replace(f->store, &replaced, &question, &answer, &f->err);
    if (r == 0) {
        assert_int_equal(answer.seq, question.seq + 1);
        assert_string_equal(replaced.session_id, "box");
    }
    return r;
}

static void test_replace(void **state)
{
    struct harness_store *f = *state;
    struct store_feedback feedback = feedback_of("a2", true, 10), *feedbacks;
    struct store_message_query all = { .limit = 100 };
    struct store_message got;
    char **texts;
    size_t len;

    add_chat(f, "c1", "", 1);
    add_chat(f, "c2", "", 1);
    for (int i = 1; i <= 3; i++)
        add_pair(f, "c1", i, "one");
    assert_int_equal(store_chat_set(f->store, "c1", "box", NULL, &f->err), 0);
    assert_int_equal(store_trace_add(f->store, "a2", 1, "{}", &f->err), 0);
    finish(f, "a1");
    finish(f, "a2");
    assert_int_equal(replace(f, "ann", "q2", "c1", 9), -EBUSY); /* a3 is under way */
    assert_int_equal(replace(f, "ann", "q3", "c1", 9), -EBUSY);
    finish(f, "a3");
    assert_int_equal(store_feedback_set(f->store, &feedback, &f->err), 0);

    assert_int_equal(replace(f, "bob", "q2", "c1", 9), -ENOENT);
    assert_int_equal(replace(f, "ann", "q2", "c2", 9), -ENOENT);
    assert_int_equal(replace(f, "ann", "q2", "c3", 9), -ENOENT);
    assert_int_equal(replace(f, "ann", "a2", "c1", 9), -ENOENT);
    assert_int_equal(replace(f, "ann", "q4", "c1", 9), -ENOENT);
    assert_int_equal(replace(f, "ann", "", "c1", 9), -EINVAL);
    assert_int_equal(replace(f, "", "q2", "c1", 9), -EINVAL);
    assert_int_equal(replace(f, "ann", "q2", "c1", 1), -EEXIST); /* and nothing was deleted */
    assert_messages(f, &all, "q1 a1 q2 a2 q3 a3");
    assert_string_equal(get_chat(f, "c1").session_id, "box");

    assert_int_equal(replace(f, "ann", "q2", "c1", 4), 0);
    assert_messages(f, &all, "q1 a1 q4 a4");
    assert_string_equal(get_chat(f, "c1").session_id, "");
    assert_int_equal(store_message_get(f->store, "ann", "q4", &got, &f->err), 0);
    assert_int_equal(got.seq, 3);
    store_message_release(&got);
    assert_int_equal(store_trace_list(f->store, "ann", "a2", &texts, &f->err), -ENOENT);
    assert_int_equal(store_feedback_list(f->store, 0, 0, "", 9, &feedbacks, &len, &f->err), 0);
    assert_int_equal(len, 0);
    store_feedbacks_free(feedbacks, len);
    assert_int_equal(replace(f, "ann", "q2", "c1", 9), -ENOENT); /* it is gone */
    assert_int_equal(replace(f, "ann", "q4", "c1", 9), -EBUSY);
}

/* ---- deletion ---- */

static void test_delete(void **state)
{
    struct harness_store *f = *state;
    struct store_feedback feedback = feedback_of("a1", true, 10), *feedbacks;
    struct store_message got, *pending;
    char **texts;
    size_t len;

    add_chat(f, "c1", "", 1);
    add_pair(f, "c1", 1, "one");
    assert_int_equal(store_trace_add(f->store, "a1", 1, "{}", &f->err), 0);
    assert_int_equal(store_feedback_set(f->store, &feedback, &f->err), 0);
    assert_int_equal(store_chat_delete(f->store, "ann", "c1", &f->err), 0);
    assert_int_equal(store_chat_delete(f->store, "ann", "c1", &f->err), -ENOENT);
    assert_int_equal(store_message_get(f->store, "ann", "q1", &got, &f->err), -ENOENT);
    assert_int_equal(store_trace_list(f->store, "ann", "a1", &texts, &f->err), -ENOENT);
    assert_int_equal(store_message_pending(f->store, &pending, &len, &f->err), 0);
    assert_int_equal(len, 0);
    store_messages_free(pending, len);
    assert_int_equal(store_feedback_list(f->store, 0, 0, "", 9, &feedbacks, &len, &f->err), 0);
    assert_int_equal(len, 0);
    store_feedbacks_free(feedbacks, len);
}

static void test_owner_delete(void **state)
{
    struct harness_store *f = *state;
    struct store_chat other = chat_of("c2", "", 1), got;
    struct store_attachment attachment = attachment_of("f1", 1, 10);
    bool has;

    add_chat(f, "c1", "", 1);
    add_pair(f, "c1", 1, "one");
    snprintf(other.owner, sizeof other.owner, "bob");
    assert_int_equal(store_chat_add(f->store, &other, &f->err), 0);
    assert_int_equal(store_attachment_add(f->store, &attachment, -1, -1, &f->err), 0);
    assert_int_equal(store_owner_delete(f->store, "ann", &f->err), 0);
    assert_found(f, NULL, "");
    assert_int_equal(store_attachment_has(f->store, attachment.sha256, &has, &f->err), 0);
    assert_false(has);
    assert_int_equal(store_chat_get(f->store, "bob", "c2", &got, &f->err), 0);
    assert_int_equal(store_owner_delete(f->store, "ann", &f->err), 0);
    assert_int_equal(store_owner_delete(f->store, "", &f->err), -EINVAL);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, harness_setup, harness_teardown)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        WITH_STORE(test_chat),
        WITH_STORE(test_chat_of_others),
        WITH_STORE(test_owner_of),
        WITH_STORE(test_chat_pages),
        WITH_STORE(test_chat_bad),
        WITH_STORE(test_message),
        WITH_STORE(test_message_finish),
        WITH_STORE(test_message_list),
        WITH_STORE(test_message_pending),
        WITH_STORE(test_message_large),
        WITH_STORE(test_message_bad),
        WITH_STORE(test_search),
        WITH_STORE(test_message_threads),
        WITH_STORE(test_trace),
        WITH_STORE(test_feedback),
        WITH_STORE(test_feedback_list),
        WITH_STORE(test_attachment),
        WITH_STORE(test_attachment_quota),
        WITH_STORE(test_attachment_bad),
        WITH_STORE(test_attachment_threads),
        WITH_STORE(test_replace),
        WITH_STORE(test_delete),
        WITH_STORE(test_owner_delete),
    };

    if (!harness_choose(argc, argv))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
