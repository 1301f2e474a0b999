/* Small, complete reads and writes; each returns -errno on failure. */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes all of @data; a short write is continued, EINTR is retried. */
int io_write_all(int fd, const void *data, size_t len);

/* The same to a pipe whose reader may have stopped reading: asks @give_up five times a second, and
 * returns -ETIMEDOUT once it says so. */
int io_write_patiently(int fd, const void *data, size_t len, bool (*give_up)(void *arg), void *arg);

/* Reads until @len bytes or the end of file; returns the number of bytes. */
ssize_t io_read_all(int fd, void *buf, size_t len);

/* Reads the small text file @name beneath @dir_fd into @buf, NUL-terminated and without the last
 * newline; returns its length, or -E2BIG if it does not fit. */
ssize_t io_read_text_at(int dir_fd, const char *name, char *buf, size_t size);

/* Reads the directory @fd, which it takes over, also when it fails; closedir() closes both. */
int dir_open_fd(int fd, DIR **ret_dir);

/* Opens the directory @name beneath @dir_fd; "." reads @dir_fd itself from the start. */
int dir_open_at(int dir_fd, const char *name, DIR **ret_dir);

/* Writes @text to the existing file @name beneath @dir_fd in one call, as cgroupfs wants it. */
int io_write_text_at(int dir_fd, const char *name, const char *text);
