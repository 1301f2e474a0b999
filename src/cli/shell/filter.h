/*
 * What a program in a box may send to the user's own terminal: all that full-screen programs need
 * (text, colours, cursor, modes), but no strings for the terminal itself: titles, the clipboard,
 * key definitions, and queries whose answer contains text that the program chose. Those are the
 * control strings of ECMA-48 (OSC, DCS, APC, PM, SOS), which are left out with all their content.
 */
#pragma once

#include <stddef.h>

struct shell_filter {
    int state; /* all zero is the beginning */
};

/* Writes what is left to @out, which has room for @len + 1 bytes; returns how much. A sequence may
 * be cut anywhere. */
size_t shell_filter(struct shell_filter *filter, const char *data, size_t len, char *out);
