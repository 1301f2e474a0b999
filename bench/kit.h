/*
 * Tools for the benchmarks: an HTTP client that is cheap enough not to be measured itself, samples,
 * and processes to start and stop.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

_Noreturn void die(const char *what, const char *why);

/* ---- samples ---- */

struct samples {
    int64_t *us;
    size_t len, cap;
};

void sample_add(struct samples *samples, int64_t us);
double percentile_ms(struct samples *samples, double share);
void samples_release(struct samples *samples);

/* ---- HTTP over a persistent connection ---- */

#define HTTP_BUF ((size_t) 256 * 1024)

struct http {
    int fd, port;
    int status;      /* of the last reply */
    size_t body_len; /* of the last reply; the body is at @body, followed by a NUL */
    const char *body;
    char *buf;
};

void http_open(struct http *http, int port);
void http_close(struct http *http);

/* Sends @method @path with @body (may be NULL) and reads the whole reply; exits if its status is
 * not @status (0: any). */
void http_ask(struct http *http, const char *method, const char *path, const char *body,
              int status);

/* Copies the string of the first member @name of the last reply's object. */
void http_member(const struct http *http, const char *name, char *value, size_t size);

/* Sends @len bytes of @fd, or reads a body of that many and discards it. Returns microseconds. */
int64_t http_send_file(struct http *http, const char *path, int fd, int64_t len);
int64_t http_read_file(struct http *http, const char *path, int64_t len);

/* ---- parts ---- */

/* Whether @name is among the arguments from @first on, or there are none. */
bool is_named(int argc, char **argv, int first, const char *name);

/* ---- processes ---- */

/* Starts @argv with its output in @log, or discarded. */
pid_t process_start(char *const argv[], const char *log);

/* Waits; exits if it does not end with 0. Processes that nobody waited for are stopped at the end
 * of the benchmark. */
void process_wait(pid_t pid, const char *name);

/* The same after a SIGTERM. */
void process_stop(pid_t pid, const char *name);

/* A "Name:   123 kB" line of /proc/<pid>/<file>, in KiB, summed; -1 when the process is gone. */
int64_t process_kib(pid_t pid, const char *file, const char *name);

/* The memory of @root and all its descendants in KiB: proportional shares and page tables.
 * Processes that share an address space count once. *@ret_count is how many there are. */
int64_t tree_kib(pid_t root, size_t *ret_count);
