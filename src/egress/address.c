/*
 * Classifies addresses by the registries of special addresses (IANA, RFC 6890 and its successors).
 *
 * For IPv4 the table lists the ranges that are not public; all others are. For IPv6 it is the other
 * way round: only 2000::/3 is public at all, and the table lists exceptions in it. So a range that
 * is new or unknown to us is not reachable.
 *
 * Ranges for documentation (192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24, 2001:db8::/32) count as
 * public: they are nobody's internal network, and test setups use them for public hosts.
 */
#include "egress/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/hex.h"

#include "base/banned.h"

struct row {
    uint8_t prefix[8];
    uint8_t bits;
    enum address_class class;
};

/* The first that matches counts. */
static const struct row rows_v4[] = {
    { { 169, 254, 169, 254 }, 32, ADDRESS_METADATA }, /* most clouds */
    { { 168, 63, 129, 16 }, 32, ADDRESS_METADATA },   /* Azure's, in a public range */
    { { 100, 100, 100, 200 }, 32, ADDRESS_METADATA }, /* Alibaba's */
    { { 192, 0, 0, 192 }, 32, ADDRESS_METADATA },     /* Oracle's */
    { { 0 }, 8, ADDRESS_RESERVED },                   /* connects to this host */
    { { 10 }, 8, ADDRESS_PRIVATE },
    { { 100, 64 }, 10, ADDRESS_SHARED },
    { { 127 }, 8, ADDRESS_LOOPBACK },
    { { 169, 254 }, 16, ADDRESS_LINK_LOCAL },
    { { 172, 16 }, 12, ADDRESS_PRIVATE },
    { { 192, 0, 0 }, 24, ADDRESS_RESERVED },
    { { 192, 88, 99 }, 24, ADDRESS_TRANSLATED },
    { { 192, 168 }, 16, ADDRESS_PRIVATE },
    { { 198, 18 }, 15, ADDRESS_PRIVATE },
    { { 224 }, 4, ADDRESS_MULTICAST },
    { { 240 }, 4, ADDRESS_RESERVED },
};

static const struct row rows_v6[] = {
    { { 0xfd, 0x00, 0x0e, 0xc2 }, 64, ADDRESS_METADATA }, /* fd00:ec2::254 */
    { { 0x00, 0x64, 0xff, 0x9b }, 32, ADDRESS_TRANSLATED },
    { { 0xfe, 0x80 }, 10, ADDRESS_LINK_LOCAL },
    { { 0xfe, 0xc0 }, 10, ADDRESS_PRIVATE },
    { { 0xfc }, 7, ADDRESS_PRIVATE },
    { { 0xff }, 8, ADDRESS_MULTICAST },
    { { 0x20, 0x01, 0x00, 0x00 }, 32, ADDRESS_TRANSLATED }, /* Teredo */
    { { 0x20, 0x01, 0x00 }, 23, ADDRESS_RESERVED },
    { { 0x20, 0x02 }, 16, ADDRESS_TRANSLATED },
    { { 0x3f, 0xff, 0x00 }, 20, ADDRESS_RESERVED },
    { { 0x20 }, 3, ADDRESS_PUBLIC },
};

static bool prefix_matches(const uint8_t *bytes, const uint8_t *prefix, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    if (memcmp(bytes, prefix, whole) != 0)
        return false;
    return rest == 0 || ((bytes[whole] ^ prefix[whole]) >> (8 - rest)) == 0;
}

static enum address_class lookup(const struct row *rows, size_t len, const uint8_t *bytes,
                                 enum address_class otherwise)
{
    for (size_t i = 0; i < len; i++)
        if (prefix_matches(bytes, rows[i].prefix, rows[i].bits))
            return rows[i].class;
    return otherwise;
}

enum address_class address_classify(const struct address *address)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    static const uint8_t loopback[16] = { [15] = 1 };

    if (address->family == AF_INET)
        return lookup(rows_v4, ARRAY_LEN(rows_v4), address->bytes, ADDRESS_PUBLIC);
    if (address->family != AF_INET6)
        return ADDRESS_RESERVED;
    if (memcmp(address->bytes, loopback, sizeof loopback) == 0)
        return ADDRESS_LOOPBACK;
    if (memcmp(address->bytes, mapped, sizeof mapped) == 0)
        return ADDRESS_TRANSLATED;
    return lookup(rows_v6, ARRAY_LEN(rows_v6), address->bytes, ADDRESS_RESERVED);
}

const char *address_class_name(enum address_class class)
{
    static const char *const names[] = {
        [ADDRESS_PUBLIC] = "a public address",
        [ADDRESS_LOOPBACK] = "a loopback address",
        [ADDRESS_LINK_LOCAL] = "a link-local address",
        [ADDRESS_PRIVATE] = "a private address",
        [ADDRESS_SHARED] = "a shared (carrier-grade NAT) address",
        [ADDRESS_MULTICAST] = "a multicast address",
        [ADDRESS_METADATA] = "a cloud metadata address",
        [ADDRESS_TRANSLATED] = "an IPv4 address inside an IPv6 address",
        [ADDRESS_RESERVED] = "a reserved address",
    };

    return names[class];
}

bool address_is_own(const struct address *address)
{
    struct ifaddrs *list;
    bool own = false;

    if (getifaddrs(&list) < 0)
        return true;
    for (const struct ifaddrs *at = list; at && !own; at = at->ifa_next) {
        struct address mine;

        own = at->ifa_addr && address_from_sockaddr(at->ifa_addr, &mine) == 0 &&
              mine.family == address->family &&
              memcmp(mine.bytes, address->bytes, sizeof mine.bytes) == 0;
    }
    freeifaddrs(list);
    return own;
}

int address_parse(const char *text, struct address *ret_address)
{
    struct address address = { .family = strchr(text, ':') ? AF_INET6 : AF_INET };

    if (inet_pton(address.family, text, address.bytes) != 1)
        return -EINVAL;
    *ret_address = address;
    return 0;
}

void address_format(const struct address *address, char text[ADDRESS_TEXT_MAX])
{
    if (!inet_ntop(address->family, address->bytes, text, ADDRESS_TEXT_MAX))
        text[0] = '\0';
}

int address_from_sockaddr(const struct sockaddr *from, struct address *ret_address)
{
    struct address address = { .family = from->sa_family };

    if (from->sa_family == AF_INET)
        memcpy(address.bytes, &((const struct sockaddr_in *) (const void *) from)->sin_addr, 4);
    else if (from->sa_family == AF_INET6)
        memcpy(address.bytes, &((const struct sockaddr_in6 *) (const void *) from)->sin6_addr, 16);
    else
        return -EINVAL;
    *ret_address = address;
    return 0;
}

socklen_t address_to_sockaddr(const struct address *address, uint16_t port,
                              struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof *ret);
    if (address->family == AF_INET) {
        struct sockaddr_in *v4 = (struct sockaddr_in *) (void *) ret;

        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, address->bytes, 4);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) (void *) ret;

    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    memcpy(&v6->sin6_addr, address->bytes, 16);
    return sizeof *v6;
}

int address_block_parse(const char *text, struct address_block *ret_block)
{
    const char *slash = strchr(text, '/');
    size_t len = slash ? (size_t) (slash - text) : strlen(text);
    struct address_block block;
    char address[ADDRESS_TEXT_MAX];
    unsigned most;

    if (len >= sizeof address)
        return -EINVAL;
    memcpy(address, text, len);
    address[len] = '\0';
    if (address_parse(address, &block.base) < 0)
        return -EINVAL;
    most = block.base.family == AF_INET ? 32 : 128;
    block.bits = most;
    if (slash) {
        int bits = slash[1] == '0' && !slash[2] ? 0 : port_parse(slash + 1, strlen(slash + 1));

        if (bits < 0 || (unsigned) bits > most)
            return -EINVAL;
        block.bits = (unsigned) bits;
    }
    for (unsigned i = block.bits; i < most; i++)
        if (block.base.bytes[i / 8] & (0x80u >> (i % 8)))
            return -EINVAL;
    *ret_block = block;
    return 0;
}

bool address_block_has(const struct address_block *block, const struct address *address)
{
    return block->base.family == address->family &&
           prefix_matches(address->bytes, block->base.bytes, block->bits);
}

/* ---- names ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_';
}

/* inet_aton(3) and many libraries take "127.1", "0x7f000001" and "017700000001" for addresses: a
 * last label that begins with a digit and holds nothing but digits, or hex after 0x, is one. */
static bool ends_in_number(const char *name)
{
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;

    if (!is_digit(*last))
        return false;
    if (last[0] == '0' && last[1] == 'x')
        return hex_is(last + 2, strlen(last + 2));
    return strspn(last, "0123456789") == strlen(last);
}

static int name_check(const char *name)
{
    size_t label = 0;

    for (const char *p = name; *p; p++) {
        if (*p != '.' && !name_char(*p))
            return -EINVAL;
        label = *p == '.' ? 0 : label + 1;
        if (label > 63 || (*p == '.' && (p == name || p[-1] == '.' || p[-1] == '-')))
            return -EINVAL;
        if (*p == '-' && label == 1)
            return -EINVAL;
    }
    return label == 0 || ends_in_number(name) ? -EINVAL : 0;
}

int host_parse(const char *text, size_t len, struct host *ret_host)
{
    struct host host = { 0 };

    if (len > 0 && text[len - 1] == '.')
        len--;
    if (len == 0 || len >= sizeof host.text || memchr(text, '\0', len))
        return -EINVAL;
    for (size_t i = 0; i < len; i++)
        host.text[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char) (text[i] | 32) : text[i];
    if (address_parse(host.text, &host.address) == 0) {
        host.literal = true;
        address_format(&host.address, host.text);
    } else if (name_check(host.text) < 0) {
        return -EINVAL;
    }
    *ret_host = host;
    return 0;
}

int port_parse(const char *text, size_t len)
{
    int port = 0;

    if (len == 0 || len > 5 || text[0] == '0')
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(text[i]))
            return -1;
        port = port * 10 + (text[i] - '0');
    }
    return port <= 65535 ? port : -1;
}

int authority_parse(const char *text, size_t len, struct host *ret_host, int *ret_port)
{
    const char *end = text + len, *host_end, *rest;
    int r;

    if (len > 0 && text[0] == '[') {
        host_end = memchr(text, ']', len);
        if (!host_end || !memchr(text, ':', (size_t) (host_end - text)))
            return -EINVAL;
        text++;
        rest = host_end + 1;
    } else {
        host_end = memchr(text, ':', len);
        host_end = rest = host_end ? host_end : end;
    }
    if ((r = host_parse(text, (size_t) (host_end - text), ret_host)) < 0)
        return r;
    *ret_port = -1;
    if (rest == end)
        return 0;
    if (*rest != ':')
        return -EINVAL;
    *ret_port = port_parse(rest + 1, (size_t) (end - rest - 1));
    return *ret_port < 0 ? -EINVAL : 0;
}

bool host_is_localhost(const struct host *host)
{
    size_t len = strlen(host->text), tail = strlen(".localhost");

    return strcmp(host->text, "localhost") == 0 ||
           (len > tail && strcmp(host->text + len - tail, ".localhost") == 0);
}
