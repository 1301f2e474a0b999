/* Processes by descriptor. */
#pragma once

#include <sys/types.h>

/* The pid as our own /proc shows it, which in another PID namespace is not what clone returned; -1
 * when the process is gone. */
pid_t pidfd_pid(int pidfd);
