/*
 * What a template imports, and what it had to leave out.
 *
 * Theory of operation. A module cannot be un-imported. One that leaves threads, children or open
 * files behind, ends the interpreter or never returns spoils the template that imported it, so the
 * template is started again without it; template.c does that, and this file keeps the account. Each
 * module that is left out costs one more start, so their number is bounded: after that many, the
 * culprit takes along the modules that come after it, which nobody has tried, and what remains has
 * been imported before. The engine remembers the result for as long as it lives, also when the
 * template is unloaded meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "engine/supervisor/supervisor.h"

#include "base/banned.h"

#define CULPRITS_MAX 8
#define SLOW_MAX     2 /* each of these cost the whole waiting time */
#define VERDICTS_MAX 32

/* ---- names ---- */

/* The module with this index; *@ret_len is 0 if there is none. */
static const char *name_at(const char *names, size_t index, size_t *ret_len)
{
    names += strspn(names, " ");
    for (; *names && index > 0; index--) {
        names += strcspn(names, " ");
        names += strspn(names, " ");
    }
    *ret_len = strcspn(names, " ");
    return names;
}

bool preload_has(const struct preload *preload, size_t index)
{
    size_t len;

    (void) name_at(preload->names, index, &len);
    return len > 0;
}

static bool is_noted(const struct preload *preload, const char *name, size_t len)
{
    for (const char *line = preload->left_out; *line; line += strcspn(line, "\n") + 1)
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            return true;
    return false;
}

void preload_note(struct preload *preload, size_t index, const char *why)
{
    size_t used = strlen(preload->left_out), room = sizeof preload->left_out - used, len;
    const char *name = name_at(preload->names, index, &len);

    if (len == 0 || is_noted(preload, name, len) || len + strlen(why) + 4 > room)
        return;
    snprintf(preload->left_out + used, room, "%.*s: %s\n", (int) len, name, why);
}

bool preload_drop(struct preload *preload, size_t index, bool slow, const char *why)
{
    size_t len, all = strlen(preload->names);
    char *name = (char *) name_at(preload->names, index, &len);
    unsigned count = slow ? ++preload->slow : ++preload->culprits;
    bool rest = count >= (slow ? SLOW_MAX : CULPRITS_MAX);

    if (len == 0)
        return false;
    preload_note(preload, index, why);
    for (size_t i = index + 1; rest && preload_has(preload, i); i++)
        preload_note(preload, i, "it was not tried, because too many before it failed");
    if (rest)
        *name = '\0';
    else
        memmove(name, name + len, all - (size_t) (name - preload->names) - len + 1);
    return true;
}

bool preload_drop_all(struct preload *preload, const char *why)
{
    if (!preload_has(preload, 0))
        return false;
    for (size_t i = 0; preload_has(preload, i); i++)
        preload_note(preload, i, why);
    preload->names[0] = '\0';
    return true;
}

/* ---- what the engine remembers ---- */

struct verdict {
    struct verdict *next;
    char *key;
    struct preload preload;
};

/* Different packages at the same path are another template. NULL when out of memory. */
static char *verdict_key(const struct template *t)
{
    struct stat st = { 0 };
    char *key;

    if (t->packages[0] && fstat(t->packages_fd, &st) < 0)
        return NULL;
    if (asprintf(&key, "%s\n%s\n%llu:%llu", t->python, t->preload, (unsigned long long) st.st_dev,
                 (unsigned long long) st.st_ino) < 0)
        return NULL;
    return key;
}

/* Puts the verdict with that key first. templates_lock is held. */
static struct verdict *verdict_find(struct engine *engine, const char *key)
{
    for (struct verdict **at = &engine->verdicts; *at; at = &(*at)->next) {
        struct verdict *verdict = *at;

        if (strcmp(verdict->key, key) == 0) {
            *at = verdict->next;
            verdict->next = engine->verdicts;
            engine->verdicts = verdict;
            return verdict;
        }
    }
    return NULL;
}

static void verdicts_free(struct verdict *verdict)
{
    while (verdict) {
        struct verdict *next = verdict->next;

        free(verdict->key);
        free(verdict);
        verdict = next;
    }
}

static void verdicts_trim(struct engine *engine, size_t keep)
{
    struct verdict **at = &engine->verdicts;

    for (; *at && keep > 0; keep--)
        at = &(*at)->next;
    verdicts_free(*at);
    *at = NULL;
}

void preload_begin(struct template *t)
{
    autofree char *key = verdict_key(t);
    struct verdict *verdict;

    snprintf(t->modules.names, sizeof t->modules.names, "%s", t->preload);
    if (!key)
        return;
    pthread_mutex_lock(&t->engine->templates_lock);
    verdict = verdict_find(t->engine, key);
    if (verdict)
        t->modules = verdict->preload;
    pthread_mutex_unlock(&t->engine->templates_lock);
    t->modules.told = verdict != NULL;
}

void preload_remember(const struct template *t)
{
    char *key = verdict_key(t);
    struct verdict *verdict;

    if (!key)
        return;
    pthread_mutex_lock(&t->engine->templates_lock);
    verdict = verdict_find(t->engine, key);
    if (!verdict && (verdict = calloc(1, sizeof *verdict))) {
        verdict->key = TAKE_PTR(key);
        verdict->next = t->engine->verdicts;
        t->engine->verdicts = verdict;
        verdicts_trim(t->engine, VERDICTS_MAX);
    }
    if (verdict)
        verdict->preload = t->modules;
    pthread_mutex_unlock(&t->engine->templates_lock);
    free(key);
}

void preload_forget_all(struct engine *engine)
{
    verdicts_trim(engine, 0);
}
