/* A name and its value, both strings, as in a query. */
#pragma once

struct param {
    const char *name, *value;
};
