/*
 * Runs a fuzz target over the files of a directory, without a fuzzer: the corpus as a plain test.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "base/io.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(int dir_fd, const char *name)
{
    autoclose int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    autofree uint8_t *data = NULL;
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    /* Exactly as large as the input, so that a read past its end is seen by ASan. */
    data = malloc(st.st_size > 0 ? (size_t) st.st_size : 1);
    if (!data)
        return -ENOMEM;
    n = io_read_all(fd, data, (size_t) st.st_size);
    if (n < 0)
        return (int) n;
    (void) LLVMFuzzerTestOneInput(data, (size_t) n);
    return 0;
}

static int replay_dir(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int count = 0, r = 0;

    if (!dir)
        return -errno;
    while (r == 0 && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        r = replay_file(dirfd(dir), entry->d_name);
        count++;
    }
    closedir(dir);
    return r < 0 ? r : count;
}

int main(int argc, char **argv)
{
    int count = argc == 2 ? replay_dir(argv[1]) : -EINVAL;

    if (count <= 0) {
        fprintf(stderr, "replay: no inputs: %s\n", strerror(-count));
        return 1;
    }
    printf("%d inputs\n", count);
    return 0;
}
