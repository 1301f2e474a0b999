/* The progress of an install, on a terminal as one line that changes, elsewhere as a few lines. */
#pragma once

#include "service/service.h"

struct teller {
    const char *name; /* in front of each line, or NULL */
    bool terminal;
    int stage;    /* told last; -1: none */
    int64_t part; /* the same, of the download */
};

void teller_init(struct teller *teller, const char *name);

/* install_watch.tell; @arg is a teller. cmd_hide_progress() ends it. */
void teller_tell(void *arg, const struct install_progress *progress);
