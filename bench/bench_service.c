/*
 * The service, measured next to its peers in one run.
 *
 * session: `result = 2 + 2` in a warm session, one connection, against bench/peer.py: FastAPI and
 * uvicorn that exec() in their own process.
 *
 * rate: sixteen connections on sixteen sessions, against sixteen connections to the peer.
 *
 * oneshot: a program in a fresh box over HTTP, against the engine itself with a pooled tenant.
 *
 * many: a thousand sessions that each ran a pandas cell: memory, and what an execution takes.
 *
 * files: 1 GB up and down, against nginx with the same file on the same kind of file system.
 *
 * Neither server logs requests. Machines are noisy, so only ratios within one run count, and rounds
 * are interleaved so that a slow moment affects all alike.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "bench/kit.h"
#include "engine/builder.h"
#include "engine/engine.h"

#include "base/banned.h"

#define CODE "result = 2 + 2"
#define PANDAS_CODE                                                                                \
    "import numpy as np, pandas as pd\\n"                                                          \
    "df = pd.DataFrame({'a': np.arange(1000), 'b': np.arange(1000) % 7})\\n"                       \
    "print(df.groupby('b').a.sum().sum())"
#define ONESHOT_CODE "import numpy as np, pandas as pd\nprint(int(np.arange(1000).sum()))\n"
#define ONESHOT_JSON "import numpy as np, pandas as pd\\nprint(int(np.arange(1000).sum()))\\n"

#define WARM         200
#define LATENCY_RUNS 3000
#define LATENCY_TURN 100 /* first of one server, then of the other */
#define CONNECTIONS  16
#define RATE_SECONDS 3
#define RATE_ROUNDS  2
#define ONESHOT_RUNS 60
#define MANY         1000
#define MANY_SAMPLES 2000
#define MANY_TURN    100
#define REST_US      20000
#define MANY_BODY    "{\"code\":\"" CODE "\"}"
#define FILE_BYTES   INT64_C(1000000000)
#define FILE_ROUNDS  3
#define POOL         8

struct server {
    pid_t pid;
    int port;
};

struct bench {
    char dir[64];
    char *glovebox; /* the binary next to us */
    char *peer_py;
    struct server serve, peer;
    json_t *result;
    int missed;
};

/* ---- starting and stopping ---- */

static char *in_dir(const struct bench *bench, const char *name)
{
    char *path;

    if (asprintf(&path, "%s/%s", bench->dir, name) < 0)
        die("memory", NULL);
    return path;
}

/* Waits until @pid has written a port to @path. */
static int read_port(const char *path, pid_t pid, const char *name)
{
    char text[32] = "";

    for (;;) {
        FILE *file = fopen(path, "re");
        int status;

        if (file) {
            bool got = fgets(text, sizeof text, file) != NULL;

            (void) fclose(file);
            if (got)
                return (int) strtol(text, NULL, 10);
        }
        if (waitpid(pid, &status, WNOHANG) == pid)
            die(name, "it ended; see its log");
        (void) usleep(10000);
    }
}

/* @name tells two of them apart. */
static void serve_start(const struct bench *bench, const char *name, struct server *ret_server)
{
    autofree char *data = in_dir(bench, name), *port = NULL, *log = NULL;
    struct server server;

    if (asprintf(&port, "%s.port", data) < 0 || asprintf(&log, "%s.log", data) < 0)
        die("memory", NULL);
    char *argv[] = { bench->glovebox,
                     (char *) "serve",
                     (char *) "--listen",
                     (char *) "127.0.0.1:0",
                     (char *) "--port-file",
                     port,
                     (char *) "--data",
                     data,
                     (char *) "--preload",
                     (char *) "all",
                     (char *) "--max-sessions",
                     (char *) "1200",
                     (char *) "--log-level",
                     (char *) "warning",
                     NULL };
    server.pid = process_start(argv, log);
    server.port = read_port(port, server.pid, "glovebox serve");
    *ret_server = server;
}

static void peer_start(struct bench *bench)
{
    autofree char *port = in_dir(bench, "peer.port"), *log = in_dir(bench, "peer.log");
    char *argv[] = { (char *) "/usr/bin/python3", bench->peer_py, port, NULL };

    bench->peer.pid = process_start(argv, log);
    bench->peer.port = read_port(port, bench->peer.pid, "peer.py");
}

static void session_new(struct http *http, const char *wish, char *path, size_t size)
{
    char id[64];

    http_ask(http, "POST", "/v1/sessions", wish, 201);
    http_member(http, "session_id", id, sizeof id);
    snprintf(path, size, "/v1/sessions/%s/execute", id);
}

static void session_end(struct http *http, char *path)
{
    *strrchr(path, '/') = '\0';
    http_ask(http, "DELETE", path, NULL, 0);
}

/* One line of the table: our value, the goal, and whether it was reached. */
static void verdict(struct bench *bench, const char *name, double value, bool at_least,
                    double target)
{
    bool good = at_least ? value >= target : value <= target;

    printf("  %-44s %10.2f   goal %s %.2f   %s\n", name, value, at_least ? "≥" : "≤", target,
           good ? "yes" : "NO");
    bench->missed += !good;
}

/* ---- an execution in a warm session ---- */

static void one(struct http *http, const char *path, const char *body, struct samples *samples)
{
    int64_t start = clock_now_us();

    http_ask(http, "POST", path, body, 200);
    if (samples)
        sample_add(samples, clock_now_us() - start);
    if (!strstr(http->body, "\"success\":true"))
        die("execution", http->body);
}

static void latency(struct bench *bench)
{
    static const char body[] = "{\"code\":\"" CODE "\"}";
    static const char peer_body[] = "{\"code\":\"" CODE "\",\"session_id\":\"a\"}";
    struct samples ours = { 0 }, theirs = { 0 };
    struct http http, peer;
    double p50, p99, peer50, peer99;
    char path[128];

    http_open(&http, bench->serve.port);
    http_open(&peer, bench->peer.port);
    session_new(&http, NULL, path, sizeof path);
    for (int i = 0; i < WARM; i++) {
        one(&http, path, body, NULL);
        one(&peer, "/execute", peer_body, NULL);
    }
    for (int i = 0; i < LATENCY_RUNS; i += LATENCY_TURN) {
        for (int k = 0; k < LATENCY_TURN; k++)
            one(&http, path, body, &ours);
        for (int k = 0; k < LATENCY_TURN; k++)
            one(&peer, "/execute", peer_body, &theirs);
    }
    session_end(&http, path);
    http_close(&http);
    http_close(&peer);
    p50 = percentile_ms(&ours, 0.5), p99 = percentile_ms(&ours, 0.99);
    peer50 = percentile_ms(&theirs, 0.5), peer99 = percentile_ms(&theirs, 0.99);
    printf("session  p50 %.3f ms, p99 %.3f ms; peer p50 %.3f ms, p99 %.3f ms\n", p50, p99, peer50,
           peer99);
    verdict(bench, "p50 against the peer's", p50 / peer50, false, 0.6);
    json_object_set_new(bench->result, "session",
                        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "p50_ms", p50, "p99_ms", p99,
                                  "peer_p50_ms", peer50, "peer_p99_ms", peer99, "p50_ratio",
                                  p50 / peer50, "target", 0.6));
    samples_release(&ours);
    samples_release(&theirs);
}

/* ---- sixteen connections ---- */

struct client {
    int port;
    bool peer;
    int number;
    int64_t until_us, count;
    pthread_barrier_t *start;
};

static void *client_main(void *arg)
{
    struct client *client = arg;
    char path[128] = "/execute", body[128];
    struct http http;

    http_open(&http, client->port);
    if (!client->peer)
        session_new(&http, NULL, path, sizeof path);
    if (client->peer)
        snprintf(body, sizeof body, "{\"code\":\"" CODE "\",\"session_id\":\"r%d\"}",
                 client->number);
    else
        snprintf(body, sizeof body, "{\"code\":\"" CODE "\"}");
    for (int i = 0; i < 20; i++)
        one(&http, path, body, NULL);
    pthread_barrier_wait(client->start);
    client->until_us = clock_now_us() + RATE_SECONDS * USEC_PER_SEC;
    while (clock_now_us() < client->until_us) {
        one(&http, path, body, NULL);
        client->count++;
    }
    pthread_barrier_wait(client->start); /* deleting a session must not affect the others */
    if (!client->peer)
        session_end(&http, path);
    http_close(&http);
    return NULL;
}

static double rate_of(int port, bool peer)
{
    struct client clients[CONNECTIONS];
    pthread_t threads[CONNECTIONS];
    pthread_barrier_t start;
    int64_t sum = 0;

    pthread_barrier_init(&start, NULL, CONNECTIONS);
    for (int i = 0; i < CONNECTIONS; i++) {
        clients[i] = (struct client){ .port = port, .peer = peer, .number = i, .start = &start };
        if (pthread_create(&threads[i], NULL, client_main, &clients[i]) != 0)
            die("thread", NULL);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        pthread_join(threads[i], NULL);
        sum += clients[i].count;
    }
    pthread_barrier_destroy(&start);
    return (double) sum / RATE_SECONDS;
}

static void rate(struct bench *bench)
{
    double ours = 0, theirs = 0;

    for (int i = 0; i < RATE_ROUNDS; i++) {
        theirs += rate_of(bench->peer.port, true) / RATE_ROUNDS;
        ours += rate_of(bench->serve.port, false) / RATE_ROUNDS;
    }
    printf("rate     %.0f executions/s on %d sessions; peer %.0f/s\n", ours, CONNECTIONS, theirs);
    verdict(bench, "rate against the peer's", ours / theirs, true, 3);
    json_object_set_new(bench->result, "rate",
                        json_pack("{s:f, s:f, s:f, s:f}", "per_s", ours, "peer_per_s", theirs,
                                  "ratio", ours / theirs, "target", 3.0));
}

/* ---- one-shots ---- */

static struct engine *engine_start(const struct limits *limits)
{
    struct engine_config config = { .preload = engine_preload_all,
                                    .cgroups = CGROUP_AUTO,
                                    .landlock = true,
                                    .pool_boxes = POOL,
                                    .pool_tenants = true,
                                    .pool_limits = *limits };
    struct engine *engine;
    struct gb_err err;

    if (engine_open(&config, &engine, &err) < 0 || engine_wait_ready(engine, &err) < 0)
        die("engine", err.msg);
    return engine;
}

static void engine_one(struct engine *engine, const struct limits *limits, struct samples *samples)
{
    char *argv[] = { (char *) "", NULL };
    struct run_spec spec = { .code = ONESHOT_CODE,
                             .code_len = strlen(ONESHOT_CODE),
                             .filename = "<cell>",
                             .cell = true,
                             .argv = argv,
                             .limits = *limits,
                             .reply_bytes = 4096,
                             .stdin_fd = -1,
                             .cancel_fd = -1 };
    int64_t start = clock_now_us();
    struct outcome outcome;
    struct gb_err err;
    struct box *box;

    if (box_acquire(engine, limits, &box, &err) < 0 || oneshot_run(box, &spec, &outcome, &err) < 0)
        die("box", err.msg);
    sample_add(samples, clock_now_us() - start);
    if (outcome.status != RUN_OK)
        die("box", "the cell failed");
    outcome_release(&outcome);
    box_release(box);
}

static void oneshot(struct bench *bench)
{
    static const char body[] = "{\"code\":\"" ONESHOT_JSON "\"}";
    struct samples ours = { 0 }, engines = { 0 };
    double p50, p99, engine50, most;
    struct engine *engine;
    struct limits limits;
    struct http http;

    limits_default(&limits);
    engine = engine_start(&limits);
    http_open(&http, bench->serve.port);
    (void) sleep(1); /* until the pools are full */
    for (int i = 0; i < ONESHOT_RUNS; i++) {
        (void) usleep(50000); /* time to fill the pool, which is meant for occasional requests */
        one(&http, "/v1/execute", body, &ours);
        (void) usleep(50000);
        engine_one(engine, &limits, &engines);
    }
    http_close(&http);
    engine_close(engine);
    p50 = percentile_ms(&ours, 0.5), p99 = percentile_ms(&ours, 0.99);
    engine50 = percentile_ms(&engines, 0.5);
    most = 1.3 * engine50 > 1.5 ? 1.3 * engine50 : 1.5;
    printf("oneshot  p50 %.3f ms, p99 %.3f ms; the engine itself p50 %.3f ms\n", p50, p99,
           engine50);
    verdict(bench, "p50 in ms", p50, false, most);
    json_object_set_new(bench->result, "oneshot",
                        json_pack("{s:f, s:f, s:f, s:f}", "p50_ms", p50, "p99_ms", p99,
                                  "engine_p50_ms", engine50, "target_ms", most));
    samples_release(&ours);
    samples_release(&engines);
}

/* ---- many sessions ---- */

/* An execution in the only session of a server, and in one among many; alternately, so that a slow
 * moment affects all alike. If another of the many is used each time, everything it touches has
 * left the caches; the same is true of a lone session that has rested. */
struct many_p50 {
    double alone, among, across, rested;
};

static struct many_p50 many_measure(struct http *alone, const char *alone_path, struct http *http,
                                    char (*paths)[128], size_t count)
{
    struct samples samples[4] = { 0 };
    struct many_p50 p50;

    for (size_t i = 0; i < MANY_SAMPLES; i++) {
        bool warm = i % MANY_TURN < MANY_TURN / 5; /* each is warmed up before it counts */

        one(alone, alone_path, MANY_BODY, warm ? NULL : &samples[0]);
        if (i % MANY_TURN != MANY_TURN - 1)
            continue;
        for (size_t k = 0; k < MANY_TURN; k++)
            one(http, paths[0], MANY_BODY, k < MANY_TURN / 5 ? NULL : &samples[1]);
        for (size_t k = 0; k < MANY_TURN; k++)
            one(http, paths[(i + k) * 7919 % count], MANY_BODY, &samples[2]);
        for (size_t k = 0; k < MANY_TURN / 10; k++) {
            (void) usleep(REST_US);
            one(alone, alone_path, MANY_BODY, &samples[3]);
        }
    }
    p50.alone = percentile_ms(&samples[0], 0.5);
    p50.among = percentile_ms(&samples[1], 0.5);
    p50.across = percentile_ms(&samples[2], 0.5);
    p50.rested = percentile_ms(&samples[3], 0.5);
    for (size_t i = 0; i < 4; i++)
        samples_release(&samples[i]);
    return p50;
}

/* BENCH_SESSIONS is for machines that cannot hold a thousand. */
static size_t many_count(void)
{
    const char *text = getenv("BENCH_SESSIONS");
    long count = text ? strtol(text, NULL, 10) : 0;

    return count > 0 && count < MANY ? (size_t) count : MANY;
}

static void many_make(struct http *http, char (*paths)[128], size_t count)
{
    static const char pandas[] = "{\"code\":\"" PANDAS_CODE "\",\"timeout\":60}";

    for (size_t i = 0; i < count; i++) {
        session_new(http, NULL, paths[i], sizeof paths[i]);
        one(http, paths[i], pandas, NULL);
        one(http, paths[i], MANY_BODY, NULL);
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r\033[K%zu sessions", i + 1);
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

static void many(struct bench *bench)
{
    size_t sessions = many_count(), processes;
    char(*paths)[128] = calloc(sessions, sizeof *paths), alone_path[1][128];
    struct server lonely = { 0 };
    struct http http, alone;
    struct many_p50 p50;
    double gb, make_ms;
    int64_t start;

    if (!paths)
        die("memory", NULL);
    serve_start(bench, "lonely", &lonely);
    http_open(&alone, lonely.port);
    many_make(&alone, alone_path, 1);
    http_open(&http, bench->serve.port);
    start = clock_now_us();
    many_make(&http, paths, sessions);
    make_ms = (double) (clock_now_us() - start) / 1000 / (double) sessions;
    gb = (double) tree_kib(bench->serve.pid, &processes) * 1024 / 1e9;
    http_close(&alone); /* it may have been closed after so long without use */
    http_open(&alone, lonely.port);
    p50 = many_measure(&alone, alone_path[0], &http, paths, sessions);
    for (size_t i = 0; i < sessions; i++)
        session_end(&http, paths[i]);
    http_close(&http);
    http_close(&alone);
    process_stop(lonely.pid, "glovebox serve");
    free(paths);
    printf("many     %zu sessions, %zu processes, %.1f ms to make one and run a pandas cell;\n"
           "         an execution p50 %.3f ms alone, %.3f ms in one among all;\n"
           "         out of the caches: %.3f ms alone, %.3f ms in another session each time\n",
           sessions, processes, make_ms, p50.alone, p50.among, p50.rested, p50.across);
    verdict(bench, "memory of server and boxes in GB", gb, false, 10);
    verdict(bench, "p50 in one among all against alone", p50.among / p50.alone, false, 1.3);
    verdict(bench, "p50 out of the caches, the same", p50.across / p50.rested, false, 1.3);
    json_object_set_new(bench->result, "many",
                        json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "sessions",
                                  (json_int_t) sessions, "memory_gb", gb, "make_ms", make_ms,
                                  "alone_p50_ms", p50.alone, "among_p50_ms", p50.among,
                                  "across_p50_ms", p50.across, "rested_p50_ms", p50.rested));
}

/* ---- files ---- */

static int free_port(void)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof addr;

    if (fd < 0 || bind(fd, (const struct sockaddr *) &addr, len) < 0 ||
        getsockname(fd, (struct sockaddr *) &addr, &len) < 0)
        die("port", NULL);
    (void) close(fd);
    return ntohs(addr.sin_port);
}

/* nginx as its package configures it (sendfile, one worker), with PUT. */
static pid_t nginx_start(const char *dir, int port)
{
    char *argv[] = { (char *) "nginx",      (char *) "-p", (char *) dir,         (char *) "-c",
                     (char *) "nginx.conf", (char *) "-e", (char *) "error.log", NULL };
    char path[256];
    struct stat st;
    FILE *file;
    pid_t pid;

    snprintf(path, sizeof path, "%s/root", dir);
    (void) mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/nginx.conf", dir);
    file = fopen(path, "we");
    if (!file)
        die(path, NULL);
    fprintf(file,
            "daemon off; master_process off; pid nginx.pid;\n"
            "events { }\n"
            "http { access_log off; sendfile on; tcp_nopush on; client_max_body_size 0;\n"
            "  client_body_temp_path body; proxy_temp_path p; fastcgi_temp_path f;\n"
            "  uwsgi_temp_path u; scgi_temp_path s;\n"
            "  server { listen 127.0.0.1:%d; root root; location / { dav_methods PUT; } } }\n",
            port);
    (void) fclose(file);
    pid = process_start(argv, NULL);
    snprintf(path, sizeof path, "%s/nginx.pid", dir);
    while (stat(path, &st) < 0 || st.st_size == 0) /* it listens before it writes this */
        if (waitpid(pid, NULL, WNOHANG) == pid)
            die("nginx", "it did not start");
        else
            (void) usleep(10000);
    return pid;
}

static int file_make(const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char piece[64 * 1024];

    if (fd < 0)
        die(dir, NULL);
    for (size_t i = 0; i < sizeof piece; i++)
        piece[i] = (char) (i * 31 + i / 256);
    for (int64_t at = 0; at < FILE_BYTES;) {
        size_t want =
            FILE_BYTES - at < (int64_t) sizeof piece ? (size_t) (FILE_BYTES - at) : sizeof piece;
        ssize_t n = write(fd, piece, want);

        if (n <= 0)
            die("file", NULL);
        at += n;
    }
    return fd;
}

/* The server's peak memory is measured from now on. */
static int64_t peak_reset(pid_t pid)
{
    char path[64];
    int fd;

    snprintf(path, sizeof path, "/proc/%d/clear_refs", (int) pid);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "5", 1) != 1)
        die(path, NULL);
    (void) close(fd);
    return process_kib(pid, "status", "VmRSS:");
}

static double gb_per_s(struct samples *samples)
{
    return (double) FILE_BYTES / 1e6 / percentile_ms(samples, 0.5);
}

/* Workspaces are in memory or on disk; nginx and the file get the same. */
static const char *like_workspace(struct bench *bench, struct http *http, const char *path)
{
    http_ask(http, "POST", path,
             "{\"code\":\"print([l.split()[2] for l in open('/proc/mounts') "
             "if l.split()[1] == '/workspace'][-1])\"}",
             200);
    return strstr(http->body, "tmpfs") ? "/dev/shm" : bench->dir;
}

static void transfer(struct http *ours, struct http *theirs, const char *path, int file,
                     struct samples samples[4])
{
    sample_add(&samples[0], http_send_file(ours, path, file, FILE_BYTES));
    sample_add(&samples[1], http_send_file(theirs, "/f", file, FILE_BYTES));
    sample_add(&samples[2], http_read_file(ours, path, FILE_BYTES));
    sample_add(&samples[3], http_read_file(theirs, "/f", FILE_BYTES));
    /* Removed before the next one, so that there is never more than one in memory. */
    http_ask(ours, "DELETE", path, NULL, 0);
}

static void remove_tree(const char *dir)
{
    char *argv[] = { (char *) "rm", (char *) "-rf", (char *) dir, NULL };

    process_wait(process_start(argv, NULL), "rm");
}

static void files(struct bench *bench)
{
    struct samples samples[4] = { 0 };
    int port = free_port(), file;
    char path[160], dir[128];
    int64_t before, growth;
    struct http ours, theirs;
    double up, up_peer, down, down_peer;
    pid_t nginx;

    http_open(&ours, bench->serve.port);
    session_new(&ours, "{\"limits\":{\"disk\":\"2g\"}}", path, sizeof path);
    snprintf(dir, sizeof dir, "%s/glovebox-nginx.XXXXXX", like_workspace(bench, &ours, path));
    if (!mkdtemp(dir))
        die(dir, NULL);
    file = file_make(dir);
    nginx = nginx_start(dir, port);
    http_open(&theirs, port);
    snprintf(strrchr(path, '/'), 16, "/files/f");
    before = peak_reset(bench->serve.pid);
    for (int i = 0; i < FILE_ROUNDS; i++)
        transfer(&ours, &theirs, path, file, samples);
    growth = process_kib(bench->serve.pid, "status", "VmHWM:") - before;
    *strstr(path, "/files/f") = '\0';
    http_ask(&ours, "DELETE", path, NULL, 0);
    http_close(&ours);
    http_close(&theirs);
    (void) close(file);
    process_stop(nginx, "nginx");
    remove_tree(dir);
    up = gb_per_s(&samples[0]), up_peer = gb_per_s(&samples[1]);
    down = gb_per_s(&samples[2]), down_peer = gb_per_s(&samples[3]);
    printf("files    up %.2f GB/s, down %.2f GB/s; nginx %.2f and %.2f GB/s\n", up, down, up_peer,
           down_peer);
    verdict(bench, "upload against nginx", up / up_peer, true, 0.5);
    verdict(bench, "download against nginx", down / down_peer, true, 0.5);
    verdict(bench, "growth of the server's memory in MB", (double) growth * 1024 / 1e6, false, 16);
    json_object_set_new(bench->result, "files",
                        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "up_gb_s", up,
                                  "nginx_up_gb_s", up_peer, "down_gb_s", down, "nginx_down_gb_s",
                                  down_peer, "up_ratio", up / up_peer, "down_ratio",
                                  down / down_peer, "growth_kib", (json_int_t) growth));
    for (size_t i = 0; i < 4; i++)
        samples_release(&samples[i]);
}

/* ---- main ---- */

static const struct part {
    const char *name;
    void (*run)(struct bench *bench);
} parts[] = {
    { "session", latency }, { "rate", rate },   { "oneshot", oneshot },
    { "many", many },       { "files", files },
};

static void find_binary(struct bench *bench)
{
    char self[512];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 16);

    if (n < 0)
        die("/proc/self/exe", NULL);
    self[n] = '\0';
    snprintf(strrchr(self, '/'), 16, "/glovebox");
    bench->glovebox = strdup(self);
    if (!bench->glovebox)
        die("memory", NULL);
}

int main(int argc, char **argv)
{
    struct bench bench = { .dir = "/tmp/glovebox-test-bench.XXXXXX", .result = json_object() };
    struct rlimit limit;

    if (argc > 1 && strcmp(argv[1], BUILDER_COMMAND) == 0)
        return builder_main(argc, argv); /* the engine executes the program that it is part of */
    if (argc < 3) {
        fprintf(stderr, "usage: bench_service PEER.PY OUT.JSON [PART...]\n");
        return 2;
    }
    (void) signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max; /* serve inherits it */
        (void) setrlimit(RLIMIT_NOFILE, &limit);
    }
    bench.peer_py = argv[1];
    find_binary(&bench);
    if (!mkdtemp(bench.dir))
        die(bench.dir, NULL);
    serve_start(&bench, "data", &bench.serve);
    peer_start(&bench);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (is_named(argc, argv, 3, parts[i].name))
            parts[i].run(&bench);
    process_stop(bench.peer.pid, "peer.py");
    process_stop(bench.serve.pid, "glovebox serve");
    remove_tree(bench.dir);
    if (json_dump_file(bench.result, argv[2], JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0)
        printf("saved as %s\n", argv[2]);
    if (bench.missed)
        printf("%d goals were not reached\n", bench.missed);
    json_decref(bench.result);
    free(bench.glovebox);
    return 0;
}
