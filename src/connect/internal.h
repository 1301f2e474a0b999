/* What the parts of the connector's process share; drivers use driver.h. */
#pragma once

#include "connect/driver.h"

#define SEAL_PORTS_MAX 8

/* ---- order.c: the socket to the broker ---- */

/* Reads the one order and checks its shape. What is wrong with it is in @error; -EPIPE: nobody is
 * there. */
int order_receive(struct order *order, json_t **ret_json, struct driver_error *error);
/* The last message: "done" or "error"; @body is taken. 0, or -errno. */
int order_end(const struct order *order, json_t *done, struct driver_error *error);
/* Prepares the message that order_alarm() sends when the deadline has passed and the driver is
 * still busy: with it, every order has an end and a word. */
void order_arm(const struct order *order);
/* Wipes the secrets and the text of the order. */
void order_forget(json_t *json);

/* ---- seal.c ---- */

struct seal_config {
    int64_t file_bytes_max;         /* of the result */
    int64_t seconds_max;            /* of CPU time */
    uint16_t ports[SEAL_PORTS_MAX]; /* the only ones for TCP, where the kernel can say so */
    size_t ports_len;
};

/* Gives up everything that a driver does not need. What was not possible is in @ret_step, a word; a
 * process that gets an error must not go on. */
int connect_seal(const struct seal_config *config, const char **ret_step);
