/*
 * As JSON: what the API shows of a chat, and what an answer needs to be computed again. The form is
 * in docs/MARK.md; members may be added, none goes away within a version.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/parse.h"
#include "mark/chat/chats.h"
#include "mark/export/internal.h"
#include "store/attachments.h"

#include "base/banned.h"

#define PAGE_LEN 20

struct json_writer {
    struct selection *selection;
    struct out *out;
    json_t *attachments; /* ids that were listed */
    bool any;
};

static json_t *inputs_of(const json_t *details, const char *prompt_version)
{
    return json_pack("{s:O?, s:O?, s:O?, s:O?, s:s, s:O?}", "cells",
                     json_object_get(details, "cells"), "files", json_object_get(details, "files"),
                     "template", json_object_get(details, "template"), "packages",
                     json_object_get(details, "packages"), "prompt_version", prompt_version,
                     "recheck", json_object_get(details, "recheck"));
}

static void write_message(struct json_writer *w, json_t *message)
{
    out_puts(w->out, w->any ? ",\n  " : "\n  ");
    out_json(w->out, message);
    w->any = true;
}

/* The question that an answer is to, once, before it. */
static int write_question(struct json_writer *w, const char *id, struct fault *fault)
{
    json_t *question = NULL, *attachment;
    size_t i;

    if (!*id || json_object_get(w->attachments, id))
        return 0;
    if (chat_message(w->selection->exports->config.store, w->selection->caller, id, &question,
                     fault) < 0)
        return -1;
    (void) json_object_set_new(w->attachments, id, json_null());
    json_array_foreach (json_object_get(question, "attachments"), i, attachment)
        if (json_is_string(attachment))
            (void) json_object_set_new(w->attachments, json_string_value(attachment), json_true());
    write_message(w, question);
    json_decref(question);
    return 0;
}

static int write_item(void *arg, struct item *item, struct fault *fault)
{
    struct json_writer *w = arg;

    if (write_question(w, member_text(item->message, "reply_to"), fault) < 0)
        return -1;
    (void) json_object_set_new(item->message, "inputs",
                               inputs_of(item->details, item->prompt_version));
    write_message(w, item->message);
    return 0;
}

/* What is known about the files; of one that was deleted, that. */
static void write_attachments(struct json_writer *w)
{
    const char *id, *separator = "\n  ";
    json_t *wanted;

    json_object_foreach (w->attachments, id, wanted) {
        struct store_attachment attachment = { 0 };
        struct gb_err err;
        json_t *json;

        if (!json_is_true(wanted))
            continue;
        if (store_attachment_get(w->selection->exports->config.store,
                                 principal_text(&w->selection->caller->principal), id, &attachment,
                                 &err) == 0)
            json = attachment_to_json(&attachment);
        else
            json = json_pack("{s:s, s:b}", "attachment_id", id, "deleted", 1);
        store_attachment_release(&attachment);
        out_puts(w->out, separator);
        out_json(w->out, json);
        json_decref(json);
        separator = ",\n  ";
    }
}

int export_write_json(struct selection *selection, struct out *out, struct fault *fault)
{
    struct json_writer w = { .selection = selection, .out = out, .attachments = json_object() };
    char now[FORMAT_UTC_MAX];
    json_t *chat = NULL;
    int r;

    if (chat_get(selection->exports->config.store, selection->caller, selection->chat.id, &chat,
                 fault) < 0) {
        json_decref(w.attachments);
        return -1;
    }
    format_utc(clock_wall_us(), now);
    out_printf(out,
               "{\"format\": \"glovebox-mark-export\", \"version\": 1, \"exported\": \"%s\",\n"
               " \"chat\": ",
               now);
    out_json(out, chat);
    json_decref(chat);
    out_puts(out, ",\n \"messages\": [");
    r = selection_each(selection, false, write_item, &w, fault);
    out_puts(out, "],\n \"attachments\": [");
    if (r == 0)
        write_attachments(&w);
    out_puts(out, "]}\n");
    json_decref(w.attachments);
    return r;
}
