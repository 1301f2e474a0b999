/* The docs page, made from docs.html while building. */
#pragma once

/* Placeholder for the nonce of a reply; both have the same length. */
#define DOCS_NONCE_MARK "NONCE_NONCE_NONCE_NONCE_NONCE_00"

extern const char docs_page[];
