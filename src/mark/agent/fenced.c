/*
 * The protocol for models without tool calls: a reply with one fenced block of Python is a program,
 * every other reply is the answer; results go back as messages of the person.
 *
 * Models that have tools and write a fenced block all the same are understood too, if the block is
 * most of what they wrote: an answer that explains code has words around it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/agent/work.h"

#include "base/banned.h"

#define NUDGES_MAX 2
#define AROUND_MAX 300 /* bytes around a block that a model with tools means to run */

/* The next line that begins with three backticks, with its end in @ret_end. */
static const char *fence_line(const char *text, const char **ret_end)
{
    const char *line = text;

    while (line && *line) {
        const char *start = line + strspn(line, " ");
        const char *end = strchr(line, '\n');

        if (strncmp(start, "```", 3) == 0) {
            *ret_end = end ? end + 1 : line + strlen(line);
            return start;
        }
        line = end ? end + 1 : NULL;
    }
    return NULL;
}

static bool is_python(const char *fence)
{
    const char *word = fence + 3;
    size_t len = strcspn(word, " \r\n{");

    return (len == 6 && strncmp(word, "python", 6) == 0) ||
           (len == 2 && strncmp(word, "py", 2) == 0) ||
           (len == 7 && strncmp(word, "python3", 7) == 0);
}

bool fenced_find(const char *text, const char **ret_code, size_t *ret_len, size_t *ret_around)
{
    const char *place = text, *after, *fence;
    size_t found = 0, code_len = 0;
    const char *code = NULL;

    while ((fence = fence_line(place, &after))) {
        const char *end_after = NULL, *end = fence_line(after, &end_after);
        bool python = is_python(fence);

        if (python) {
            found++;
            code = after;
            code_len = end ? (size_t) (end - after) : strlen(after);
            while (end && code_len > 0 && after[code_len - 1] == ' ') /* before the fence */
                code_len--;
        }
        if (!end)
            break;
        place = end_after;
    }
    if (found != 1)
        return false;
    *ret_code = code;
    *ret_len = code_len;
    *ret_around = strlen(text) - code_len;
    return true;
}

static void run_block(struct work *work, const char *code, size_t len)
{
    autofree char *copy = strndup(code, len), *text = NULL;
    bool failed;

    model_story_void(work);
    text = copy ? tools_run_python(work, copy, &failed) : NULL;
    if (text)
        (void) work_say(work, "user", text);
}

static void handle_empty(struct work *work, enum llm_finish finish)
{
    work_decision(work, "empty_reply");
    if (++work->nudges > NUDGES_MAX || work->last) {
        work->give_up = true;
        if (work->last)
            ending_of_budget(work);
        return;
    }
    /* Without the empty message: some servers refuse it when it comes back. */
    (void) json_array_remove(work->messages, json_array_size(work->messages) - 1);
    (void) work_say(work, "user",
                    finish == LLM_LENGTH
                        ? "Your reply was cut off before it said anything. Reply briefly."
                        : "Your reply was empty. Reply with a program to run, or with the answer.");
}

void fenced_handle(struct work *work, const json_t *message, enum llm_finish finish)
{
    const char *content = json_string_value(json_object_get(message, "content"));
    size_t len, around;
    const char *code;

    if (!content || content[strspn(content, " \t\r\n")] == '\0') {
        handle_empty(work, finish);
        return;
    }
    if (!work->last && fenced_find(content, &code, &len, &around) &&
        (work->fenced || around <= AROUND_MAX)) {
        run_block(work, code, len);
        return;
    }
    if (finish == LLM_LENGTH)
        work_notice(work, "The answer was cut off at the model's length limit.");
    work_answer(work, strdup(content), NULL, NULL);
    if (!finish_mend(work, NULL))
        work->done = true;
}
