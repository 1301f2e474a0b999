/* The installer box: creates it, and runs the phases of installer.py in it. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/hex.h"
#include "base/text/utf8.h"
#include "egress/egress.h"
#include "service/package/installer_internal.h"
#include "service/session/network.h"

#include "base/banned.h"

#define MIB        (INT64_C(1) << 20)
#define DISK_LEAST (512 * MIB)
#define RESULT_MAX (4 << 20)
#define INDEX_S    15 /* seconds without a byte from the index */

/* ---- what went wrong ---- */

int installer_ours(struct job *job, const char *what, const struct gb_err *err, struct fault *fault)
{
    installer_log(job->installer, LOG_LEVEL_ERROR, "packages: %s: %s", what, err->msg);
    if (err->code == ENOSPC || err->code == EDQUOT)
        return fault_set(fault, PROBLEM_DISK_FULL, NULL,
                         "the disk of the service is full; ask the operator to free space");
    fault_set(fault, PROBLEM_INSTALLER_FAILED, NULL, "%s; try again, or see the server log", what);
    fault->retry_after_s = 5;
    return -1;
}

static const struct {
    const char *kind;
    enum problem problem;
    const char *text; /* one %s: what pip said */
} kinds[] = {
    { "not-found", PROBLEM_PACKAGE_NOT_FOUND,
      "the index has no such package, or none for this Python: %s; check the name" },
    { "no-version", PROBLEM_VERSION_NOT_FOUND, "no such version: %s" },
    { "no-wheel", PROBLEM_NO_WHEEL,
      "the index has no wheel of %s for this Python, and packages are built from source only if "
      "the operator sets --package-builds" },
    { "conflict", PROBLEM_PACKAGE_CONFLICT, "these packages cannot be installed together: %s" },
    { "unreachable", PROBLEM_INDEX_UNREACHABLE, "the package index cannot be reached: %s" },
    { "refused", PROBLEM_INDEX_REFUSED,
      "the package index refers to a host that is not allowed; the operator can allow it with "
      "--package-host: %s" },
    { "too-large", PROBLEM_PACKAGES_TOO_LARGE,
      "these packages are larger than the operator allows with --package-size: %s" },
    { "bad-wheel", PROBLEM_BAD_WHEEL, "invalid wheel: %s" },
    { "hash", PROBLEM_HASH_MISMATCH, "a downloaded file does not match its hash: %s" },
    { "build", PROBLEM_BUILD_FAILED, "the package failed to build: %s" },
    { "no-pip", PROBLEM_NO_PIP, "pip is not installed on the server: install python3-pip%.0s" },
};

void installer_words(const json_t *from, char *buf, size_t size)
{
    const char *text = json_string_value(from);
    size_t n = 0;

    for (; text && *text && n < size - 1; text++)
        buf[n++] = (char) (*text >= ' ' && *text < 0x7f ? *text : ' ');
    buf[n] = '\0';
}

/* If pip is configured with a proxy, the likely cause is that the index cannot be reached without
 * it. */
static int blame_proxy(const struct job *job, struct fault *fault)
{
    enum problem problem = fault->problem;
    int retry_after_s = fault->retry_after_s;

    if (!job->installer->pip->proxy ||
        (problem != PROBLEM_INDEX_UNREACHABLE && problem != PROBLEM_INSTALL_TIMEOUT))
        return -1;
    (void) fault_set(fault, problem, "packages",
                     "the package index cannot be reached: pip is configured with a proxy (proxy, "
                     "PIP_PROXY or HTTPS_PROXY), which is not used here; give the service direct "
                     "access to the index, or set --index-url or --wheels");
    fault->retry_after_s = retry_after_s;
    return -1;
}

int installer_failed(struct job *job, const json_t *answer, struct fault *fault)
{
    const char *kind = json_string_value(json_object_get(answer, "kind"));
    char detail[180];

    installer_words(json_object_get(answer, "detail"), detail, sizeof detail);
    for (size_t i = 0; kind && i < ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].kind, kind) != 0)
            continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        fault_set(fault, kinds[i].problem, "packages", kinds[i].text, detail);
#pragma GCC diagnostic pop
        if (fault->kind == FAULT_UNAVAILABLE)
            fault->retry_after_s = 30;
        return blame_proxy(job, fault);
    }
    return fault_set(fault, PROBLEM_INSTALL_FAILED, "packages", "pip failed: %s", detail);
}

/* ---- the box ---- */

static void limits_fill(struct job *job)
{
    const struct package_config *config = job->installer->config;

    limits_default(&job->limits);
    job->limits.wall_us = config->timeout_us;
    job->limits.cpu_us = 0;
    job->limits.cpu_milli = 2000;
    job->limits.pids = 256;
    job->limits.memory_bytes = 1024 * MIB;
    /* For a wheel and what is in it. Other wheels come in batches. */
    job->limits.disk_bytes = 2 * config->set_bytes + 64 * MIB;
    if (job->limits.disk_bytes > config->set_bytes + 1024 * MIB)
        job->limits.disk_bytes = config->set_bytes + 1024 * MIB;
    job->limits.disk_inodes = 131072;
    job->limits.file_bytes = config->set_bytes;
    if (!job->installer->disk)
        job->limits.memory_bytes += job->limits.disk_bytes;
}

/* An index that the operator configured may have any address, including private ones that are
 * refused otherwise. */
static int allow_addresses(struct egress_policy *policy, const char *host, struct gb_err *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    char name[256], text[NI_MAXHOST];
    size_t len = strlen(host);
    int r = 0;

    snprintf(name, sizeof name, "%s", host[0] == '[' ? host + 1 : host);
    if (host[0] == '[' && len > 1)
        name[len - 2] = '\0';
    if (getaddrinfo(name, NULL, &hints, &list) != 0)
        return 0; /* the proxy reports it */
    for (const struct addrinfo *a = list; a && r == 0; a = a->ai_next)
        if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0)
            r = egress_policy_add_address(policy, text, err);
    freeaddrinfo(list);
    return r;
}

static int allow_host(struct egress_policy *policy, const struct pip_host *host, struct gb_err *err)
{
    struct egress_secret secret = { .host = host->host,
                                    .port = host->port,
                                    .header = "Authorization",
                                    .value = host->authorization };
    char entry[sizeof host->host + 8];
    int r;

    snprintf(entry, sizeof entry, "%s:%u", host->host, host->port);
    r = host->authorization ? egress_policy_add_secret(policy, &secret, NULL, err)
                            : egress_policy_allow(policy, entry, true, err);
    return r < 0 ? r : allow_addresses(policy, host->host, err);
}

/* The host of "name @ scheme://host/…". Like any other host it may not have a private address. */
static int allow_url(struct egress_policy *policy, const char *text, struct gb_err *err)
{
    const char *at = strstr(text, "://");
    char entry[280];
    size_t len = at ? strcspn(at + 3, "/?#") : 0;

    if (len == 0 || len >= sizeof entry - 8)
        return gb_fail_plain(err, EINVAL, "a URL has no host");
    snprintf(entry, sizeof entry, "%.*s", (int) len, at + 3);
    return egress_policy_allow_public(policy, entry, err);
}

static int policy_make(struct job *job, struct egress_policy **ret_policy, struct gb_err *err)
{
    const struct pip_config *pip = job->installer->pip;
    char *const *hosts = job->installer->config->hosts;
    struct egress_policy *policy;
    int r = egress_policy_new(&policy, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < pip->hosts_len && r == 0; i++)
        r = allow_host(policy, &pip->hosts[i], err);
    for (size_t i = 0; hosts && hosts[i] && r == 0; i++)
        r = egress_policy_allow(policy, hosts[i], true, err);
    for (size_t i = 0; i < job->request->len && r == 0; i++)
        if (job->request->items[i].is_url)
            r = allow_url(policy, job->request->items[i].text, err);
    if (r == 0 && job->installer->network)
        r = egress_policy_inherit(policy, job->installer->network, err);
    if (r < 0) {
        egress_policy_free(policy);
        return r;
    }
    *ret_policy = policy;
    return 0;
}

static int network_make(struct job *job, struct gb_err *err)
{
    struct egress_limits limits = { .bytes = 4 * job->installer->config->set_bytes + 64 * MIB,
                                    .idle_us = 2 * INDEX_S * USEC_PER_SEC };
    struct egress_policy *policy = NULL;
    int r = policy_make(job, &policy, err);

    if (r < 0)
        return r;
    /* The policy is empty when all packages are in directories. */
    return network_open(job->installer->egress, job->box, policy, &limits, "installer",
                        &job->network, err);
}

int installer_box_open(struct job *job, struct fault *fault)
{
    const struct box_options options = { .template = job->request->template,
                                         .disk = job->installer->disk };
    const struct pip_config *pip = job->installer->pip;
    struct gb_err err;
    int r;

    limits_fill(job);
    r = box_acquire_with(job->installer->engine, &job->limits, &options, &job->box, &err);
    if (r == -ENOSPC && job->limits.disk_bytes > DISK_LEAST) {
        job->limits.disk_bytes = DISK_LEAST; /* enough for most packages */
        r = box_acquire_with(job->installer->engine, &job->limits, &options, &job->box, &err);
    }
    if (r < 0)
        return installer_ours(job, "could not create an installer box", &err, fault);
    for (unsigned i = 0; pip->dirs[i] && r == 0; i++)
        r = box_mount_shelf(job->box, i + 2, "", i + 1, &err);
    if (r == 0 && pip->cert)
        r = workspace_put(job->box, pip->cert, "cert.pem", &err);
    if (r == 0)
        r = network_make(job, &err);
    job->uv = installer_tool_mount(job->installer, job->box);
    return r < 0 ? installer_ours(job, "could not set up the installer box", &err, fault) : 0;
}

void installer_box_close(struct job *job)
{
    network_close(&job->network);
    box_release(job->box);
    job->box = NULL;
}

/* ---- a phase ---- */

static json_t *strings(char *const *list)
{
    json_t *array = json_array();

    for (; *list; list++)
        (void) json_array_append_new(array, json_string(*list));
    return array;
}

static json_t *wanted_json(const struct install_request *request)
{
    json_t *wanted = json_array();

    for (size_t i = 0; i < request->len; i++)
        (void) json_array_append_new(
            wanted, json_pack("{s:s,s:s,s:b}", "name", request->items[i].name, "text",
                              request->items[i].text, "versioned", request->items[i].versioned));
    return wanted;
}

/* {name: version} of the packages in a record. */
static json_t *pins_json(const json_t *record)
{
    json_t *pins = json_object(), *item;
    size_t i;

    json_array_foreach (json_object_get(record, "packages"), i, item)
        (void) json_object_set(pins, json_string_value(json_object_get(item, "name")),
                               json_object_get(item, "version"));
    return pins;
}

static json_t *wish_make(struct job *job, const char *phase)
{
    const struct pip_config *pip = job->installer->pip;
    const struct install_request *request = job->request;

    return json_pack("{s:s,s:s?,s:o,s:o,s:o,s:b,s:b,s:b,s:b,s:i,s:I,s:s?}", "phase", phase,
                     "index_url", pip->index_url, "extra_indexes", strings(pip->extra_indexes),
                     "find_links", strings(pip->find_links), "trusted_hosts",
                     strings(pip->trusted_hosts), "cert", pip->cert != NULL, "builds",
                     job->installer->config->builds && !request->lock, "newest", request->newest,
                     "isolated", request->isolated, "timeout", INDEX_S, "bytes",
                     (json_int_t) job->installer->config->set_bytes, "uv", job->uv);
}

static json_t *wish_resolve(const struct install_request *request)
{
    return json_pack("{s:o,s:o,s:O?,s:s?}", "requirements", wanted_json(request), "pins",
                     pins_json(request->base), "kept", request->kept, "lock", request->lock);
}

/* ---- its progress ---- */

static void line_take(struct job *job)
{
    const struct install_watch *watch = &job->request->watch;
    struct install_progress progress = { 0 };
    json_t *json = json_loadb(job->line, job->line_len, 0, NULL);
    char name[60], stage[16];

    installer_words(json_object_get(json, "stage"), stage, sizeof stage);
    installer_words(json_object_get(json, "name"), name, sizeof name);
    progress.stage = strcmp(stage, "fetching") == 0    ? INSTALL_FETCHING
                     : strcmp(stage, "unpacking") == 0 ? INSTALL_UNPACKING
                                                       : INSTALL_RESOLVING;
    progress.name = name;
    progress.done = json_integer_value(json_object_get(json, "done"));
    progress.total = json_integer_value(json_object_get(json, "total"));
    progress.bytes = json_integer_value(json_object_get(json, "bytes"));
    progress.bytes_total = json_integer_value(json_object_get(json, "bytes_total"));
    if (json_is_object(json) && progress.done >= 0 && progress.done <= progress.total &&
        progress.total <= INSTALL_ITEMS_MAX && progress.bytes >= 0 && progress.bytes_total >= 0)
        watch->tell(watch->arg, &progress);
    json_decref(json);
}

/* run_sink.write: lines of JSON. What is too long is none of ours. */
static int on_output(void *arg, enum stream stream, const char *data, size_t len)
{
    struct job *job = arg;

    for (size_t i = 0; stream == STREAM_OUT && i < len; i++) {
        if (data[i] != '\n') {
            if (job->line_len < sizeof job->line)
                job->line[job->line_len++] = data[i];
            continue;
        }
        if (job->line_len < sizeof job->line)
            line_take(job);
        job->line_len = 0;
    }
    return 0;
}

static int result_read(struct job *job, struct gb_err *err)
{
    autofree char *text = malloc(RESULT_MAX);
    autoclose int fd = -EBADF;
    ssize_t n;
    int r;

    if (!text)
        return gb_fail(err, ENOMEM, "read the installer's result");
    r = box_open_read(job->box, "result.json", &fd, err);
    if (r < 0)
        return r;
    n = io_read_all(fd, text, RESULT_MAX);
    json_decref(job->result);
    job->result = n < 0 ? NULL : json_loadb(text, (size_t) n, 0, NULL);
    if (!json_is_object(job->result))
        return gb_fail_plain(err, EPROTO, "the installer returned malformed output");
    return box_file_remove(job->box, "result.json", false, err);
}

static int stopped(struct job *job, const struct outcome *outcome, struct fault *fault)
{
    char text[200];

    if (outcome->status == RUN_CANCELLED)
        return fault_set(fault, PROBLEM_INSTALL_CANCELLED, NULL, "the install was cancelled");
    if (outcome->limit == LIMIT_WALL_TIME) {
        (void) fault_set(fault, PROBLEM_INSTALL_TIMEOUT, NULL,
                         "the install took longer than %lld seconds; the package index may not be "
                         "responding, or --package-timeout is too low",
                         (long long) (job->installer->config->timeout_us / USEC_PER_SEC));
        fault->retry_after_s = 30;
        return blame_proxy(job, fault);
    }
    if (outcome->limit == LIMIT_DISK_BYTES || outcome->limit == LIMIT_DISK_INODES ||
        outcome->limit == LIMIT_FILE_SIZE || outcome->limit == LIMIT_MEMORY)
        return fault_set(fault, PROBLEM_PACKAGES_TOO_LARGE, "packages",
                         "these packages are larger than the operator allows with --package-size");
    snprintf(text, sizeof text, "%.*s",
             outcome->err.tail_len ? (int) outcome->err.tail_len : (int) outcome->err.head_len,
             outcome->err.tail_len ? outcome->err.tail
             : outcome->err.head   ? outcome->err.head
                                   : "");
    installer_log(job->installer, LOG_LEVEL_ERROR,
                  "packages: the installer exited with status %d: %s", outcome->exit_code, text);
    return fault_set(fault, PROBLEM_INSTALLER_FAILED, NULL,
                     "the installer failed; see the server log");
}

int installer_phase(struct job *job, const char *phase, json_t *more, struct fault *fault)
{
    json_t *wish = wish_make(job, phase);
    autofree char *input = NULL;
    struct run_spec spec = { .code = installer_program,
                             .code_len = strlen(installer_program),
                             .filename = "<string>",
                             .env = job->network.env,
                             .limits = job->limits,
                             .reply_bytes = 4096,
                             .stdin_fd = -1,
                             .cancel_fd = job->request->cancel_fd };
    struct outcome outcome = { 0 };
    struct gb_err err;
    int r;

    if (wish && more)
        (void) json_object_update(wish, more);
    input = wish ? json_dumps(wish, JSON_COMPACT) : NULL;
    json_decref(more);
    json_decref(wish);
    if (!input)
        return fault_no_memory(fault);
    spec.input = input;
    spec.input_len = strlen(input);
    job->line_len = 0;
    if (job->request->watch.tell)
        spec.sink = (struct run_sink){ .arg = job, .write = on_output };
    spec.limits.wall_us = job->deadline_us - clock_now_us();
    if (spec.limits.wall_us < USEC_PER_MSEC)
        spec.limits.wall_us = USEC_PER_MSEC;
    if (oneshot_run(job->box, &spec, &outcome, &err) < 0)
        return installer_ours(job, "could not run the installer", &err, fault);
    r = outcome.status == RUN_OK && outcome.exit_code == 0 ? 0 : stopped(job, &outcome, fault);
    outcome_release(&outcome);
    if (r < 0)
        return r;
    if (result_read(job, &err) < 0)
        return installer_ours(job, "the installer returned no usable result", &err, fault);
    return json_is_true(json_object_get(job->result, "ok"))
               ? 0
               : installer_failed(job, job->result, fault);
}

/* ---- the whole install ---- */

void installer_job_release(struct job *job)
{
    installer_box_close(job);
    for (size_t i = 0; job->trees && i < json_array_size(job->packages); i++)
        tree_put(&job->trees[i]);
    free(job->trees);
    free(job->abi);
    json_decref(job->result);
    json_decref(job->packages);
    json_decref(job->links);
}

static int job_run(struct job *job, struct install_result *ret_result, struct fault *fault)
{
    struct install_result result = { 0 };
    struct gb_err ignored;

    if (installer_box_open(job, fault) < 0 ||
        installer_phase(job, "resolve", wish_resolve(job->request), fault) < 0 ||
        resolved_take(job, fault) < 0)
        return -1;
    result.present = resolved_present(json_object_get(job->result, "present"));
    result.older = json_incref(json_object_get(job->result, "older"));
    if (json_array_size(job->packages) > 0 &&
        layer_get(job->installer->layers, job->key, &result.layer, &ignored) < 0) {
        if (layer_make(job, &result.layer, fault) < 0) {
            install_result_release(&result);
            return -1;
        }
        result.made = true;
    }
    *ret_result = result;
    return 0;
}

int installer_box_run(struct installer *installer, const struct install_request *request,
                      struct install_result *ret_result, struct fault *fault)
{
    struct job job = { .installer = installer, .request = request };
    int64_t begun = clock_now_us();
    int r;

    installer_tool_fetch(installer, request);
    job.deadline_us = clock_now_us() + installer->config->timeout_us;
    r = job_run(&job, ret_result, fault);
    installer_job_release(&job);
    installer_log(installer, r < 0 ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO,
                  "packages: install took %lld ms: %s",
                  (long long) ((clock_now_us() - begun) / USEC_PER_MSEC),
                  r < 0               ? fault->detail
                  : ret_result->layer ? layer_key(ret_result->layer)
                                      : "already installed");
    return r;
}
