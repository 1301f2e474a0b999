/*
 * The watch: resource usage of a box on hosts without cgroups.
 *
 * Its own /proc shows exactly the processes of the box. Memory is what they map (each shared page
 * counted once among its sharers) plus the contents of its file systems. Pages that a clone still
 * shares with its template are not charged to it: up to the template's size they are subtracted,
 * but never below the private memory. Memory that is in no page table and no file system would
 * escape this, so without cgroups the last filter has no memfd_create and no shmget.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "engine/box/box.h"

#include "base/banned.h"

struct sum {
    int64_t anon_bytes, private_bytes, shmem_bytes, tables_bytes;
    int64_t ticks, threads;
};

static int64_t field_kib(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtoll(at + strlen(name), NULL, 10) * 1024 : 0;
}

static void add_memory(int proc_dir, struct sum *sum)
{
    char text[4096];

    /* Page tables are memory too, and a program can have a gigabyte of them. */
    if (io_read_text_at(proc_dir, "status", text, sizeof text) > 0)
        sum->tables_bytes += field_kib(text, "VmPTE:");

    if (io_read_text_at(proc_dir, "smaps_rollup", text, sizeof text) < 0)
        return;
    sum->anon_bytes += field_kib(text, "Pss_Anon:");
    sum->shmem_bytes += field_kib(text, "Pss_Shmem:");
    sum->private_bytes += field_kib(text, "Private_Dirty:");
}

/* Fields 14 to 17 of stat(5) are the times, field 20 the threads; counted after the last ')'. */
static void add_times(int proc_dir, struct sum *sum)
{
    long long utime, stime, cutime, cstime, threads;
    char text[1024];
    const char *rest;

    if (io_read_text_at(proc_dir, "stat", text, sizeof text) < 0)
        return;
    rest = strrchr(text, ')');
    if (!rest || sscanf(rest + 1,
                        " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %lld %lld "
                        "%*d %*d %lld",
                        &utime, &stime, &cutime, &cstime, &threads) != 5)
        return;
    sum->ticks += utime + stime + cutime + cstime;
    sum->threads += threads;
}

static int64_t files_bytes(const struct box_entry *box)
{
    static const char *const places[] = { "workspace", "tmp", "dev/shm" };
    int64_t bytes = 0;

    /* A workspace on disk does not use memory. */
    for (size_t i = box->disk == DISK_NONE ? 0 : 1; i < ARRAY_LEN(places); i++) {
        autoclose int fd = openat(box->root, places[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct statfs fs;

        if (fd >= 0 && fstatfs(fd, &fs) == 0)
            bytes += (int64_t) (fs.f_blocks - fs.f_bfree) * fs.f_bsize;
    }
    return bytes;
}

void entry_watch(const struct box_entry *box, int64_t template_anon, struct cgroup_usage *ret_usage)
{
    autoclosedir DIR *dir = NULL;
    struct sum sum = { 0 };
    int64_t own;
    struct dirent *entry;

    *ret_usage = (struct cgroup_usage){ -1, -1, -1, -1, -1, -1, -1, -1 };
    if (dir_open_at(box->root, "proc", &dir) < 0)
        return;
    while ((entry = readdir(dir))) {
        autoclose int fd = -EBADF;

        if (!isdigit((unsigned char) entry->d_name[0]) || strcmp(entry->d_name, "1") == 0)
            continue; /* PID 1 is ours */
        fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue;
        add_memory(fd, &sum);
        add_times(fd, &sum);
    }
    own = sum.anon_bytes - template_anon;
    if (own < sum.private_bytes)
        own = sum.private_bytes;
    ret_usage->memory_bytes = own + sum.shmem_bytes + sum.tables_bytes + files_bytes(box);
    ret_usage->cpu_us = sum.ticks * USEC_PER_SEC / sysconf(_SC_CLK_TCK);
    ret_usage->pids = sum.threads;
}
