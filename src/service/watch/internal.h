/* What the files of this room share. */
#pragma once

#include "service/access/audit.h"
#include "service/service_internal.h"
#include "service/session/session.h"
#include "service/watch/sampler.h"
#include "service/watch/watch.h"

#define SAMPLE_US (5 * INT64_C(1000000))
#define SAMPLES   (WATCH_MINUTES_MAX * 60 / 5)
#define ASKED_MAX 256 /* sessions whose memory is measured for one sample */

/* What happened since the sample before, and what there was at its time. -1: unknown. */
struct sample {
    uint32_t buckets[SERVICE_BUCKETS], error, stopped;
    int32_t sessions, running, waiting, boxes_ready;
    int64_t memory_server, memory_boxes, memory_host;
};

struct watch {
    struct service *service;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows; taken alone */
    pthread_cond_t wake;
    bool stopping;
    uint64_t taken; /* samples so far; the last SAMPLES of them are in the ring */
    int64_t taken_unix_us;
    struct sample ring[SAMPLES];

    bool chain_busy; /* somebody verifies a piece */
    bool chain_anew; /* and somebody else wants to begin again meanwhile */
    struct audit_progress chain;
    int64_t chain_begun_us, chain_completed_us; /* of the wall clock; 0: never */
};

/* The memory of a session's box, not older than two seconds; members of -1: unknown. */
struct box_usage watch_usage(struct session *session);

/* Of the host: in use, and in total; -1: unknown. */
void watch_host_memory(int64_t *ret_used, int64_t *ret_total);

const char *watch_principal_kind(const struct principal *principal);
