#include "service_harness.h"

#include <sys/mman.h>

#include "base/autoclean.h"
#include "base/io.h"

#include "packages_dir.h"

#include "base/banned.h"

struct engine {
    int boxes;
};

struct box {
    int id;
};

_Atomic int looks;
char look_json[128];

struct resident {
    struct box *box;
    int cells;
    bool dead;
};

struct shell {
    struct box *box;
};

static struct engine fake;
static _Atomic int runs_now;
_Atomic int boxes_live, residents_live, shells_live, runs_most;
_Atomic bool boxes_fail;
static int gate_fd = -1; /* readable while the gate is open */

static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;
char order[4096];

/* ---- the gate ---- */

void gate_open(void)
{
    uint64_t one = 1;

    assert_int_equal(write(gate_fd, &one, sizeof one), sizeof one);
}

void gate_close(void)
{
    uint64_t n;

    (void) !read(gate_fd, &n, sizeof n);
}

/* ---- running ---- */

static void note(const struct run_spec *spec)
{
    pthread_mutex_lock(&order_lock);
    size_t len = strlen(order);
    size_t line =
        strcspn(spec->code, "\n"); /* of a long program the first line tells which it is */
    (void) snprintf(order + len, sizeof order - len, "%.*s;",
                    (int) (line < spec->code_len ? line : spec->code_len), spec->code);
    pthread_mutex_unlock(&order_lock);
}

bool has_run(const char *word)
{
    bool found;

    pthread_mutex_lock(&order_lock);
    found = strstr(order, word) != NULL;
    pthread_mutex_unlock(&order_lock);
    return found;
}

int count_run(const char *word)
{
    int count = 0;

    pthread_mutex_lock(&order_lock);
    for (const char *at = strstr(order, word); at; at = strstr(at + 1, word))
        count++;
    pthread_mutex_unlock(&order_lock);
    return count;
}

static void say(const struct run_spec *spec, enum stream stream, const char *data, size_t len,
                struct stream_cut *cut);

static void ask_service(const struct run_spec *spec, const char *json, struct outcome *outcome)
{
    int fd = spec->ask ? spec->ask(spec->ask_arg, json, strlen(json)) : -1;
    char answer[1000];
    ssize_t n = fd >= 0 ? io_read_all(fd, answer, sizeof answer) : 0;

    say(spec, STREAM_OUT, answer, n > 0 ? (size_t) n : 0, &outcome->out);
    if (fd >= 0)
        (void) close(fd);
}

static void say(const struct run_spec *spec, enum stream stream, const char *data, size_t len,
                struct stream_cut *cut)
{
    assert_int_equal(spec->sink.write(spec->sink.arg, stream, data, len), 0);
    assert_int_equal(spec->reply_bytes, 0); /* the service keeps it */
    cut->left_out += (int64_t) len;
}

static void show(const struct run_spec *spec, struct outcome *outcome)
{
    static const char json[] = "{\"data\": {\"text/plain\": \"shown\"}, \"metadata\": {}}";

    spec->sink.bundle(spec->sink.arg, BUNDLE_DISPLAY, json, sizeof json - 1);
    assert_int_equal(outcome_add_output(outcome, json, sizeof json - 1), 0);
}

/* Lines of "hand JSON" and "bundle JSON". */
static void hand(const struct run_spec *spec, const char *code, struct outcome *outcome)
{
    while (*code) {
        size_t len = strcspn(code, "\n");
        autofree char *json = NULL;
        int n = -1;

        if (strncmp(code, "hand ", 5) == 0)
            n = asprintf(&json,
                         "{\"data\": {\"application/vnd.glovebox.mark+json\": %.*s, "
                         "\"text/plain\": \"handed over\"}, \"metadata\": {}}",
                         (int) len - 5, code + 5);
        else if (strncmp(code, "bundle ", 7) == 0)
            n = asprintf(&json, "{\"data\": %.*s, \"metadata\": {}}", (int) len - 7, code + 7);
        assert_true(n > 0);
        spec->sink.bundle(spec->sink.arg, BUNDLE_DISPLAY, json, (size_t) n);
        assert_int_equal(outcome_add_output(outcome, json, (size_t) n), 0);
        code += len + (code[len] == '\n');
    }
}

/* "raise NAME MESSAGE" */
static void raise_error(const char *words, struct outcome *outcome)
{
    size_t name = strcspn(words, " ");

    outcome->status = RUN_ERROR;
    outcome->exit_code = 1;
    outcome->error_name = strndup(words, name);
    outcome->error_value = strdup(words + name + (words[name] == ' '));
    outcome->error_name_len = name;
    outcome->error_value_len = strlen(outcome->error_value);
}

static void flood(const struct run_spec *spec, long long bytes, struct outcome *outcome)
{
    char piece[10000];

    while (bytes > 0) {
        size_t len = bytes < (long long) sizeof piece ? (size_t) bytes : sizeof piece;

        memset(piece, 'x', len);
        say(spec, STREAM_OUT, piece, len, &outcome->out);
        bytes -= (long long) len;
    }
}

static void wait_for_gate(const struct run_spec *spec, int interrupts, struct outcome *outcome)
{
    struct pollfd fds[] = { { .fd = gate_fd, .events = POLLIN },
                            { .fd = spec->cancel_fd, .events = POLLIN } };
    uint64_t n;

    while (interrupts > 0) {
        assert_true(poll(fds, 2, PATIENCE_US / 1000) > 0);
        if (fds[1].revents) {
            (void) !read(spec->cancel_fd, &n, sizeof n);
            interrupts--;
        } else if (fds[0].revents) {
            return;
        }
    }
    outcome->status = RUN_CANCELLED;
    outcome->exit_code = 130;
}

static void chatter(const struct run_spec *spec, struct outcome *outcome)
{
    struct pollfd fds[] = { { .fd = gate_fd, .events = POLLIN },
                            { .fd = spec->cancel_fd, .events = POLLIN } };
    int64_t give_up = clock_now_us() + PATIENCE_US;

    while (poll(fds, 2, 10) == 0) {
        assert_true(clock_now_us() < give_up);
        say(spec, STREAM_OUT, ".", 1, &outcome->out);
    }
    if (!fds[1].revents)
        return;
    outcome->status = RUN_CANCELLED;
    outcome->exit_code = 130;
}

static int run(struct resident *resident, const struct run_spec *spec, struct outcome *ret_outcome,
               struct gb_err *err)
{
    struct outcome outcome = { .wall_us = 1000, .cpu_us = 500, .processes = 1 };
    autofree char *code = strndup(spec->code, spec->code_len);
    int now;

    assert_non_null(code);
    if (strcmp(code, "gone") == 0 && resident && resident->cells > 0)
        resident->dead = true;
    if (resident && resident->dead)
        return gb_fail_about(err, ECHILD, "the resident");
    if (resident)
        resident->cells++;
    now = atomic_fetch_add(&runs_now, 1) + 1;
    if (now > atomic_load(&runs_most))
        atomic_store(&runs_most, now);
    note(spec);
    if (strncmp(code, "say ", 4) == 0) {
        say(spec, STREAM_OUT, code + 4, strlen(code + 4), &outcome.out);
    } else if (strncmp(code, "warn ", 5) == 0) {
        say(spec, STREAM_ERR, code + 5, strlen(code + 5), &outcome.err);
    } else if (strncmp(code, "flood ", 6) == 0) {
        flood(spec, strtoll(code + 6, NULL, 10), &outcome);
    } else if (strncmp(code, "show ", 5) == 0) {
        say(spec, STREAM_OUT, code + 5, strlen(code + 5), &outcome.out);
        show(spec, &outcome);
        say(spec, STREAM_OUT, "after", 5, &outcome.out);
    } else if (strncmp(code, "hand ", 5) == 0 || strncmp(code, "bundle ", 7) == 0) {
        hand(spec, code, &outcome);
    } else if (strncmp(code, "ask ", 4) == 0) {
        ask_service(spec, code + 4, &outcome);
    } else if (strncmp(code, "raise ", 6) == 0) {
        raise_error(code + 6, &outcome);
    } else if (strcmp(code, "half") == 0) {
        say(spec, STREAM_OUT, "a\xe2\x82", 3, &outcome.out);
        show(spec, &outcome);
        say(spec, STREAM_OUT, "\xac z\xff", 4, &outcome.out);
    } else if (strncmp(code, "wait", 4) == 0) {
        wait_for_gate(spec, 1, &outcome);
    } else if (strcmp(code, "stubborn") == 0) {
        wait_for_gate(spec, 2, &outcome);
    } else if (strcmp(code, "chatter") == 0) {
        chatter(spec, &outcome);
    } else if (strcmp(code, "lose") == 0) {
        say(spec, STREAM_OUT, "bye", 3, &outcome.out);
        outcome.status = RUN_TIMEOUT;
        outcome.limit = LIMIT_WALL_TIME;
        outcome.exit_code = 124;
        outcome.lost = true;
    }
    atomic_fetch_sub(&runs_now, 1);
    if (strcmp(code, "fail") == 0) {
        outcome_release(&outcome);
        return gb_fail_about(err, EIO, "the engine");
    }
    *ret_outcome = outcome;
    return 0;
}

/* ---- the engine's calls ---- */

int engine_open(const struct engine_config *config, struct engine **ret_engine, struct gb_err *err)
{
    (void) config;
    (void) err;
    *ret_engine = &fake;
    return 0;
}

void engine_close(struct engine *engine)
{
    (void) engine;
}

int box_get_usage(struct box *box, struct cgroup_usage *ret, enum limit_kind *ret_disk,
                  struct gb_err *err)
{
    (void) box, (void) ret_disk, (void) err;
    *ret = (struct cgroup_usage){ .memory_bytes = 4096, .pids = 2, .cpu_us = 1500000 };
    return 0;
}

void engine_get_info(struct engine *engine, struct engine_info *ret_info)
{
    (void) engine;
    *ret_info = (struct engine_info){ 0 };
}

int engine_wait_ready(struct engine *engine, struct gb_err *err)
{
    (void) engine;
    (void) err;
    return 0;
}

const char engine_preload_all[] = "numpy pandas";

int engine_template_get(struct engine *engine, const struct template_def *def,
                        struct template **ret_template, struct gb_err *err)
{
    (void) engine;
    (void) def;
    (void) ret_template;
    return gb_fail_plain(err, ENOENT, "this engine has none");
}

struct template *box_get_template(struct box *box)
{
    (void) box;
    return NULL;
}

int engine_template_environment(const struct template *t, char **ret_text)
{
    (void) t;
    (void) ret_text;
    return -EOPNOTSUPP;
}

void engine_template_put(struct template *t)
{
    (void) t;
}

bool engine_template_news(struct engine *engine, struct template *t,
                          struct template_report *ret_report)
{
    (void) engine;
    (void) t;
    (void) ret_report;
    return false;
}

int box_acquire_with(struct engine *engine, const struct limits *limits,
                     const struct box_options *options, struct box **ret_box, struct gb_err *err)
{
    (void) options;
    return box_acquire(engine, limits, ret_box, err);
}

int box_acquire(struct engine *engine, const struct limits *limits, struct box **ret_box,
                struct gb_err *err)
{
    (void) engine;
    (void) limits;
    if (atomic_load(&boxes_fail))
        return gb_fail_about(err, EAGAIN, "no box");
    *ret_box = calloc(1, sizeof **ret_box);
    assert_non_null(*ret_box);
    atomic_fetch_add(&boxes_live, 1);
    return 0;
}

void box_release(struct box *box)
{
    if (!box)
        return;
    atomic_fetch_sub(&boxes_live, 1);
    free(box);
}

int resident_open(struct box *box, char *const *env, struct resident **ret_resident,
                  struct gb_err *err)
{
    (void) env;
    (void) err;
    *ret_resident = calloc(1, sizeof **ret_resident);
    assert_non_null(*ret_resident);
    (*ret_resident)->box = box;
    atomic_fetch_add(&residents_live, 1);
    return 0;
}

int resident_run(struct resident *resident, const struct run_spec *spec,
                 struct outcome *ret_outcome, struct gb_err *err)
{
    return run(resident, spec, ret_outcome, err);
}

/* Code says what happens: "wait" as above but for as long as a look, "lose", "busy", "fail"; other
 * code is the answer. */
int resident_look(struct resident *resident, const struct look_spec *spec, char **ret_json,
                  size_t *ret_len, struct gb_err *err)
{
    autofree char *code = strndup(spec->code, spec->code_len);
    struct pollfd fds[] = { { .fd = gate_fd, .events = POLLIN },
                            { .fd = spec->cancel_fd, .events = POLLIN } };

    assert_non_null(code);
    atomic_fetch_add(&looks, 1);
    (void) snprintf(look_json, sizeof look_json, "%s", spec->json);
    if (strcmp(code, "busy") == 0)
        return gb_fail_plain(err, EBUSY, "busy");
    if (strcmp(code, "fail") == 0)
        return gb_fail_plain(err, EIO, "failed");
    if (strcmp(code, "lose") == 0 || resident->dead)
        return gb_fail_plain(err, ECHILD, "gone");
    if (strcmp(code, "wait") == 0) {
        assert_true(poll(fds, 2, PATIENCE_US / 1000) > 0);
        if (fds[1].revents)
            return gb_fail_plain(err, EBUSY, "busy");
    }
    *ret_len = strlen(code);
    *ret_json = TAKE_PTR(code);
    return 0;
}

void resident_free(struct resident *resident)
{
    if (!resident)
        return;
    atomic_fetch_sub(&residents_live, 1);
    free(resident);
}

int shell_open(struct box *box, char *const *env, struct shell **ret_shell, struct gb_err *err)
{
    (void) env;
    (void) err;
    *ret_shell = calloc(1, sizeof **ret_shell);
    assert_non_null(*ret_shell);
    (*ret_shell)->box = box;
    atomic_fetch_add(&shells_live, 1);
    return 0;
}

int shell_run(struct shell *shell, const struct run_spec *spec, struct outcome *ret_outcome,
              struct gb_err *err)
{
    (void) shell;
    return run(NULL, spec, ret_outcome, err);
}

void shell_free(struct shell *shell)
{
    if (!shell)
        return;
    atomic_fetch_sub(&shells_live, 1);
    free(shell);
}

int box_listen(struct box *box, uint16_t port, int *ret_fd, struct gb_err *err)
{
    (void) box;
    (void) port;
    (void) ret_fd;
    return gb_fail_plain(err, ENOSYS, "these boxes have no network");
}

int box_command(struct box *box, const struct run_spec *spec, char *const *env, const char *cwd,
                struct outcome *ret_outcome, struct gb_err *err)
{
    (void) box;
    (void) env;
    (void) cwd;
    return run(NULL, spec, ret_outcome, err);
}

int oneshot_run(struct box *box, const struct run_spec *spec, struct outcome *ret_outcome,
                struct gb_err *err)
{
    (void) box;
    return run(NULL, spec, ret_outcome, err);
}

/* Files are tested with a real box; these are here to be linked. */
#define NO_FILES return gb_fail_about(err, ENOSYS, "no files here")

int box_mount_shelf(struct box *box, unsigned shelf, const char *name, unsigned place,
                    struct gb_err *err)
{
    (void) box, (void) shelf, (void) name, (void) place, (void) err;
    return 0;
}

int workspace_put(struct box *box, const char *from, const char *name, struct gb_err *err)
{
    (void) box, (void) from, (void) name;
    return gb_fail(err, ENOSYS, "put a file");
}

int box_open_read(struct box *box, const char *path, int *ret_fd, struct gb_err *err)
{
    (void) box;
    (void) path;
    (void) ret_fd;
    NO_FILES;
}

int box_file_stat(struct box *box, const char *path, struct file_info *ret_info, struct gb_err *err)
{
    (void) box;
    (void) path;
    (void) ret_info;
    NO_FILES;
}

int box_file_list(struct box *box, const char *dir, bool recursive, const char *after, size_t limit,
                  struct file_list *ret_list, struct gb_err *err)
{
    (void) box;
    (void) dir;
    (void) recursive;
    (void) after;
    (void) limit;
    (void) ret_list;
    NO_FILES;
}

int box_file_mkdir(struct box *box, const char *path, bool parents, struct gb_err *err)
{
    (void) box;
    (void) path;
    (void) parents;
    NO_FILES;
}

int box_file_remove(struct box *box, const char *path, bool tree, struct gb_err *err)
{
    (void) box;
    (void) path;
    (void) tree;
    NO_FILES;
}

int box_file_rename(struct box *box, const char *from, const char *to, bool replace,
                    struct gb_err *err)
{
    (void) box;
    (void) from;
    (void) to;
    (void) replace;
    NO_FILES;
}

/* Uploads succeed, and what is in them is gone. */
struct upload {
    int fd;
    char *path;
};

int upload_begin(struct box *box, const char *path, mode_t mode, struct upload **ret_upload,
                 struct gb_err *err)
{
    struct upload *upload = calloc(1, sizeof *upload);

    (void) box, (void) mode, (void) err;
    assert_non_null(upload);
    upload->fd = memfd_create("upload", MFD_CLOEXEC);
    upload->path = strdup(path);
    assert_true(upload->fd >= 0 && upload->path);
    *ret_upload = upload;
    return 0;
}

int upload_fd(const struct upload *upload)
{
    return upload->fd;
}

int upload_commit(struct upload *upload, struct gb_err *err)
{
    (void) err;
    pthread_mutex_lock(&order_lock);
    size_t len = strlen(order);
    (void) snprintf(order + len, sizeof order - len, "upload %s;", upload->path);
    pthread_mutex_unlock(&order_lock);
    return 0;
}

void upload_free(struct upload *upload)
{
    if (!upload)
        return;
    (void) close(upload->fd);
    free(upload->path);
    free(upload);
}

void file_info_release(struct file_info *info)
{
    (void) info;
}

void file_list_release(struct file_list *list)
{
    (void) list;
}

/* ---- a service to test ---- */

const struct caller local = { .listener = "test" };
const struct caller alice = { .principal = { PRINCIPAL_KEY, "aaaaaaaaaaaa" },
                              .listener = "test",
                              .limits = { -1, -1, -1 } };
const struct caller bob = { .principal = { PRINCIPAL_KEY, "bbbbbbbbbbbb" },
                            .listener = "test",
                            .limits = { -1, -1, -1 } };

_Atomic int64_t test_now;

static int64_t test_clock(void)
{
    int64_t now = atomic_load(&test_now);

    return now ? now : clock_now_us();
}

static char data_dir[] = "/tmp/glovebox-test-XXXXXX";

void config_init(struct service_config *config)
{
    service_config_default(config);
    config->data_dir = data_dir;
    config->now_us = test_clock;
}

struct service *service_new(const struct service_config *config)
{
    struct service_config fallback;
    struct service *service = NULL;
    struct gb_err err;

    config_init(&fallback);
    order[0] = 0;
    atomic_store(&runs_most, 0);
    if (service_open(config ? config : &fallback, &service, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(service_wait_ready(service, &err), 0);
    return service;
}

/* Closes it and looks whether something was left. */
void service_end(struct service *service)
{
    service_close(service);
    assert_int_equal(atomic_load(&boxes_live), 0);
    assert_int_equal(atomic_load(&residents_live), 0);
    assert_int_equal(atomic_load(&shells_live), 0);
}

struct session *session_new(struct service *service, const struct caller *caller)
{
    struct session_request request;
    struct session *session = NULL;
    struct fault fault;

    session_request_init(&request);
    if (session_create(service, caller, &request, &session, &fault) < 0)
        fail_msg("%s", fault.detail);
    return session;
}

enum run_status status_of(struct execution *x)
{
    enum run_status status;

    pthread_mutex_lock(&x->lock);
    status = x->fault.kind == FAULT_NONE ? x->outcome.status : RUN_SYSTEM;
    pthread_mutex_unlock(&x->lock);
    return status;
}

struct execution_request request_of(const char *code)
{
    struct execution_request request;

    execution_request_init(&request);
    request.code = code;
    request.code_len = strlen(code);
    return request;
}

/* Runs to the end; the fault, if any, in @ret_fault. */
struct execution *run_here(struct service *service, const struct caller *caller,
                           struct session *session, const char *code, struct fault *ret_fault)
{
    struct execution_request request = request_of(code);
    struct execution *x = NULL;

    *ret_fault = (struct fault){ 0 };
    (void) execution_run_here(service, caller, session, &request, &x, ret_fault);
    return x;
}

struct execution *start(struct service *service, const struct caller *caller,
                        struct session *session, const char *code)
{
    struct execution_request request = request_of(code);
    struct execution *x = NULL;
    struct fault fault;

    if (execution_start(service, caller, session, &request, &x, &fault) < 0)
        fail_msg("%s", fault.detail);
    return x;
}

json_t *receipt_of(struct execution *x)
{
    struct fault fault;
    json_t *json = NULL;

    if (execution_receipt(x, &json, &fault) < 0)
        fail_msg("%s", fault.detail);
    return json;
}

void check_text(const json_t *receipt, const char *key, const char *text)
{
    const char *is = json_string_value(json_object_get(receipt, key));

    assert_non_null(is);
    assert_string_equal(is, text);
}

int group_setup(void **state)
{
    (void) state;
    gate_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(gate_fd >= 0);
    assert_non_null(mkdtemp(data_dir));
    return 0;
}

int group_teardown(void **state)
{
    (void) state;
    /* Spilled output has no name: the directory must be empty. */
    packages_remove(data_dir);
    assert_int_equal(rmdir(data_dir), 0);
    close(gate_fd);
    return 0;
}

/* ---- terminals: there are none ---- */

int pty_open(struct box *box, char *const *argv, char *const *env, const char *cwd, uint16_t cols,
             uint16_t rows, struct pty **ret_pty, struct gb_err *err)
{
    (void) box;
    (void) argv;
    (void) env;
    (void) cwd;
    (void) cols;
    (void) rows;
    (void) ret_pty;
    return gb_fail_plain(err, ENOSPC, "no terminals here");
}

int pty_fd(const struct pty *pty)
{
    (void) pty;
    return -1;
}

int pty_pidfd(const struct pty *pty)
{
    (void) pty;
    return -1;
}

int pty_resize(struct pty *pty, uint16_t cols, uint16_t rows)
{
    (void) pty;
    (void) cols;
    (void) rows;
    return 0;
}

int pty_signal(struct pty *pty, int sig, struct gb_err *err)
{
    (void) pty;
    (void) sig;
    (void) err;
    return 0;
}

int pty_end(struct pty *pty, int *ret_exit_code)
{
    (void) pty;
    *ret_exit_code = 0;
    return 0;
}

void pty_free(struct pty *pty)
{
    (void) pty;
}
