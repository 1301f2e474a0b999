/*
 * The templates of an engine.
 *
 * Theory of operation. The first of them, the default one, is started with the engine and stays.
 * Others are created from the definition of a caller (engine_template_get): an existing one with
 * the same definition is used again, otherwise it is started, and the caller waits. Every holder of
 * a template, and every box that belongs to it, counts as a user; those without users are kept as
 * long as there are not too many of them, and then the least recently used one is removed. A
 * changed definition is another template: boxes of the old one keep it.
 *
 * templates_lock protects the list and the users, for a few steps; a template's own lock, which is
 * held while it starts, is never taken under it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/supervisor/supervisor.h"

#include "base/banned.h"

struct template *template_ref(struct template *t)
{
    pthread_mutex_lock(&t->engine->templates_lock);
    t->users++;
    pthread_mutex_unlock(&t->engine->templates_lock);
    return t;
}

/* Removes one that is no longer needed from the list: the least recently used one, if more than
 * @keep have no user; one without users that is not running is not kept at all. */
static struct template *surplus_take(struct engine *engine, unsigned keep)
{
    struct template *oldest = NULL, *t, **at;
    unsigned idle = 0;

    pthread_mutex_lock(&engine->templates_lock);
    for (t = engine->first->next; t; t = t->next) {
        if (t->users > 0)
            continue;
        idle += template_runs(t);
        if (!oldest || !template_runs(t) || (template_runs(oldest) && t->let_go < oldest->let_go))
            oldest = t;
    }
    if (oldest && template_runs(oldest) && idle <= keep)
        oldest = NULL;
    for (at = &engine->first->next; oldest && *at; at = &(*at)->next)
        if (*at == oldest) {
            *at = oldest->next;
            break;
        }
    pthread_mutex_unlock(&engine->templates_lock);
    return oldest;
}

void engine_template_put(struct template *t)
{
    struct engine *engine;
    struct template *gone;

    if (!t)
        return;
    engine = t->engine;
    pthread_mutex_lock(&engine->templates_lock);
    t->users--;
    t->let_go = ++engine->template_clock;
    pthread_mutex_unlock(&engine->templates_lock);
    while ((gone = surplus_take(engine, engine->config.templates_idle)))
        template_free(gone);
}

/* Finds one with the same definition, or adds it; adds a user. */
static struct template *template_take(struct engine *engine, const struct template_def *def)
{
    struct template *t, *made = NULL;

    for (;;) {
        pthread_mutex_lock(&engine->templates_lock);
        for (t = engine->first->next; t && !template_is(t, def); t = t->next)
            ;
        if (!t && made) {
            t = made;
            made = NULL;
            t->next = engine->first->next;
            engine->first->next = t;
        }
        if (t)
            t->users++;
        pthread_mutex_unlock(&engine->templates_lock);
        if (t || !(made = template_new(engine, def)))
            break;
    }
    template_free(made);
    return t;
}

int engine_template_get(struct engine *engine, const struct template_def *def,
                        struct template **ret_template, struct gb_err *err)
{
    struct template *t;
    int r = template_def_check(def, err);

    if (r < 0)
        return r;
    t = template_take(engine, def);
    if (!t)
        return gb_fail(err, ENOMEM, "start a template");
    r = template_wait(t, err);
    if (r < 0) {
        engine_template_put(t);
        return r;
    }
    *ret_template = t;
    return 0;
}

void engine_template_report(struct engine *engine, struct template *t,
                            struct template_report *ret_report)
{
    if (!t)
        t = engine->first;
    pthread_mutex_lock(&t->peer.lock);
    *ret_report = t->report;
    memcpy(ret_report->left_out, t->modules.left_out, sizeof ret_report->left_out);
    pthread_mutex_unlock(&t->peer.lock);
}

bool engine_template_news(struct engine *engine, struct template *t,
                          struct template_report *ret_report)
{
    bool told;

    if (!t)
        t = engine->first;
    engine_template_report(engine, t, ret_report);
    pthread_mutex_lock(&t->peer.lock);
    told = t->modules.told;
    t->modules.told = true;
    pthread_mutex_unlock(&t->peer.lock);
    return !told && ret_report->left_out[0];
}

int engine_template_environment(const struct template *t, char **ret_text)
{
    if (!t->venv_lib[0])
        return -EOPNOTSUPP;
    return asprintf(ret_text, "%s %s %s", t->venv_lib, t->packages, t->preload) < 0 ? -ENOMEM : 0;
}

struct template *box_get_template(struct box *box)
{
    return box->template == box->engine->first ? NULL : template_ref(box->template);
}

int engine_wait_ready(struct engine *engine, struct gb_err *err)
{
    return template_wait(engine->first, err);
}

int templates_open(struct engine *engine, const struct template_def *def, struct gb_err *err)
{
    int r = template_def_check(def, err);

    if (r < 0)
        return r;
    engine->first = template_new(engine, def);
    if (!engine->first)
        return gb_fail(err, ENOMEM, "start the engine");
    engine->first->users = 1;
    return 0;
}

int templates_start(struct engine *engine, struct gb_err *err)
{
    struct template *t = engine->first;
    int r;

    pthread_mutex_lock(&t->peer.lock);
    r = template_begin(t, err);
    pthread_mutex_unlock(&t->peer.lock);
    return r;
}

void templates_close(struct engine *engine)
{
    struct template *next;

    for (struct template *t = engine->first; t; t = next) {
        next = t->next;
        template_free(t);
    }
    engine->first = NULL;
    preload_forget_all(engine);
}

unsigned templates_running(struct engine *engine)
{
    unsigned running = 0;

    pthread_mutex_lock(&engine->templates_lock);
    for (const struct template *t = engine->first; t; t = t->next)
        running += template_runs(t);
    pthread_mutex_unlock(&engine->templates_lock);
    return running;
}
