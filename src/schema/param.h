/* A name and its value, both text, as a query has them. */
#pragma once

struct param {
    const char *name, *value;
};
