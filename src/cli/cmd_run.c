/*
 * `glovebox run`: one program in a fresh box, without a server.
 *
 * All errors in the command line are found before anything is started. Then an engine is opened;
 * while its template imports the modules the program will need, the box is created and filled. The
 * engine lives as long as this process: nothing is left behind for the next one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "cli/cmd.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/terminal/out_stream.h"
#include "engine/engine.h"
#include "service/execution/receipt.h"
#include "service/session/network.h"
#include "service/template/templates.h"

#include "base/banned.h"

struct job {
    const struct config *cfg;
    struct program program;
    struct limits limits;
    char preload[PRELOAD_MAX];
    struct template_entry template;
    struct engine *engine;
    struct box *box;
    struct egress_policy *policy; /* NULL: no network */
    struct egress *egress;
    struct network network; /* of the box */
    struct egress_contact *contacts;
    size_t contacts_len;
    struct snapshot before;
    struct out_streams *streams;
    struct outcome outcome;
    bool progress_shown;
    struct volume_root volume_roots[VOLUMES_MAX];
    struct volume volumes[VOLUMES_MAX];
    char *sources[VOLUMES_MAX]; /* owned */
    size_t volumes_len;
};

/* ---- checks ---- */

static int limits_fill(const struct config *cfg, struct limits *limits, struct gb_err *err)
{
    *limits = cfg->limits;
    if (limits->file_bytes == 0)
        limits->file_bytes = limits->disk_bytes;
    return limits_check(limits, err);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static int check_file(char *const *files, size_t at, int64_t *left, struct gb_err *err)
{
    const char *path = files[at], *name = base_name(path);
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return gb_fail_about(err, errno, "--file: cannot read '%s'", path);
    if (!S_ISREG(st.st_mode))
        return gb_fail_plain(err, EINVAL, "--file: '%s' is not a regular file", path);
    *left -= st.st_size;
    if (*left < 0)
        return gb_fail_plain(err, EFBIG,
                             "--file: '%s' does not fit into the workspace: raise --disk", path);
    for (size_t i = 0; i < at; i++)
        if (strcmp(base_name(files[i]), name) == 0)
            return gb_fail_plain(err, EEXIST, "--file: two files are named '%s'", name);
    return 0;
}

static int check_files(const struct config *cfg, struct gb_err *err)
{
    int64_t left = cfg->limits.disk_bytes;
    int r = 0;

    for (size_t i = 0; cfg->files && cfg->files[i] && r == 0; i++)
        r = check_file(cfg->files, i, &left, err);
    return r;
}

static int check_out(const char *dir, struct gb_err *err)
{
    autofree char *parent = NULL;
    struct stat st;
    char *slash;

    if (!dir)
        return 0;
    if (stat(dir, &st) == 0) {
        if (!S_ISDIR(st.st_mode))
            return gb_fail_plain(err, ENOTDIR, "--out: '%s' is not a directory", dir);
        if (access(dir, W_OK | X_OK) < 0)
            return gb_fail_about(err, errno, "--out: cannot write to '%s'", dir);
        return 0;
    }
    if (errno != ENOENT)
        return gb_fail_about(err, errno, "--out: '%s'", dir);
    parent = strdup(dir);
    if (!parent)
        return gb_fail_about(err, ENOMEM, "--out");
    while ((slash = strrchr(parent, '/')) && slash[1] == '\0' && slash > parent)
        *slash = '\0';
    if (slash)
        slash[slash == parent] = '\0';
    if (access(slash ? parent : ".", W_OK | X_OK) < 0)
        return gb_fail_about(err, errno, "--out: cannot create '%s'", dir);
    return 0;
}

/* The caller of this command is the operator: every directory asked for is allowed. */
static int check_volume(struct job *job, char *text, struct gb_err *err)
{
    size_t at = job->volumes_len;
    struct volume_root *root = &job->volume_roots[at];
    char *place = NULL;

    volume_root_parse(text, root); /* it has the same suffix as an operator's entry */
    for (char *next = text; (next = strstr(next, ":/")); next++)
        place = next;
    if (!place || place == text)
        return gb_fail_plain(err, EINVAL, "--volume: write DIR:PLACE or DIR:PLACE:rw");
    *place++ = '\0';
    job->sources[at] = realpath(text, NULL);
    if (!job->sources[at])
        return gb_fail_about(err, errno, "--volume: '%.100s'", text);
    job->volumes_len++;
    root->path = job->sources[at];
    job->volumes[at] = (struct volume){ root->path, place, root->writable ? VOLUME_RW : VOLUME_RO };
    return 0;
}

static int check_volumes(struct job *job, struct gb_err *err)
{
    struct volume_roots *roots = NULL;
    int r = 0;

    for (char **text = job->cfg->volumes; text && *text && r == 0; text++)
        r = check_volume(job, *text, err);
    if (r < 0 || job->volumes_len == 0)
        return r;
    r = volumes_settle(job->volume_roots, job->volumes_len, job->volumes, job->volumes_len, NULL,
                       err);
    if (r == 0)
        r = volume_roots_open(job->volume_roots, job->volumes_len, &roots, err);
    volume_roots_close(roots);
    return r;
}

/* The default one is prepared only if it is the one to use. */
static int find_template(struct job *job, struct gb_err *err)
{
    const struct config *cfg = job->cfg;
    char name[TEMPLATE_NAME_MAX];
    autofree char *data_dir = NULL;
    int r;

    if ((r = cmd_check_aliases(cfg, err)) < 0)
        return r;
    if ((r = cmd_data_dir(cfg, &data_dir, err)) < 0)
        /* A user without a home directory has no templates either. */
        return strcmp(cfg->template_name, TEMPLATE_DEFAULT) == 0 &&
                       strcmp(cfg->default_template, TEMPLATE_AUTO) == 0
                   ? template_system(&job->template, err)
                   : r;
    if ((r = templates_resolve(data_dir, (const char *const *) cfg->template_aliases,
                               TEMPLATE_DEFAULT, cfg->template_name, name, err)) < 0)
        return r;
    if (strcmp(name, TEMPLATE_DEFAULT) == 0)
        return cmd_default_template(cfg, data_dir, &job->template, err);
    if (strcmp(name, TEMPLATE_SYSTEM) == 0)
        return template_system(&job->template, err);
    r = templates_load(data_dir, name, &job->template, err);
    return r < 0 ? r : template_furnish_from(data_dir, &job->template, err);
}

static int check_job(struct job *job, struct gb_err *err)
{
    const struct config *cfg = job->cfg;
    int r;

    if ((r = network_policy(cfg, cfg->allow_hosts, &job->policy, err)) < 0 ||
        (r = limits_fill(cfg, &job->limits, err)) < 0 || (r = check_files(cfg, err)) < 0 ||
        (r = check_out(cfg->out_dir, err)) < 0 || (r = check_volumes(job, err)) < 0 ||
        (r = program_load(cfg, &job->program, err)) < 0)
        return r;
    if ((r = find_template(job, err)) < 0)
        return r;
    return program_preload(&job->program, cfg->preload, job->template.preload, job->preload,
                           sizeof job->preload, err);
}

/* ---- progress ---- */

static void show_progress(void *arg, unsigned done, unsigned total, const char *name)
{
    struct job *job = arg;

    /* The last step is the standard library, which has no module name. */
    fprintf(stderr, "\r\033[Kglovebox: preloading %s (%u of %u)", name, done + 1, total);
    (void) fflush(stderr);
    job->progress_shown = true;
}

static void hide_progress(struct job *job)
{
    if (job->progress_shown)
        fprintf(stderr, "\r\033[K");
    job->progress_shown = false;
}

/* ---- signals ---- */

static int cancel_pipe[2] = { -1, -1 };
static volatile sig_atomic_t cancel_signal;

static void on_signal(int sig)
{
    int saved = errno;

    cancel_signal = sig;
    (void) !write(cancel_pipe[1], "c", 1);
    errno = saved;
}

/* Until now a signal terminates us, and the builder cleans up. From here on it stops the
 * program. */
static int catch_signals(struct gb_err *err)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigset_t wanted;

    if (pipe2(cancel_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return gb_fail(err, errno, "create a pipe");
    sigemptyset(&wanted);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        struct sigaction before;

        sigaddset(&wanted, signals[i]);
        /* Signals that nohup ignores stay ignored. */
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            (void) sigaction(signals[i], &action, NULL);
    }
    (void) sigprocmask(SIG_UNBLOCK, &wanted, NULL);
    return 0;
}

/* ---- the run ---- */

/* A value of our environment that may go into the box; anything odd is left out. */
static const char *plain_env(const char *name)
{
    const char *value = getenv(name);
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "_+-./@,:<>";

    if (!value || !*value || strlen(value) > 64 || value[0] == '/' || value[0] == ':' ||
        strstr(value, "..") || strspn(value, good) != strlen(value))
        return NULL;
    return value;
}

static int open_engine(struct job *job, struct gb_err *err)
{
    const struct config *cfg = job->cfg;
    const char *lang = plain_env("LC_ALL");
    struct engine_config config = {
        .python = job->template.python,
        .preload = job->preload,
        .binds = (const char *const *) job->template.binds,
        .packages = template_entry_def(&job->template).packages,
        .template_wait_us = cfg->template_wait_us,
        .lang = lang ? lang : plain_env("LANG"),
        .tz = plain_env("TZ"),
        .cgroups = (enum cgroup_mode) cfg->cgroups,
        .landlock = cfg->landlock == LANDLOCK_ON,
        .volume_roots = job->volume_roots,
        .volume_roots_len = job->volumes_len,
        .progress_arg = job,
    };

    if (!cfg->quiet && isatty(STDERR_FILENO))
        config.progress = show_progress;
    return engine_open(&config, &job->engine, err);
}

/* The program as a file: multiprocessing, inspect and tracebacks look for it. A --file of the same
 * name is the same file, or the user's choice. */
static int put_program(struct job *job, struct gb_err *err)
{
    autoclose int fd = -EBADF;
    int r = box_open_new(job->box, job->program.filename, 0644, &fd, err);

    if (r == -EEXIST)
        return 0;
    if (r < 0)
        return r;
    r = io_write_all(fd, job->program.code, job->program.len);
    return r < 0
               ? gb_fail(err, -r, "copy the program into the workspace (a larger --disk may help)")
               : 0;
}

static int open_network(struct job *job, struct gb_err *err)
{
    struct egress_config config = network_config(job->cfg);
    struct egress_limits limits = network_limits(job->cfg);
    int r;

    if (!job->policy)
        return 0;
    if (job->cfg->network_secrets)
        network_no_core();
    config.allow_setting = "--allow-host";
    r = egress_open(&config, &job->egress, err);
    if (r < 0)
        return r;
    return network_open(job->egress, job->box, TAKE_PTR(job->policy), &limits, "run", &job->network,
                        err);
}

static int fill_box(struct job *job, struct gb_err *err)
{
    char *const *files = job->cfg->files;
    bool is_file = !job->cfg->code && strcmp(job->cfg->args[0], "-") != 0;
    struct box_options options = { .volumes = job->volumes, .volumes_len = job->volumes_len };
    int r = box_acquire_with(job->engine, &job->limits, &options, &job->box, err);

    for (; r == 0 && files && *files; files++)
        r = workspace_put(job->box, *files, base_name(*files), err);
    if (r == 0 && is_file)
        r = put_program(job, err);
    if (r == 0 && (job->cfg->files || is_file))
        r = snapshot_take(job->box, &job->before, err);
    return r < 0 ? r : open_network(job, err);
}

/* Only to those who asked for these modules: otherwise nobody would miss them. */
static void tell_left_out(const struct job *job)
{
    bool asked = strcmp(job->cfg->preload, "auto") != 0 && strcmp(job->cfg->preload, "all") != 0;
    struct template_report report;

    if (!asked || job->cfg->quiet || job->cfg->json)
        return;
    engine_template_report(job->engine, NULL, &report);
    cmd_say_left_out(report.left_out);
}

static int run(struct job *job, struct gb_err *err)
{
    const struct config *cfg = job->cfg;
    bool from_stdin = !cfg->code && strcmp(cfg->args[0], "-") == 0;
    struct run_spec spec = {
        .code = job->program.code,
        .code_len = job->program.len,
        .filename = job->program.filename,
        .argv = job->program.argv,
        .cell = cfg->cell,
        .echo = !cfg->json,
        .limits = job->limits,
        .reply_bytes = cfg->json ? (size_t) cfg->reply_bytes : 0,
        .stdin_fd = from_stdin ? -1 : STDIN_FILENO,
        .before = &job->before,
    };
    int r, lost;

    if ((r = open_engine(job, err)) < 0 || (r = fill_box(job, err)) < 0)
        return r;
    r = engine_wait_ready(job->engine, err);
    hide_progress(job);
    if (r < 0 || (r = catch_signals(err)) < 0)
        return r;
    tell_left_out(job);
    spec.env = job->network.env;
    spec.cancel_fd = cancel_pipe[0];
    if (!cfg->json) {
        if (out_streams_new(&job->streams) < 0)
            return gb_fail(err, ENOMEM, "run the program");
        spec.sink = out_streams_sink(job->streams);
    }
    r = oneshot_run(job->box, &spec, &job->outcome, err);
    if (r == 0 && job->network.proxy &&
        egress_take_contacts(job->network.proxy, &job->contacts, &job->contacts_len) < 0)
        r = gb_fail(err, ENOMEM, "list the hosts contacted");
    lost = out_streams_free(job->streams);
    job->streams = NULL;
    /* A program that was still printing failed because of it; one that had already finished did not
     * notice. */
    if (r == 0 && lost < 0 && job->outcome.exit_code == 0)
        r = gb_fail(err, -lost, "write the output");
    if (r == 0 && cfg->out_dir)
        r = workspace_fetch(job->box, job->outcome.files, job->outcome.files_len, cfg->out_dir,
                            err);
    return r;
}

/* ---- afterwards ---- */

static int print_receipt(const struct job *job, struct gb_err *err)
{
    struct receipt_ids ids = { .execution_count = 1,
                               .template = job->template.name,
                               .contacts = job->contacts,
                               .contacts_len = job->contacts_len };
    size_t flags = JSON_REAL_PRECISION(15) | (isatty(STDOUT_FILENO) ? JSON_INDENT(2) : 0);
    char id[40];
    json_t *json;
    int r = receipt_new_id(id, sizeof id);

    if (r < 0)
        return gb_fail(err, -r, "generate an id");
    ids.execution_id = id;
    r = receipt_to_json(&job->outcome, &ids, &json, err);
    if (r < 0)
        return r;
    if (json_dumpf(json, stdout, flags) < 0 || putchar('\n') == EOF || fflush(stdout) != 0)
        r = gb_fail(err, EIO, "print the receipt");
    json_decref(json);
    return r;
}

static void explain_signal(int number)
{
    const char *name = sigabbrev_np(number);

    say("the program was killed by signal %d (%s)", number, name ? name : "?");
}

/* Which limit stopped the run and which option raises it: a signal number would not help anyone. */
static void explain(const struct job *job)
{
    const struct outcome *outcome = &job->outcome;

    if (job->cfg->quiet || job->cfg->json)
        return;
    if (outcome->limit != LIMIT_NONE) {
        say("%s", limit_kind_text(outcome->limit));
        return;
    }
    switch (outcome->status) {
    case RUN_KILLED:
        explain_signal(outcome->exit_code - 128);
        break;
    case RUN_CANCELLED:
        say("cancelled");
        break;
    case RUN_OK:
    case RUN_ERROR:   /* it has printed its own error */
    case RUN_TIMEOUT: /* handled by the limit */
    case RUN_OOM:
    case RUN_PIDS:
    case RUN_DISK:
    case RUN_OUTPUT:
    case RUN_SYSTEM: /* never the status of a run that we saw to its end */
        break;
    }
}

static void job_release(struct job *job)
{
    outcome_release(&job->outcome);
    snapshot_release(&job->before);
    network_close(&job->network);
    egress_close(job->egress);
    egress_policy_free(job->policy);
    free(job->contacts);
    box_release(job->box);
    engine_close(job->engine);
    program_release(&job->program);
    for (size_t i = 0; i < job->volumes_len; i++)
        free(job->sources[i]);
    template_entry_release(&job->template);
}

int cmd_run(const struct config *cfg)
{
    struct job job = { .cfg = cfg };
    struct gb_err err = { 0 };
    int code, r = check_job(&job, &err);

    if (r < 0) {
        say("%s", err.msg);
        job_release(&job);
        return r == -ENOMEM ? EXIT_OURS : EXIT_USAGE;
    }
    r = run(&job, &err);
    hide_progress(&job);
    if (r == 0 && cfg->json)
        r = print_receipt(&job, &err);
    code = r < 0 ? EXIT_OURS : job.outcome.exit_code;
    if (r == 0 && job.outcome.status == RUN_CANCELLED && cancel_signal)
        code = 128 + cancel_signal; /* as a shell expects it of any program */
    if (r < 0)
        say("%s", err.msg);
    else
        explain(&job);
    job_release(&job);
    return code;
}
