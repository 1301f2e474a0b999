/*
 * What a program in a box may send to the user's own terminal: all that full-screen programs need
 * (text, colours, cursor, modes), but no strings for the terminal itself: titles, the clipboard,
 * key definitions, and queries whose answer contains text that the program chose. Those are the
 * control strings of ECMA-48 (OSC, DCS, APC, PM, SOS), and the title of screen and tmux; they are
 * left out with all their content. So are switches to an encoding other than UTF-8, and control
 * characters of one byte that are none in UTF-8.
 */
#pragma once

#include <stddef.h>

struct shell_filter {
    int state; /* all zero is the beginning */
    int rest;  /* bytes of a character of UTF-8 that are to come */
};

/* Writes what is left to @out, which has room for @len + 1 bytes; returns how much. A sequence may
 * be cut anywhere. */
size_t shell_filter(struct shell_filter *filter, const char *data, size_t len, char *out);
