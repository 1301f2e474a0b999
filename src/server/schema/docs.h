/* The docs page, made from docs.html while building. */
#pragma once

/* Stands in the page wherever the nonce of a reply goes; both have this length. */
#define DOCS_NONCE_MARK "NONCE_NONCE_NONCE_NONCE_NONCE_00"

extern const char docs_page[];
