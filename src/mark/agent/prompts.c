/* The prompts: embedded, or files of the operator in DATA/mark/prompts/. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/utf8.h"
#include "mark/agent/internal.h"
#include "mark/prompts/prompts.h"

#include "base/banned.h"

static const struct {
    const char *name, *text;
} embedded[PROMPTS] = {
    [PROMPT_PERSONA] = { "persona", prompt_persona },
    [PROMPT_DECIDE] = { "decide", prompt_decide },
    [PROMPT_FENCED] = { "fenced", prompt_fenced },
    [PROMPT_CODE] = { "code", prompt_code },
    [PROMPT_STORY] = { "story", prompt_story },
    [PROMPT_SOURCES] = { "sources", prompt_sources },
};

const char *prompt_name(enum prompt prompt)
{
    return embedded[prompt].name;
}

void prompts_release(struct prompts *prompts)
{
    for (int i = 0; i < PROMPTS; i++)
        free(prompts->texts[i]);
    *prompts = (struct prompts){ 0 };
}

/* The operator's own text; -ENOENT if there is none. */
static int read_override(int dir_fd, const char *name, char **ret_text, struct gb_err *err)
{
    autofree char *text = malloc(PROMPT_BYTES_MAX + 1);
    autoclose int fd = -1;
    char file[64];
    ssize_t n;

    if (!text)
        return gb_fail(err, ENOMEM, "read a prompt");
    (void) snprintf(file, sizeof file, "%s.md", name);
    fd = openat(dir_fd, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT ? -ENOENT : gb_fail(err, errno, "open the prompt %s", file);
    n = io_read_all(fd, text, PROMPT_BYTES_MAX + 1);
    if (n < 0)
        return gb_fail(err, (int) -n, "read the prompt %s", file);
    if (n > PROMPT_BYTES_MAX)
        return gb_fail_plain(err, E2BIG, "the prompt %s is larger than %d bytes; shorten it", file,
                             PROMPT_BYTES_MAX);
    text[n] = '\0';
    if (strlen(text) != (size_t) n || !utf8_valid(text, (size_t) n))
        return gb_fail_plain(err, EINVAL, "the prompt %s is not text in UTF-8", file);
    *ret_text = TAKE_PTR(text);
    return 0;
}

static void make_version(struct prompts *prompts)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;

    (void) crypto_hash_sha256_init(&state);
    for (int i = 0; i < PROMPTS; i++) /* with its NUL, so that the border counts */
        (void) crypto_hash_sha256_update(&state, (const unsigned char *) prompts->texts[i],
                                         strlen(prompts->texts[i]) + 1);
    (void) crypto_hash_sha256_final(&state, hash);
    (void) sodium_bin2hex(prompts->version, sizeof prompts->version, hash,
                          (PROMPT_VERSION_MAX - 1) / 2);
}

int prompts_open(struct prompts *prompts, const char *data_dir, const char *dir, struct gb_err *err)
{
    autofree char *path = NULL;
    autoclose int dir_fd = -1;
    int r = 0;

    if (dir) {
        dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0)
            return gb_fail(err, errno, "open the prompts in '%s'", dir);
    } else if (data_dir) {
        if (asprintf(&path, "%s/mark/prompts", data_dir) < 0)
            return gb_fail(err, ENOMEM, "read the prompts");
        dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    for (int i = 0; r == 0 && i < PROMPTS; i++) {
        r = dir_fd >= 0 ? read_override(dir_fd, embedded[i].name, &prompts->texts[i], err)
                        : -ENOENT;
        prompts->overridden[i] = r == 0;
        if (r == -ENOENT) {
            prompts->texts[i] = strdup(embedded[i].text);
            r = prompts->texts[i] ? 0 : gb_fail(err, ENOMEM, "read the prompts");
        }
    }
    if (r == 0)
        make_version(prompts);
    else
        prompts_release(prompts);
    return r;
}

/* Copies @text with {packages} replaced. */
static void add_prompt(struct text *out, const char *text, const char *packages)
{
    const char *place = strstr(text, "{packages}");

    if (out->len > 0)
        text_puts(out, "\n");
    if (!place) {
        text_puts(out, text);
        return;
    }
    text_add(out, text, (size_t) (place - text));
    text_puts(out, packages && packages[0] ? packages : "the standard library");
    text_puts(out, place + strlen("{packages}"));
}

char *prompts_system(const struct prompts *prompts, const char *packages, bool fenced)
{
    struct text out = { 0 };

    add_prompt(&out, prompts->texts[PROMPT_PERSONA], packages);
    add_prompt(&out, prompts->texts[fenced ? PROMPT_FENCED : PROMPT_DECIDE], packages);
    add_prompt(&out, prompts->texts[PROMPT_CODE], packages);
    add_prompt(&out, prompts->texts[PROMPT_STORY], packages);
    return text_take(&out);
}
