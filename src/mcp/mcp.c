/* The protocol as a whole: opening, stopping, closing. */
#include "mcp/mcp.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/thread.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

void mcp_config_default(struct mcp_config *config)
{
    *config = (struct mcp_config){
        .wall_default_us = 30 * USEC_PER_SEC,
        .wall_max_us = 120 * USEC_PER_SEC,
        .reply_bytes = 10000,
        .peer_idle_us = 3600 * USEC_PER_SEC,
        .peers_max = 4096,
    };
}

int mcp_open(const struct mcp_config *config, struct mcp **ret_mcp, struct gb_err *err)
{
    struct mcp *mcp = calloc(1, sizeof *mcp);

    if (!mcp || sodium_init() < 0) {
        free(mcp);
        return gb_fail(err, ENOMEM, "start MCP");
    }
    mcp->config = *config;
    if (mcp->config.wall_default_us > mcp->config.wall_max_us)
        mcp->config.wall_default_us = mcp->config.wall_max_us;
    randombytes_buf(mcp->state_key, sizeof mcp->state_key);
    pthread_mutex_init(&mcp->lock, NULL);
    cond_init(&mcp->idle);
    mcp->listeners.prev = mcp->listeners.next = &mcp->listeners;
    if (registry_open(mcp) < 0) {
        mcp_close(mcp);
        return gb_fail(err, ENOMEM, "start MCP");
    }
    tools_register(mcp);
    prompts_register(mcp);
    resources_register(mcp);
    if (config->more)
        config->more(mcp);
    *ret_mcp = mcp;
    return 0;
}

void mcp_stop(struct mcp *mcp)
{
    struct mcp_peer *peer;

    if (!mcp)
        return;
    pthread_mutex_lock(&mcp->lock);
    mcp->stopping = true;
    for (struct listener *l = mcp->listeners.next; l != &mcp->listeners; l = l->next)
        outbox_close(l->outbox);
    while ((peer = mcp->peers)) {
        (void) mcp_peer_ref(peer);
        pthread_mutex_unlock(&mcp->lock);
        mcp_peer_end(peer);
        mcp_peer_unref(peer);
        pthread_mutex_lock(&mcp->lock);
    }
    pthread_mutex_unlock(&mcp->lock);
}

void mcp_close(struct mcp *mcp)
{
    if (!mcp)
        return;
    mcp_stop(mcp);
    pthread_mutex_lock(&mcp->lock);
    while (mcp->detached > 0)
        (void) pthread_cond_wait(&mcp->idle, &mcp->lock);
    pthread_mutex_unlock(&mcp->lock);
    registry_close(mcp);
    pthread_cond_destroy(&mcp->idle);
    pthread_mutex_destroy(&mcp->lock);
    free(mcp);
}
