#include "service/template/presets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/template/templates.h"

#include "base/banned.h"

/* made of presets/ by the build */
extern const char preset_data_in[], preset_data_lock[];
extern const char preset_minimal_in[], preset_minimal_lock[];
extern const char preset_ml_in[], preset_ml_lock[];

/* What most programs import, and little of what only some do: every box shares this memory, but a
 * clone of a larger process costs more. */
#define PRELOAD_CHARTS                                                                             \
    "numpy pandas pyarrow matplotlib matplotlib.pyplot plotly plotly.graph_objects "               \
    "plotly.express IPython"

const struct preset presets[] = {
    { "data", "data, documents and charts", preset_data_in, preset_data_lock, PRELOAD_CHARTS },
    { "minimal", "tables and charts", preset_minimal_in, preset_minimal_lock,
      "numpy pandas pyarrow matplotlib matplotlib.pyplot IPython" },
    { "ml", "data and machine learning, on the processor", preset_ml_in, preset_ml_lock,
      PRELOAD_CHARTS },
    { 0 },
};

const struct preset *preset_find(const char *name)
{
    for (const struct preset *preset = presets; preset->name; preset++)
        if (strcmp(preset->name, name) == 0)
            return preset;
    return NULL;
}

const char *preset_names(char buf[PRESET_NAMES_MAX])
{
    size_t used = 0;

    buf[0] = '\0';
    for (const struct preset *preset = presets;
         preset->name && used + strlen(preset->name) + 3 < PRESET_NAMES_MAX; preset++)
        used += (size_t) snprintf(buf + used, PRESET_NAMES_MAX - used, "%s%s", used ? ", " : "",
                                  preset->name);
    return buf;
}

int preset_wanted(const char *text, char ***ret_wanted, struct gb_err *err)
{
    char **wanted = calloc(TEMPLATE_PACKAGES_MAX + 1, sizeof *wanted);
    size_t len = 0;

    for (const char *next; wanted && text && *text; text = next) {
        size_t end = strcspn(text, "\r\n#"), line = strcspn(text, "\n");

        next = text + line + (text[line] == '\n');
        while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '\t'))
            end--;
        if (end == 0)
            continue;
        if (len == TEMPLATE_PACKAGES_MAX) {
            templates_names_free(wanted);
            return gb_fail_plain(err, E2BIG, "a template can have at most %d requirements",
                                 TEMPLATE_PACKAGES_MAX);
        }
        if (!(wanted[len++] = strndup(text, end))) {
            templates_names_free(wanted);
            return gb_fail(err, ENOMEM, "read the requirements");
        }
    }
    if (!wanted)
        return gb_fail(err, ENOMEM, "read the requirements");
    *ret_wanted = wanted;
    return 0;
}
