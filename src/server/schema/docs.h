/*
 * The reference of the API as HTML, drawn from the OpenAPI document, so that it needs no script:
 * the bar, the list of routes, and for each its parameters, body, an example and its responses;
 * then the objects and the problem types.
 *
 * The page around it, web/docs.html, has the styles and a script that adds what only a script can
 * do. Classes and ids here are what those two know: an article has the id of its operation.
 */
#pragma once

#include <jansson.h>

/* Text for free(); NULL: out of memory. All text of @openapi is escaped. */
char *docs_draw(const json_t *openapi);
