/* Addresses and names of hosts: parsing, classes, and which of them are internal. Pure functions,
 * except address_is_own(). */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "egress/egress.h"

struct address {
    int family; /* AF_INET or AF_INET6 */
    uint8_t bytes[16];
};

#define ADDRESS_TEXT_MAX INET6_ADDRSTRLEN

enum address_class {
    ADDRESS_PUBLIC,
    ADDRESS_LOOPBACK,
    ADDRESS_LINK_LOCAL,
    ADDRESS_PRIVATE,
    ADDRESS_SHARED, /* carrier-grade NAT */
    ADDRESS_MULTICAST,
    ADDRESS_METADATA,
    ADDRESS_TRANSLATED, /* an IPv4 address in an IPv6 one: mapped, NAT64, 6to4, Teredo */
    ADDRESS_RESERVED,
};

enum address_class address_classify(const struct address *address);

/* "a loopback address", for messages. */
const char *address_class_name(enum address_class class);

/* Whether an interface of this host has it. True if that cannot be determined. */
bool address_is_own(const struct address *address);

/* Text as inet_pton(3) accepts it: no octal, no missing parts, no zone. 0 or -EINVAL. */
int address_parse(const char *text, struct address *ret_address);
void address_format(const struct address *address, char text[ADDRESS_TEXT_MAX]);
int address_from_sockaddr(const struct sockaddr *from, struct address *ret_address);
socklen_t address_to_sockaddr(const struct address *address, uint16_t port,
                              struct sockaddr_storage *ret);

struct address_block {
    struct address base;
    unsigned bits;
};

/* "10.0.0.0/8", "fd00::/8", or one address. Bits beyond the prefix must be 0. 0 or -EINVAL. */
int address_block_parse(const char *text, struct address_block *ret_block);
bool address_block_has(const struct address_block *block, const struct address *address);

/* ---- names ---- */

struct host {
    char text[EGRESS_HOST_MAX]; /* lower case, without a last dot; addresses as address_format() */
    bool literal;               /* it is an address */
    struct address address;
};

/* A name in letters, digits, '-' and '_', or an address (IPv6 without brackets). Names that some
 * resolver would read as an address in an odd notation ("0x7f.1", "2130706433") are refused. 0 or
 * -EINVAL. */
int host_parse(const char *text, size_t len, struct host *ret_host);

/* "host", "host:port", "[v6]:port". *@ret_port is -1 when there is none. 0 or -EINVAL. */
int authority_parse(const char *text, size_t len, struct host *ret_host, int *ret_port);

/* 1 to 65535, without sign or leading zero; -1 for anything else. */
int port_parse(const char *text, size_t len);

/* "localhost" and names beneath it, which are never looked up. */
bool host_is_localhost(const struct host *host);
