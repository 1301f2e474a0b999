/*
 * Heads of HTTP/1 messages, read strictly, and request bodies, measured exactly. Pure.
 *
 * The proxy understands a request or refuses it; it never forwards input that it did not
 * understand. A parsed head is rewritten, so the server sees it exactly as we understood it. Of a
 * body we only need to know the exact end: nothing after it is forwarded.
 */
#pragma once

#include "egress/address.h"

#define HEAD_MAX        16384 /* bytes of a request's head */
#define HEAD_FIELDS_MAX 100
#define METHOD_MAX      20
#define REPLY_HEAD_MAX  65536

struct head_field {
    const char *name, *value; /* in the text that was parsed; the value without outer blanks */
    size_t name_len, value_len;
};

enum body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKED };

struct request_head {
    char method[METHOD_MAX];
    bool connect;
    struct host host;
    uint16_t port;
    const char *path; /* with the query; "" or beginning with '?' stands for "/" before it */
    size_t path_len;
    int minor; /* of HTTP/1 */
    struct head_field fields[HEAD_FIELDS_MAX];
    size_t fields_len;
    enum body_kind body;
    int64_t body_len;
    bool expect; /* 100-continue */
};

/* Parses the head at the start of @data. Returns its length; 0 if it is not complete yet; or minus
 * an HTTP status, and *@ret_why says what is wrong. */
int request_head_parse(const char *data, size_t len, struct request_head *ret_head,
                       const char **ret_why);

/* A field that we add. */
struct head_extra {
    const char *name, *value;
    size_t value_len;
};

/* The head as it is sent to the server: origin form, our Host, no hop-by-hop fields, no field with
 * the name of an extra, the extras, "Connection: close", the body's framing. Returns the length, or
 * -EMSGSIZE. */
int request_head_write(const struct request_head *head, const struct head_extra *extras,
                       size_t extras_len, bool tls, char *buf, size_t size);

/* How much of a body is still to come. */
struct body_reader {
    enum body_kind kind;
    int64_t left; /* of the body, or of the chunk */
    int state;
    int digits;
};

void body_reader_init(struct body_reader *reader, const struct request_head *head);
bool body_reader_done(const struct body_reader *reader);

/* How many of these bytes belong to the body and may be forwarded. -EPROTO: the chunked encoding is
 * invalid; extensions and trailers are refused too. */
ssize_t body_reader_feed(struct body_reader *reader, const char *data, size_t len);

/* Parses the head of a reply and writes it to @buf without hop-by-hop fields, except the framing,
 * and with "Connection: close". Returns the length of the head in @data, 0 if it is not complete
 * yet, or -EPROTO. *@ret_status is its status, *@ret_len the bytes written. */
int reply_head_rewrite(const char *data, size_t len, char *buf, size_t size, int *ret_status,
                       size_t *ret_len);
