/*
 * Functions that code between clone and sealed box must not call. Include this just before
 * base/banned.h; tools/check_includes.py checks that all of seal/ and wire.c do.
 *
 * Such a process is a clone without exec of one that may have had threads: a lock of the allocator,
 * of stdio or of anything else may be held forever. The parent's buffers would be written twice,
 * and its exit handlers would run in the child. So there is no heap, no stdio, no thread, no lock,
 * nothing that reads a database or a locale, and it exits with _exit().
 *
 * snprintf() is allowed, though POSIX does not list it as async-signal-safe: with integers, strings
 * and our own buffer the C library formats on the stack, and takes no lock, since it uses a private
 * stream. It allocates only for widths, precisions and positions that are not used here.
 */
#pragma once

/* The heap, also behind cleanup by scope. */
#undef autofree
#undef free
#undef strdup
#undef strndup
#pragma GCC poison malloc calloc realloc reallocarray free strdup strndup asprintf vasprintf
#pragma GCC poison posix_memalign aligned_alloc autofree gb_freep qsort

/* stdio, and other functions that keep or allocate buffers */
#undef stdout
#undef stderr
#undef putchar
#pragma GCC poison stdout stderr printf fprintf vprintf vfprintf dprintf vdprintf puts fputs putchar
#pragma GCC poison fputc fwrite fread fopen fdopen fclose fflush fgets getline perror sscanf fscanf
#pragma GCC poison opendir fdopendir readdir closedir popen pclose system

/* threads and locks */
#pragma GCC poison pthread_create pthread_join pthread_mutex_lock pthread_mutex_unlock
#pragma GCC poison pthread_mutex_init pthread_cond_wait pthread_cond_signal pthread_once
#pragma GCC poison pthread_rwlock_rdlock pthread_rwlock_wrlock pthread_rwlock_unlock

/* logging, databases, locales, the environment, the parent's exit handlers */
#pragma GCC poison syslog vsyslog openlog strerror getpwnam getpwuid getgrnam getaddrinfo
#pragma GCC poison localtime gmtime strftime setlocale getenv setenv putenv exit atexit abort
