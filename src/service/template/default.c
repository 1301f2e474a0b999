/* The default template: which one it is, and the system's Python as a template. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/template/templates.h"

#include "base/banned.h"

#define PYTHON "/usr/bin/python3"

int template_system(struct template_entry *ret_entry, struct gb_err *err)
{
    struct template_entry entry = { .name = TEMPLATE_SYSTEM, .kind = TEMPLATE_KIND_PYTHON };

    entry.source = strdup(PYTHON);
    entry.python = strdup(PYTHON);
    entry.preload = strdup(engine_preload_all);
    entry.binds = calloc(1, sizeof *entry.binds);
    if (!entry.source || !entry.python || !entry.preload || !entry.binds) {
        template_entry_release(&entry);
        return gb_fail(err, ENOMEM, "describe the system's Python");
    }
    *ret_entry = entry;
    return 0;
}

int template_default(const char *data_dir, const char *wanted, struct template_entry *ret_entry,
                     struct gb_err *ret_note, struct gb_err *err)
{
    bool automatic = strcmp(wanted, TEMPLATE_AUTO) == 0;
    struct template_entry entry = { 0 };
    int r;

    ret_note->msg[0] = '\0';
    if (strcmp(wanted, TEMPLATE_SYSTEM) == 0 ||
        (automatic && !templates_has(data_dir, TEMPLATE_DATA)))
        return template_system(ret_entry, err);
    r = templates_load(data_dir, automatic ? TEMPLATE_DATA : wanted, &entry, err);
    if (r == 0)
        r = template_furnish_from(data_dir, &entry, err);
    if (r == 0) {
        *ret_entry = entry;
        return 0;
    }
    template_entry_release(&entry);
    if (!automatic)
        return r;
    /* Nobody asked for it by name: the system's Python is better than nothing. */
    *ret_note = *err;
    return template_system(ret_entry, err);
}
