/*
 * Questions about the interpreter of a session: completion, help, variables.
 *
 * A look takes the turn of the session if it is free, and otherwise answers at once that the
 * session is busy: who types does not want to wait, and asks again with the next key. While it has
 * the turn, an execution that comes makes it give up (turn_end_look()), so nobody waits for it
 * either.
 *
 * Only a part of long code is sent to the interpreter, what comes before the cursor in particular:
 * it fits into one packet then (engine/run/look.c says why).
 */
#include "service/session/look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/utf8.h"
#include "service/session/session.h"

#include "base/banned.h"

#define LOOK_WALL_US   (2 * USEC_PER_SEC)
#define LOOK_AFTER_MAX (4u * 1024) /* bytes after the cursor that are sent of a long code */

/* The part of the code that is sent. */
struct part {
    const char *text;
    size_t len;
    int64_t offset; /* where it begins, in code points */
    int64_t cursor; /* of the whole code, in code points */
};

static int request_check(const struct look_request *request, struct fault *fault)
{
    if (request->op == LOOK_VARIABLES)
        return 0;
    if (request->code_len > LOOK_TEXT_MAX)
        return fault_set(fault, PROBLEM_CODE_TOO_LARGE, "code",
                         "code can have at most %d bytes here; send the cell only", LOOK_TEXT_MAX);
    if (memchr(request->code, 0, request->code_len))
        return fault_set(fault, PROBLEM_CODE_MALFORMED, "code",
                         "code must not contain NUL characters");
    if (!utf8_valid(request->code, request->code_len))
        return fault_set(fault, PROBLEM_CODE_MALFORMED, "code", "code must be UTF-8");
    return 0;
}

/* The bytes of the first @chars characters, *@chars of them at most; how many there were. */
static size_t bytes_of(const char *text, size_t len, int64_t *chars)
{
    int64_t count = 0;
    size_t at = 0, n;

    for (; at < len && count < *chars; at += n, count++)
        (void) utf8_next(text + at, len - at, &n);
    *chars = count;
    return at;
}

static void part_choose(const struct look_request *request, struct part *ret_part)
{
    int64_t cursor = request->cursor < 0 ? INT64_MAX : request->cursor, offset;
    const char *code = request->code ? request->code : "", *line;
    size_t len = request->code_len, at = bytes_of(code, len, &cursor), begin = 0, end = len;

    if (len > LOOK_CODE_MAX) {
        begin = at > LOOK_CODE_MAX - LOOK_AFTER_MAX ? at - (LOOK_CODE_MAX - LOOK_AFTER_MAX) : 0;
        line = begin > 0 ? memchr(code + begin, '\n', at - begin) : NULL;
        if (line)
            begin = (size_t) (line - code) + 1;
        while (begin < len && ((unsigned char) code[begin] & 0xc0) == 0x80)
            begin++; /* not in the middle of a character */
        end = len - begin > LOOK_CODE_MAX ? begin + LOOK_CODE_MAX : len;
        end -= utf8_partial_end(code + begin, end - begin);
    }
    offset = INT64_MAX;
    (void) bytes_of(code, begin, &offset);
    *ret_part = (struct part){ code + begin, end - begin, offset, cursor };
}

/* With the turn. 1 with a reply, 0 if the interpreter is busy, or a fault. */
static int ask(struct session *session, const struct look_request *request, const struct part *part,
               int cancel_fd, json_t **ret_json, struct fault *fault)
{
    static const char *const ops[] = {
        [LOOK_COMPLETE] = "complete", [LOOK_INSPECT] = "inspect", [LOOK_VARIABLES] = "variables"
    };
    autofree char *text = NULL;
    char question[96];
    struct look_spec spec = { .json = question,
                              .code = part->text,
                              .code_len = part->len,
                              .wall_us = LOOK_WALL_US,
                              .cancel_fd = cancel_fd };
    bool lost = false;
    size_t len = 0;
    int r;

    snprintf(question, sizeof question, "{\"op\": \"%s\", \"cursor\": %lld}", ops[request->op],
             (long long) (part->cursor - part->offset));
    r = lodging_look(session, &spec, &text, &len, &lost, fault);
    if (lost)
        turn_lost(session, false);
    if (r == 1)
        *ret_json = look_reply(request->op, text, len, part->offset, part->cursor);
    return r;
}

int session_look(struct session *session, const struct look_request *request, json_t **ret_json,
                 struct fault *fault)
{
    autoclose int fd = -EBADF;
    bool used = request->op != LOOK_VARIABLES;
    struct part part;
    json_t *json = NULL;
    int r;

    if (request_check(request, fault) < 0)
        return -1;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return fault_set(fault, PROBLEM_OUT_OF_DESCRIPTORS, NULL,
                         "the service is out of file descriptors; retry later");
    part_choose(request, &part);
    r = turn_try(session, fd, used, fault);
    if (r == 1) {
        r = ask(session, request, &part, fd, &json, fault);
        turn_give_look(session, used);
    }
    if (r < 0)
        return -1;
    if (r == 0)
        json = look_reply_empty(request->op, part.cursor, true);
    if (!json)
        return fault_no_memory(fault);
    *ret_json = json;
    return 0;
}
