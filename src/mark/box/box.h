/*
 * Programs of Mark that run inside boxes, as text. Nothing in them is a boundary: the code of a
 * model shares their interpreter and can send whatever they send.
 */
#pragma once

/* Defines the module mark in a session: run it as the first cell. All that it leaves in the
 * namespace is the name mark. The cell may go on with "mark._attachments = {...}". */
extern const char mark_box_program[];

/* Reads a policy and a program as JSON on standard input and says on standard output whether it is
 * allowed; see gate.py. A script for a box of its own. */
extern const char gate_program[];
