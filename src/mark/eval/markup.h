/* Texts of others in HTML and SVG. */
#pragma once

#include "mark/agent/text.h"
#include "mark/eval/internal.h"

/* Adds @text so that nothing in it is markup; controls, which XML forbids, become blanks. */
void markup_add(struct text *out, const char *text);
/* The same, of at most @chars characters. */
void markup_add_cut(struct text *out, const char *text, size_t chars);
