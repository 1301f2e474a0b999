#include "base/pidfd.h"

#include <stdio.h>

#include "base/banned.h"

pid_t pidfd_pid(int pidfd)
{
    char path[40], line[128];
    pid_t pid = -1;
    FILE *info;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    info = fopen(path, "re");
    if (!info)
        return -1;
    while (fgets(line, sizeof line, info))
        if (sscanf(line, "Pid: %d", &pid) == 1)
            break;
    (void) fclose(info);
    return pid;
}
