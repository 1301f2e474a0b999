/*
 * The report of a process about its own seal: the first packet on its control socket, written by
 * seal/seal.c before any user code runs, and read by the supervisor.
 */
#pragma once

#include <stdint.h>

#define SEAL_MAGIC 0x6c616573u
#define SEAL_DONE  0xffu

/* Steps of a command (box/command.c) around those of the table. */
#define SEAL_FILTER 0xf0u /* before: the large filter */
#define SEAL_CWD    0xf1u /* after SEAL_DONE: its directory */
#define SEAL_EXEC   0xf2u /* after SEAL_DONE: the program */
#define SEAL_TERMINAL                                                                              \
    0xf3u /* after SEAL_DONE: its terminal; with error 0, our side is attached                     \
           */

struct seal_report {
    uint32_t magic;
    uint32_t step; /* index into the table of steps, or SEAL_DONE */
    int32_t error;
    int32_t pid; /* as seen in the box; it is the process group too */
};

/* The name of a step, for messages; "?" if there is none. */
const char *seal_step_name(uint32_t step);
