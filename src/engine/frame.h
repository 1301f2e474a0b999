/*
 * The frame protocol between supervisor and tenant; it is documented in docs/PROTOCOL.md.
 *
 * A message is a type and a payload of fields. It travels over a seqpacket socket in one packet or,
 * when it is large, in several that follow each other. Every packet starts with a header; data from
 * a tenant is hostile, so the reader checks version, type, order and size of every packet before it
 * uses any of it, and a reader that has failed once stays failed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_VERSION     1
#define FRAME_PACKET_MAX  65536u              /* header included */
#define FRAME_MESSAGE_MAX (32u * 1024 * 1024) /* payload of a whole message */
#define FRAME_FIELDS_MAX  10000u              /* fields in a message */

/* What one execution may show. A node is a comma, a colon or an opening bracket outside strings:
 * the memory of a parsed bundle depends on these, not on its length. */
#define FRAME_BUNDLE_MAX     (8u * 1024 * 1024)  /* JSON of one bundle */
#define FRAME_DISPLAYS_MAX   200u                /* DISPLAY messages */
#define FRAME_DISPLAYS_BYTES (24u * 1024 * 1024) /* JSON of all bundles */
#define FRAME_DISPLAYS_NODES 1000000u            /* nodes of all bundles */

/* Little-endian on the wire, 12 bytes. */
struct frame_header {
    uint8_t version;
    uint8_t type;    /* enum frame_type */
    uint16_t flags;  /* FRAME_MORE, nothing else */
    uint32_t length; /* of the payload in this packet */
    uint32_t total;  /* of the payload of the message; the same in each of its packets */
};

#define FRAME_HEADER_SIZE 12u
#define FIELD_HEADER_SIZE 6u
#define FRAME_MORE        0x0001u /* another packet of the same message follows */

enum frame_type {
    FRAME_RUN = 1,     /* to the tenant: run this code */
    FRAME_DONE = 2,    /* from the tenant: the code has ended, and how */
    FRAME_DISPLAY = 3, /* from the tenant: a MIME bundle that was displayed */
    FRAME_RESULT = 4,  /* from the tenant: the value of the last expression, a MIME bundle */
    FRAME_ASK = 5,     /* from the tenant: a request to the supervisor, while code runs */
    FRAME_ANSWER = 6,  /* to the tenant: the answer to an ASK, or to a DISPLAY with an ACK */
    FRAME_TYPE_LAST = FRAME_ANSWER,
};

/* Fields: key (u16), length (u32), bytes; one after the other until the payload ends. */
enum frame_key {
    KEY_CODE = 1,        /* RUN: program text, bytes */
    KEY_FILENAME = 2,    /* RUN: what tracebacks call it */
    KEY_MODE = 3,        /* RUN: "script" (as python3 would) or "cell" */
    KEY_ARG = 4,         /* RUN: one of sys.argv, repeated */
    KEY_ENV = 5,         /* RUN: NAME=value, repeated */
    KEY_EXIT_CODE = 6,   /* DONE: decimal text */
    KEY_ERROR_NAME = 7,  /* DONE: class of the uncaught exception */
    KEY_ERROR_VALUE = 8, /* DONE: its str() */
    KEY_TRACEBACK = 9,   /* DONE: the text written to stderr */
    KEY_JSON = 10,       /* DISPLAY, RESULT: the bundle; ASK, ANSWER: an object; as JSON text */
    KEY_SEQUENCE = 11,   /* DISPLAY, RESULT: decimal text, order among displays and prints; ASK: the
                            tenant's own number for it, which the ANSWER repeats */
    KEY_ECHO = 12,       /* RUN: a cell prints what it would show; its value is ignored */
    KEY_LEFT_OUT = 13,   /* DONE: decimal text, how many displays were not sent */
    KEY_EXECUTION = 14,  /* RUN, and the DONE that answers it: bytes chosen by the supervisor */
    KEY_STDIN = 15,      /* RUN: the contents of sys.stdin */
    KEY_CALM = 16,     /* RUN: an interrupt received before this message was for another program */
    KEY_NAMES = 17,    /* RUN: JSON text, names bound before a cell and how it returns its own */
    KEY_ACK = 18,      /* DISPLAY: decimal text, its sender waits; the ANSWER that repeats it */
    KEY_CELL_ENV = 19, /* RUN: NAME=value, repeated; set for this cell only */
    KEY_LOOK = 20,     /* RUN: JSON text, a question about the session; there is no cell */
};

/* ---- messages of one packet, in the caller's memory: for the extension inside tenants ---- */

struct frame_msg;

/* Reads a packet that is a whole message: returns the number of its fields, and @ret_msg points
 * into
 * @packet. -EPROTO or -EMSGSIZE for any other packet. */
int frame_packet_read(const void *packet, size_t len, struct frame_msg *ret_msg);

/* Write the header, or FIELD_HEADER_SIZE + @len bytes for a field; both return the address after
 * it. The caller has checked the limits. */
uint8_t *frame_packet_begin(uint8_t *to, enum frame_type type, size_t payload_len);
uint8_t *frame_packet_put(uint8_t *to, uint16_t key, const void *data, size_t len);

/* ---- writing ---- */

/* A message under construction, a growing buffer; the first failure (-ENOMEM, -EMSGSIZE when a cap
 * is broken) is kept and reported by frame_send(). */
struct frame_out {
    uint8_t type;
    uint8_t *data;
    size_t len, cap;
    uint32_t fields;
    int error; /* 0 or -errno */
};

void frame_out_init(struct frame_out *out, enum frame_type type);
void frame_out_release(struct frame_out *out);
void frame_put(struct frame_out *out, enum frame_key key, const void *data, size_t len);
void frame_put_text(struct frame_out *out, enum frame_key key, const char *text);

/* Sends the message in as many packets as it takes. @fd is blocking or not; waits for room until
 * @deadline_us of the monotonic clock (-ETIMEDOUT). Returns 0 or -errno, -EPIPE when the peer is
 * gone. Never raises SIGPIPE. After a failure part of the message may have been sent: close @fd. */
int frame_send(int fd, const struct frame_out *out, int64_t deadline_us);

/* ---- reading ---- */

/* Reassembles packets. Zero-initialise with frame_reader_init(). */
struct frame_reader {
    uint8_t *data; /* payload so far */
    size_t len, cap;
    uint32_t total;
    uint8_t type;
    bool open; /* between the first packet of a message and its last */
    int error; /* sticky: 0 or -errno */
};

/* One whole message; points into the reader and is valid until the next call on it. */
struct frame_msg {
    enum frame_type type;
    const uint8_t *payload;
    size_t len;
};

void frame_reader_init(struct frame_reader *reader);
void frame_reader_release(struct frame_reader *reader);

/* Takes one packet as it was received. Returns 1 when a message is complete and its fields are well
 * formed (@ret_msg is filled), 0 when more packets are needed, -EPROTO for a packet that violates
 * the protocol, -EMSGSIZE when it exceeds a cap, -ENOMEM. Memory grows with the bytes received,
 * never with announced sizes, and is freed after a large message. The caller checks which side may
 * send a type. */
int frame_feed(struct frame_reader *reader, const void *packet, size_t len,
               struct frame_msg *ret_msg);

/* Receives one packet without waiting and feeds it. Returns like frame_feed(), -EAGAIN when there
 * is none (the only error that is not permanent), -EPIPE at the end of the stream. Descriptors that
 * a tenant attached are never installed, and a packet that carries any is -EPROTO; for that reason
 * @fd must not have SO_PASSCRED or another option that attaches control data. */
int frame_recv(int fd, struct frame_reader *reader, struct frame_msg *ret_msg);

/* A field of a message. */
struct frame_field {
    uint16_t key;
    const uint8_t *data;
    uint32_t len;
};

/* Walks the fields: set *@pos to 0 first. Returns 1 and a field, 0 at the end, -EPROTO. */
int frame_next(const struct frame_msg *msg, size_t *pos, struct frame_field *ret_field);

/* The first field with @key; false when there is none or the payload is broken. */
bool frame_find(const struct frame_msg *msg, enum frame_key key, struct frame_field *ret_field);

/* The field as a decimal number within [min, max]; false otherwise. A number has one spelling: no
 * plus sign, spaces or leading zeros. */
bool frame_find_int(const struct frame_msg *msg, enum frame_key key, int64_t min, int64_t max,
                    int64_t *ret_value);
