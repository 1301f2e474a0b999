/*
 * A workspace as tar.gz, sent while it is being packed.
 *
 * The service pushes pieces and the library pulls them, so there is a pipe in between: a thread
 * packs into it, the connection's thread reads from it. When the client disconnects, the reading
 * end is closed and the packing thread ends at its next write. An archive that fails half-way
 * cannot be taken back: the connection is aborted, so that the client sees an incomplete transfer.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "server/handlers.h"
#include "server/server_internal.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

#define PIECE_BYTES 65536

struct archive {
    struct server *server;
    struct MHD_Connection *mhd;
    struct session *session;
    char *dir;
    int read_fd, write_fd;
    pthread_t thread;
    atomic_bool failed;
    struct fault fault; /* read only after the join, or once failed is set */
};

static int archive_write(void *arg, const void *data, size_t len)
{
    struct archive *archive = arg;

    return io_write_all(archive->write_fd, data, len);
}

static void *archive_main(void *arg)
{
    struct archive *archive = arg;

    if (files_archive(archive->session, archive->dir, strlen(archive->dir), archive_write, archive,
                      &archive->fault) < 0)
        atomic_store(&archive->failed, true);
    (void) close(archive->write_fd);
    return NULL;
}

static ssize_t on_read(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct archive *archive = cls;
    ssize_t n;

    (void) pos;
    (void) MHD_set_connection_option(archive->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    do
        n = read(archive->read_fd, buf, max);
    while (n < 0 && errno == EINTR);
    (void) MHD_set_connection_option(archive->mhd, MHD_CONNECTION_OPTION_TIMEOUT,
                                     (unsigned) (archive->server->config.idle_us / USEC_PER_SEC));
    if (n > 0)
        return n;
    return n == 0 && !atomic_load(&archive->failed) ? MHD_CONTENT_READER_END_OF_STREAM
                                                    : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void archive_free(void *cls)
{
    struct archive *archive = cls;

    (void) close(archive->read_fd);
    pthread_join(archive->thread, NULL);
    session_unref(archive->session);
    free(archive->dir);
    free(archive);
}

/* Takes @session, even on failure. */
static struct archive *archive_start(struct request *rq, struct session *session, const char *dir)
{
    struct archive *archive = calloc(1, sizeof *archive);
    int fds[2] = { -1, -1 };

    if (archive)
        archive->dir = strdup(dir);
    if (!archive || !archive->dir || pipe2(fds, O_CLOEXEC) < 0)
        goto fail;
    archive->server = rq->server;
    archive->mhd = rq->mhd;
    archive->session = session;
    archive->read_fd = fds[0];
    archive->write_fd = fds[1];
    if (pthread_create(&archive->thread, NULL, archive_main, archive) == 0)
        return archive;
    (void) close(fds[0]);
    (void) close(fds[1]);
fail:
    session_unref(session);
    if (archive)
        free(archive->dir);
    free(archive);
    return NULL;
}

/* A refusal needs its own status, so wait for the first bytes. */
static bool archive_begins(struct archive *archive)
{
    struct pollfd p = { archive->read_fd, POLLIN, 0 };

    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
    return p.revents & POLLIN || !atomic_load(&archive->failed);
}

void v1_files_archive(struct request *rq)
{
    struct MHD_Response *response;
    struct archive *archive;
    struct query_dir query;
    struct session *session;

    if (request_query(rq, &query) < 0 || request_session(rq, &session) < 0)
        return;
    archive = archive_start(rq, session, query.dir ? query.dir : "");
    if (!archive) {
        reply_problem(rq, PROBLEM_NO_RESOURCES, "try again later");
        return;
    }
    if (!archive_begins(archive)) {
        struct fault fault = archive->fault;

        archive_free(archive);
        reply_fault(rq, &fault);
        return;
    }
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE_BYTES, on_read, archive,
                                                 archive_free);
    if (!response) {
        archive_free(archive);
        return;
    }
    reply_header(response, "Content-Type", "application/gzip");
    reply_header(response, "Content-Disposition", "attachment; filename=\"workspace.tar.gz\"");
    reply_send(rq, MHD_HTTP_OK, response);
}
