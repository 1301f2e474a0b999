#include "cli/local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/parse.h"
#include "service/access/data.h"

#include "base/banned.h"

#define POOL_BOXES   2
#define GRACE_US     USEC_PER_SEC
#define UPLOAD_BYTES ((size_t) 256 * 1024)

int local_open_file(const char *path, int *ret_fd, int64_t *ret_size, struct gb_err *err)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char quoted[FORMAT_QUOTED_MAX];
    struct stat st;

    format_quoted(path, quoted);
    if (fd < 0 || fstat(fd, &st) < 0)
        return gb_fail(err, errno, "open %s", quoted);
    if (!S_ISREG(st.st_mode))
        return gb_fail_plain(err, EINVAL, "%s is not a regular file", quoted);
    *ret_fd = TAKE_FD(fd);
    *ret_size = st.st_size;
    return 0;
}

/* ---- opening ---- */

static void on_log(void *arg, enum log_level level, const char *line)
{
    (void) arg;
    if (level <= LOG_LEVEL_WARNING)
        say("%s", line);
}

/* The sources are in the store of the data directory, if there is one. */
static int find_roots(struct local *local, struct gb_err *err)
{
    struct store *store = NULL;
    struct gb_err none = { 0 };
    int r;

    if (cmd_open_store(local->cfg, true, &store, &none) < 0)
        store = NULL;
    r = source_roots_add(local->cfg, store, &local->roots, err);
    store_close(store);
    return r;
}

static int open_service(struct local *local, struct gb_err *err)
{
    const struct config *cfg = local->cfg;
    struct service_config config = { 0 };

    service_config_default(&config);
    config.template = &local->template;
    config.engine.preload = cmd_preload(cfg, &local->template);
    cmd_fill_packages(cfg, &config.packages);
    config.engine.cgroups = (enum cgroup_mode) cfg->cgroups;
    config.engine.landlock = cfg->landlock == LANDLOCK_ON;
    config.engine.pool_boxes = POOL_BOXES;
    config.engine.pool_tenants = true;
    config.data_dir = local->scratch.path;
    config.store = local->store;
    source_roots_fill(&local->roots, &config);
    cmd_fill_limits(cfg, &config.oneshot, cfg->session_disk_bytes);
    cmd_fill_limits(cfg, &config.session, cfg->session_disk_bytes);
    cmd_fill_ceiling(cfg, &config.ceiling);
    config.grace_us = GRACE_US;
    config.log = on_log;
    return service_open(&config, &local->service, err);
}

int local_open(struct local *local, struct gb_err *err)
{
    struct store_config store = { .exclusive = true };
    autofree char *dir = NULL;
    int r = cmd_data_dir(local->cfg, &local->data_dir, err);

    if (r == 0 && local->cfg->sources)
        r = cmd_open_store(local->cfg, true, &local->sources, err);
    if (r < 0 ||
        (r = cmd_default_template(local->cfg, local->data_dir, &local->template, err)) < 0 ||
        (r = cmd_sub_dir(local->cfg, "ask", &dir, err)) < 0 ||
        (r = scratch_open(dir, &local->scratch, err)) < 0 || (r = find_roots(local, err)) < 0)
        return r;
    store.dir = local->scratch.path;
    r = data_open(&store, &local->store, err);
    if (r == 0)
        r = open_service(local, err);
    if (r == 0 && local->cfg->record)
        r = llm_recorder_open(local->cfg->record, &local->recorder, err);
    return r;
}

void local_fill(const struct local *local, struct mark_config *config)
{
    config->service = local->service;
    config->store = local->store;
    config->data_dir = local->scratch.path;
    if (local->sources) {
        config->sources.store = local->sources;
        config->sources.data_dir = local->data_dir;
        config->sources.read_only = true;
    }
    mark_fill(local->cfg, &local->models, config);
    config->models.recorder = local->recorder;
}

int local_open_mark(struct local *local, const struct mark_config *config, struct gb_err *err)
{
    mark_close(local->mark);
    local->mark = NULL;
    return mark_open(config, &local->mark, err);
}

int local_close(struct local *local)
{
    struct gb_err err = { 0 };
    bool recorded = local->recorder != NULL;
    size_t count = 0;
    int r;

    mark_close(local->mark);
    service_close(local->service);
    store_close(local->store);
    store_close(local->sources);
    free(local->data_dir);
    template_entry_release(&local->template);
    scratch_close(&local->scratch);
    source_roots_release(&local->roots);
    r = llm_recorder_close(local->recorder, &count, &err);
    if (r < 0)
        say("%s", err.msg);
    else if (recorded && !local->cfg->quiet)
        say("%zu exchange%s recorded", count, count == 1 ? "" : "s");
    local->recorder = NULL;
    return r;
}

/* ---- files ---- */

static int upload_bytes(struct attachment_upload *upload, int fd, struct fault *fault)
{
    autofree char *buf = malloc(UPLOAD_BYTES);
    ssize_t n;

    if (!buf)
        return fault_no_memory(fault);
    while ((n = io_read_all(fd, buf, UPLOAD_BYTES)) > 0)
        if (attachment_upload_write(upload, buf, (size_t) n, fault) < 0)
            return -1;
    return n < 0 ? fault_set(fault, PROBLEM_INTERNAL, NULL, "cannot read it: %s",
                             strerrordesc_np((int) -n))
                 : 0;
}

int local_attach(struct local *local, const char *path, char **ret_id, struct fault *fault)
{
    struct attachments *attachments = mark_attachments(local->mark);
    struct store_attachment attachment = { 0 };
    struct attachment_upload *upload = NULL;
    const char *slash = strrchr(path, '/');
    autoclose int fd = -EBADF;
    struct gb_err err = { 0 };
    int64_t size = 0;

    if (local_open_file(path, &fd, &size, &err) < 0)
        return fault_set(fault, PROBLEM_INTERNAL, NULL, "%s", err.msg);
    if (attachment_upload_begin(attachments, &local->caller, slash ? slash + 1 : path, size,
                                &upload, fault) < 0)
        return -1;
    if (upload_bytes(upload, fd, fault) < 0) {
        attachment_upload_abort(upload);
        return -1;
    }
    if (attachment_upload_commit(upload, &attachment, fault) < 0)
        return -1;
    *ret_id = strdup(attachment.id);
    store_attachment_release(&attachment);
    return *ret_id ? 0 : fault_no_memory(fault);
}
