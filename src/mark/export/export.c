/* Exports as a whole: whose turn it is, what is written, and what the file is called. */
#include "mark/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "mark/export/internal.h"

#include "base/banned.h"

/* At one time: with a box, and of all. A file that is being fetched counts for its owner, because
 * it takes room for as long as its reader likes; but not among all, where it would keep others
 * waiting. */
#define BOXES_MAX             16
#define BOXES_PER_OWNER_MAX   2
#define EXPORTS_MAX           64
#define EXPORTS_PER_OWNER_MAX 4
#define STEM_CHARS_MAX        60

static const struct {
    const char *media_type;
    int64_t bytes_max;
    int (*write)(struct selection *selection, struct out *out, struct fault *fault);
} formats[EXPORT_FORMATS] = {
    [EXPORT_IPYNB] = { "application/x-ipynb+json", EXPORT_BYTES_MAX, export_write_ipynb },
    [EXPORT_HTML] = { "text/html; charset=utf-8", EXPORT_BYTES_MAX, export_write_html },
    [EXPORT_MD] = { "text/markdown; charset=utf-8", EXPORT_BYTES_MAX, export_write_md },
    [EXPORT_JSON] = { "application/json", EXPORT_BYTES_MAX, export_write_json },
    [EXPORT_ZIP] = { "application/zip", ARCHIVE_BYTES_MAX, export_write_zip },
};

const char *const export_format_names[EXPORT_FORMATS + 1] = EXPORT_FORMAT_WORDS;

int exports_open(const struct exports_config *config, struct exports **ret_exports,
                 struct gb_err *err)
{
    struct exports *exports = calloc(1, sizeof *exports);

    if (!exports)
        return gb_fail(err, ENOMEM, "start exports");
    exports->config = *config;
    (void) pthread_mutex_init(&exports->lock, NULL);
    (void) pthread_mutex_init(&exports->plotly_lock, NULL);
    *ret_exports = exports;
    return 0;
}

void exports_close(struct exports *exports)
{
    if (!exports)
        return;
    (void) pthread_mutex_destroy(&exports->lock);
    (void) pthread_mutex_destroy(&exports->plotly_lock);
    free(exports);
}

/* ---- shares ---- */

int export_begin(struct exports *exports, struct export_turn *turn, struct fault *fault)
{
    size_t all = 0, own = 0, boxes = 0, own_boxes = 0;
    bool room;

    (void) pthread_mutex_lock(&exports->lock);
    for (const struct export_turn *t = exports->turns; t; t = t->next) {
        bool same = strcmp(t->owner, turn->owner) == 0;

        all += !t->made;
        own += same;
        boxes += t->box && !t->made;
        own_boxes += same && t->box && !t->made;
    }
    room = own < EXPORTS_PER_OWNER_MAX &&
           (turn->box ? boxes < BOXES_MAX && own_boxes < BOXES_PER_OWNER_MAX : all < EXPORTS_MAX);
    if (room) {
        turn->next = exports->turns;
        exports->turns = turn;
    }
    (void) pthread_mutex_unlock(&exports->lock);
    if (room)
        return 0;
    (void) fault_set(fault, PROBLEM_BUSY, NULL,
                     "too many exports are under way or being fetched; try again in a moment");
    fault->retry_after_s = 5;
    return -1;
}

void export_end(struct exports *exports, struct export_turn *turn)
{
    (void) pthread_mutex_lock(&exports->lock);
    for (struct export_turn **place = &exports->turns; *place; place = &(*place)->next)
        if (*place == turn) {
            *place = turn->next;
            break;
        }
    (void) pthread_mutex_unlock(&exports->lock);
}

int export_turn_begin(struct exports *exports, const char *owner, bool box,
                      struct export_turn **ret_turn, struct fault *fault)
{
    struct export_turn *turn = calloc(1, sizeof *turn);
    char *copy = strdup(owner);
    int r = -1;

    if (turn && copy) {
        *turn = (struct export_turn){ .owner = copy, .box = box, .exports = exports };
        r = export_begin(exports, turn, fault);
    } else {
        (void) fault_no_memory(fault);
    }
    if (r < 0) {
        free(turn);
        free(copy);
        return r;
    }
    *ret_turn = turn;
    return 0;
}

void export_turn_end(struct export_turn *turn, bool made, struct export_file *file)
{
    if (!made) {
        export_fetched(turn);
        return;
    }
    (void) pthread_mutex_lock(&turn->exports->lock);
    turn->made = true;
    (void) pthread_mutex_unlock(&turn->exports->lock);
    file->turn = turn;
}

void export_fetched(struct export_turn *turn)
{
    if (!turn)
        return;
    export_end(turn->exports, turn);
    free((char *) turn->owner);
    free(turn);
}

/* ---- names ---- */

/* Whether a character may be in the name of a file, anywhere: Windows is the strictest. Letters
 * that turn the direction of text, or have no width, could make a name look like another. */
static bool fits_name(uint32_t c)
{
    return c >= ' ' && !(c < 128 && strchr("<>:\"/\\|?*", (int) c)) && !(c >= 0x7f && c < 0xa0) &&
           !(c >= 0x200b && c <= 0x200f) && !(c >= 0x2028 && c <= 0x202f) &&
           !(c >= 0x2060 && c <= 0x206f) && c != 0xfeff && !(c >= 0xfff0 && c <= 0xffff) &&
           !(c >= 0xe0000 && c <= 0xe0fff);
}

void export_name(const char *title, const char *part, const char *extension,
                 char buf[EXPORT_NAME_MAX])
{
    size_t len = strlen(title), used = 0, chars = 0, unit;
    char stem[STEM_CHARS_MAX * 4 + 1];

    for (size_t i = 0; i < len && chars < STEM_CHARS_MAX; i += unit, chars++) {
        bool whole = utf8_next(title + i, len - i, &unit) == UTF8_CHAR;
        bool fits = whole && fits_name(utf8_decode(title + i, unit));

        if (used == 0 && fits && strchr(". ", title[i]))
            continue; /* a hidden file */
        if (fits)
            memcpy(stem + used, title + i, unit);
        else
            stem[used] = '_';
        used += fits ? unit : 1;
    }
    while (used > 0 && strchr(". ", stem[used - 1]))
        used--;
    stem[used] = '\0';
    (void) snprintf(buf, EXPORT_NAME_MAX, "%.*s%s%s.%s", STEM_CHARS_MAX * 4 - 60 > 0 ? 180 : 0,
                    used > 0 ? stem : "chat", *part ? "-" : "", part, extension);
}

/* ---- the whole ---- */

static int export_scope(struct selection *selection, enum export_format format,
                        struct export_file *ret_file, struct fault *fault)
{
    struct export_file file = { .fd = -1, .media_type = formats[format].media_type };
    struct out out;

    if (out_open(selection->exports, formats[format].bytes_max, &out, fault) < 0)
        return -1;
    if (formats[format].write(selection, &out, fault) < 0) {
        out_release(&out);
        return -1;
    }
    if (out_finish(&out, &file, fault) < 0)
        return -1;
    export_name(selection->chat.title, selection->message_id[0] ? "answer" : "",
                export_format_names[format], file.name);
    *ret_file = file;
    return 0;
}

static int export_either(struct exports *exports, const struct caller *caller, const char *chat_id,
                         const char *message_id, enum export_format format,
                         struct export_file *ret_file, struct fault *fault)
{
    struct export_turn *turn;
    struct selection selection;
    int r;

    if (export_turn_begin(exports, principal_text(&caller->principal), false, &turn, fault) < 0)
        return -1;
    r = selection_open(exports, caller, chat_id, message_id, &selection, fault);
    if (r == 0)
        r = export_scope(&selection, format, ret_file, fault);
    export_turn_end(turn, r == 0, ret_file);
    return r;
}

int export_chat(struct exports *exports, const struct caller *caller, const char *chat_id,
                enum export_format format, struct export_file *ret_file, struct fault *fault)
{
    return export_either(exports, caller, chat_id, NULL, format, ret_file, fault);
}

int export_message(struct exports *exports, const struct caller *caller, const char *message_id,
                   enum export_format format, struct export_file *ret_file, struct fault *fault)
{
    return export_either(exports, caller, NULL, message_id, format, ret_file, fault);
}
