/* Finished executions: which of them are kept, and for how long. */
#include "service/execution/execution.h"
#include "service/session/session.h"

#include "base/banned.h"

#define KEPT_FILES_MAX 512 /* descriptors are scarce */

static size_t stream_memory(const struct output_log *log, const struct stream_cut *cut)
{
    bool shared = cut->head == log->mem;

    return log->mem_cap + (shared ? 0 : cut->head_len) + cut->tail_len;
}

static int64_t memory_of(const struct execution *x)
{
    const struct outcome *o = &x->outcome;

    return (int64_t) (sizeof *x + stream_memory(&x->logs[STREAM_OUT], &o->out) +
                      stream_memory(&x->logs[STREAM_ERR], &o->err) + o->outputs_bytes +
                      o->files_len * 128 + x->contacts_len * sizeof *x->contacts);
}

/* With the lock held; the table's reference passes to the caller. */
static void kept_remove(struct service *service, struct execution *x)
{
    TAILQ_REMOVE(&service->kept, x, in_list);
    id_table_remove(&service->executions, &x->node);
    service->kept_len--;
    service->kept_memory -= x->kept_memory;
    service->kept_disk -= x->kept_disk;
    service->kept_files -= x->kept_files;
}

/* With the lock held: the oldest, if there are too many or if it is too old. */
static struct execution *kept_surplus(struct service *service, int64_t now)
{
    const struct service_config *config = &service->config;
    struct execution *x = TAILQ_FIRST(&service->kept);

    if (!x)
        return NULL;
    if (service->kept_len <= config->kept_count &&
        service->kept_memory <= config->kept_memory_bytes &&
        service->kept_disk <= config->kept_disk_bytes && service->kept_files <= KEPT_FILES_MAX &&
        now - x->kept_since_us <= config->kept_us)
        return NULL;
    kept_remove(service, x);
    return x;
}

void execution_sweep(struct service *service)
{
    struct execution *x;

    do {
        pthread_mutex_lock(&service->lock);
        x = kept_surplus(service, service_now(service));
        pthread_mutex_unlock(&service->lock);
        execution_unref(x);
    } while (x);
}

void execution_leave(struct execution *x, bool keep)
{
    struct service *service = x->service;
    struct execution *surplus;

    pthread_mutex_lock(&service->lock);
    TAILQ_REMOVE(&service->live, x, in_list);
    account_give_execution(x->account);
    service->in_flight--;
    if (service->in_flight == 0)
        pthread_cond_broadcast(&service->idle);
    if (keep) {
        x->kept_since_us = service_now(service);
        x->kept_memory = memory_of(x);
        for (size_t i = 0; i < 2; i++)
            if (x->logs[i].fd >= 0) {
                x->kept_disk += x->logs[i].kept;
                x->kept_files++;
            }
        TAILQ_INSERT_TAIL(&service->kept, x, in_list);
        service->kept_len++;
        service->kept_memory += x->kept_memory;
        service->kept_disk += x->kept_disk;
        service->kept_files += x->kept_files;
    } else {
        id_table_remove(&service->executions, &x->node);
    }
    surplus = kept_surplus(service, service_now(service));
    pthread_mutex_unlock(&service->lock);
    if (!keep)
        execution_unref(x);
    /* Usually one comes and one goes; if more have to go, the sweep drops the rest. */
    if (surplus) {
        execution_unref(surplus);
        execution_sweep(service);
    }
}

/* Output of earlier executions counts against the session's quota. Once that is half full, the
 * oldest output is dropped. */
void kept_make_room(struct service *service, struct session *session)
{
    struct output_budget *budget = &session->budget->output;
    struct execution *x, *next;
    struct execution_list gone = TAILQ_HEAD_INITIALIZER(gone);
    int64_t surplus = atomic_load(&budget->disk_used) - budget->disk_max / 2;

    if (surplus <= 0)
        return;
    pthread_mutex_lock(&service->lock);
    for (x = TAILQ_FIRST(&service->kept); x && surplus > 0; x = next) {
        next = TAILQ_NEXT(x, in_list);
        if (x->budget != session->budget || x->kept_files == 0)
            continue;
        surplus -= x->kept_disk;
        kept_remove(service, x);
        TAILQ_INSERT_TAIL(&gone, x, in_list);
    }
    pthread_mutex_unlock(&service->lock);
    for (x = TAILQ_FIRST(&gone); x; x = next) {
        next = TAILQ_NEXT(x, in_list);
        execution_unref(x);
    }
}
