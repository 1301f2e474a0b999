#include "bench/kit.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"

#include "base/banned.h"

#define PIECE         ((size_t) 1024 * 1024)
#define PROCESSES_MAX 8

extern char **environ;

_Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "bench: %s: %s\n", what, why ? why : strerror(errno));
    exit(1);
}

/* ---- samples ---- */

void sample_add(struct samples *samples, int64_t us)
{
    if (samples->len == samples->cap) {
        samples->cap = samples->cap ? samples->cap * 2 : 64;
        samples->us = realloc(samples->us, samples->cap * sizeof(int64_t));
        if (!samples->us)
            die("memory", NULL);
    }
    samples->us[samples->len++] = us;
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *) a, right = *(const int64_t *) b;

    return (left > right) - (left < right);
}

double percentile_ms(struct samples *samples, double share)
{
    size_t at = (size_t) (share * (double) (samples->len - 1) + 0.5);

    if (samples->len == 0)
        return 0;
    qsort(samples->us, samples->len, sizeof(int64_t), compare);
    return (double) samples->us[at] / 1000;
}

void samples_release(struct samples *samples)
{
    free(samples->us);
    *samples = (struct samples){ 0 };
}

/* ---- HTTP ---- */

void http_open(struct http *http, int port)
{
    struct sockaddr_in addr = { .sin_family = AF_INET,
                                .sin_port = htons((uint16_t) port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int one = 1;

    *http = (struct http){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .port = port };
    http->buf = malloc(HTTP_BUF + 1);
    if (http->fd < 0 || !http->buf ||
        connect(http->fd, (const struct sockaddr *) &addr, sizeof addr) < 0 ||
        setsockopt(http->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0)
        die("connect", NULL);
}

void http_close(struct http *http)
{
    (void) close(http->fd);
    free(http->buf);
    http->fd = -1;
    http->buf = NULL;
}

static void send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n < 0)
            die("send", NULL);
        data += n;
        len -= (size_t) n;
    }
}

/* Reads to the end of the headers; *@ret_have is how much of the body came with them. */
static int64_t read_head(struct http *http, size_t *ret_have)
{
    size_t len = 0;
    char *end = NULL, *length;

    while (!end) {
        ssize_t n = len < HTTP_BUF ? recv(http->fd, http->buf + len, HTTP_BUF - len, 0) : 0;

        if (n <= 0)
            die("reply", n < 0 ? NULL : "the connection was closed");
        len += (size_t) n;
        http->buf[len] = '\0';
        end = strstr(http->buf, "\r\n\r\n");
    }
    *end = '\0';
    http->status = (int) strtol(http->buf + strlen("HTTP/1.1 "), NULL, 10);
    http->body = end + 4;
    *ret_have = len - (size_t) (http->body - http->buf);
    length = strcasestr(http->buf, "\r\ncontent-length:");
    return length ? strtoll(length + strlen("\r\ncontent-length:"), NULL, 10) : 0;
}

static void read_reply(struct http *http)
{
    size_t have, room;
    int64_t length = read_head(http, &have);
    char *body = http->buf + (http->body - http->buf);

    room = HTTP_BUF - (size_t) (body - http->buf);
    if (length > (int64_t) room)
        die("reply", "it is too large");
    while ((int64_t) have < length) {
        ssize_t n = recv(http->fd, body + have, room - have, 0);

        if (n <= 0)
            die("reply", n < 0 ? NULL : "the connection was closed");
        have += (size_t) n;
    }
    http->body_len = (size_t) length;
    body[length] = '\0';
}

static void expect(const struct http *http, const char *path, int status)
{
    if (status == 0 || http->status == status)
        return;
    fprintf(stderr, "bench: %s: status %d: %.400s\n", path, http->status, http->body);
    exit(1);
}

void http_ask(struct http *http, const char *method, const char *path, const char *body, int status)
{
    size_t body_len = body ? strlen(body) : 0;
    char head[1024];
    int n;

    n = snprintf(head, sizeof head,
                 "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 method, path, http->port, body_len, body_len < 512 && body ? body : "");
    send_all(http->fd, head, (size_t) n);
    if (body_len >= 512)
        send_all(http->fd, body, body_len);
    read_reply(http);
    expect(http, path, status);
}

void http_member(const struct http *http, const char *name, char *value, size_t size)
{
    char wanted[64];
    const char *at, *end;

    snprintf(wanted, sizeof wanted, "\"%s\":\"", name);
    at = strstr(http->body, wanted);
    end = at ? strchr(at + strlen(wanted), '"') : NULL;
    if (!end || (size_t) (end - at) >= size)
        die(name, "it is not in the reply");
    at += strlen(wanted);
    snprintf(value, size, "%.*s", (int) (end - at), at);
}

int64_t http_send_file(struct http *http, const char *path, int fd, int64_t len)
{
    int64_t start = clock_now_us();
    char head[1024];
    off_t at = 0;
    int n;

    n = snprintf(head, sizeof head,
                 "PUT %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %lld\r\n\r\n", path,
                 http->port, (long long) len);
    send_all(http->fd, head, (size_t) n);
    while (at < len)
        if (sendfile(http->fd, fd, &at, (size_t) (len - at)) <= 0)
            die("upload", NULL);
    read_reply(http);
    if (http->status / 100 != 2)
        expect(http, path, 201);
    return clock_now_us() - start;
}

int64_t http_read_file(struct http *http, const char *path, int64_t len)
{
    int64_t start = clock_now_us(), length, got;
    char *piece = malloc(PIECE), head[1024];
    size_t have;
    int n;

    n = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", path,
                 http->port);
    send_all(http->fd, head, (size_t) n);
    length = read_head(http, &have);
    expect(http, path, 200);
    if (!piece || length != len)
        die(path, "the file has another length");
    for (got = (int64_t) have; got < length;) {
        ssize_t r = recv(http->fd, piece, PIECE, 0);

        if (r <= 0)
            die("download", r < 0 ? NULL : "the connection was closed");
        got += r;
    }
    free(piece);
    return clock_now_us() - start;
}

/* ---- parts ---- */

bool is_named(int argc, char **argv, int first, const char *name)
{
    for (int i = first; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc <= first;
}

/* ---- processes ---- */

static pid_t started[PROCESSES_MAX];

/* A benchmark that fails leaves no processes behind. */
static void processes_end(void)
{
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        if (started[i] > 0)
            (void) kill(started[i], SIGTERM);
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        if (started[i] > 0)
            (void) waitpid(started[i], NULL, 0);
}

static void process_note(pid_t from, pid_t to)
{
    static bool registered;

    if (!registered)
        registered = atexit(processes_end) == 0;
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        if (started[i] == from) {
            started[i] = to;
            return;
        }
}

pid_t process_start(char *const argv[], const char *log)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log ? log : "/dev/null",
                                     O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    errno = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    if (errno != 0)
        die(argv[0], NULL);
    posix_spawn_file_actions_destroy(&actions);
    process_note(0, pid);
    return pid;
}

void process_wait(pid_t pid, const char *name)
{
    int status, r = waitpid(pid, &status, 0);

    process_note(pid, 0);
    if (r != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        die(name, "it did not end well");
}

void process_stop(pid_t pid, const char *name)
{
    (void) kill(pid, SIGTERM);
    process_wait(pid, name);
}

int64_t process_kib(pid_t pid, const char *file, const char *name)
{
    char path[64], line[256];
    int64_t sum = 0;
    FILE *from;

    snprintf(path, sizeof path, "/proc/%d/%s", (int) pid, file);
    from = fopen(path, "re");
    if (!from)
        return -1;
    while (fgets(line, sizeof line, from))
        if (strncmp(line, name, strlen(name)) == 0)
            sum += strtoll(line + strlen(name), NULL, 10);
    (void) fclose(from);
    return sum;
}

struct process {
    pid_t pid, parent;
    ino_t pid_ns;
    bool wanted;
};

static size_t processes_read(struct process **ret_list)
{
    DIR *dir = opendir("/proc");
    struct process *list = NULL;
    size_t len = 0, cap = 0;
    struct dirent *entry;
    struct stat st;
    char path[64];

    while (dir && (entry = readdir(dir))) {
        if (!isdigit((unsigned char) entry->d_name[0]))
            continue;
        if (len == cap) {
            cap = cap ? cap * 2 : 256;
            list = realloc(list, cap * sizeof *list);
            if (!list)
                die("memory", NULL);
        }
        list[len] = (struct process){ .pid = (pid_t) strtol(entry->d_name, NULL, 10) };
        list[len].parent = (pid_t) process_kib(list[len].pid, "status", "PPid:");
        snprintf(path, sizeof path, "/proc/%d/ns/pid", (int) list[len].pid);
        if (stat(path, &st) == 0)
            list[len].pid_ns = st.st_ino;
        len++;
    }
    if (dir)
        (void) closedir(dir);
    *ret_list = list;
    return len;
}

/* Marks @root and its descendants; a child may come before its parent in the list. */
static void processes_mark(struct process *list, size_t len, pid_t root)
{
    bool more = true;

    for (size_t i = 0; i < len; i++)
        list[i].wanted = list[i].pid == root;
    while (more) {
        more = false;
        for (size_t i = 0; i < len; i++)
            for (size_t k = 0; !list[i].wanted && k < len; k++)
                if (list[k].wanted && list[k].pid == list[i].parent)
                    more = list[i].wanted = true;
    }
}

/* Whether a process counted earlier has the same address space: holders share their tenant's. */
static bool is_counted(const struct process *list, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (list[i].wanted && list[i].pid_ns == list[at].pid_ns &&
            syscall(SYS_kcmp, list[i].pid, list[at].pid, KCMP_VM, 0, 0) == 0)
            return true;
    return false;
}

int64_t tree_kib(pid_t root, size_t *ret_count)
{
    struct process *list;
    size_t len = processes_read(&list), count = 0;
    int64_t sum = 0;

    processes_mark(list, len, root);
    for (size_t i = 0; i < len; i++) {
        int64_t pss, tables;

        if (!list[i].wanted)
            continue;
        count++;
        if (is_counted(list, i))
            continue;
        pss = process_kib(list[i].pid, "smaps_rollup", "Pss:");
        tables = process_kib(list[i].pid, "status", "VmPTE:");
        sum += (pss > 0 ? pss : 0) + (tables > 0 ? tables : 0);
    }
    free(list);
    *ret_count = count;
    return sum;
}
