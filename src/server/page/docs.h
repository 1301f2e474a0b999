/* The reference of the API as a page, complete before any script runs. Made once, at startup. */
#pragma once

#include <jansson.h>

#include "base/err.h"

struct page_docs;

int page_docs_open(const json_t *openapi, struct page_docs **ret_docs, struct gb_err *err);
void page_docs_close(struct page_docs *docs); /* accepts NULL */
