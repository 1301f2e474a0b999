/* What an address is, what a name is, and what a policy makes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "base/autoclean.h"
#include "egress/mask.h"
#include "egress/policy.h"

#include "base/banned.h"

static void test_classes(void **state)
{
    static const struct {
        const char *text;
        enum address_class class;
    } cases[] = {
        { "8.8.8.8", ADDRESS_PUBLIC },
        { "1.1.1.1", ADDRESS_PUBLIC },
        { "172.15.255.255", ADDRESS_PUBLIC },
        { "172.32.0.0", ADDRESS_PUBLIC },
        { "100.63.255.255", ADDRESS_PUBLIC },
        { "100.128.0.0", ADDRESS_PUBLIC },
        { "198.20.0.0", ADDRESS_PUBLIC },
        { "223.255.255.255", ADDRESS_PUBLIC },
        { "0.0.0.0", ADDRESS_RESERVED },
        { "0.1.2.3", ADDRESS_RESERVED },
        { "10.0.0.1", ADDRESS_PRIVATE },
        { "10.255.255.255", ADDRESS_PRIVATE },
        { "100.64.0.0", ADDRESS_SHARED },
        { "100.127.255.255", ADDRESS_SHARED },
        { "100.100.100.200", ADDRESS_METADATA },
        { "127.0.0.1", ADDRESS_LOOPBACK },
        { "127.255.255.254", ADDRESS_LOOPBACK },
        { "168.63.129.16", ADDRESS_METADATA },
        { "169.254.0.1", ADDRESS_LINK_LOCAL },
        { "169.254.169.254", ADDRESS_METADATA },
        { "172.16.0.1", ADDRESS_PRIVATE },
        { "172.31.255.255", ADDRESS_PRIVATE },
        { "192.0.0.192", ADDRESS_METADATA },
        { "192.0.0.8", ADDRESS_RESERVED },
        { "192.0.2.1", ADDRESS_PUBLIC },
        { "192.168.255.255", ADDRESS_PRIVATE },
        { "198.19.255.255", ADDRESS_PRIVATE },
        { "224.0.0.1", ADDRESS_MULTICAST },
        { "239.255.255.255", ADDRESS_MULTICAST },
        { "255.255.255.255", ADDRESS_RESERVED },
        { "2606:4700::1", ADDRESS_PUBLIC },
        { "2a00:1450::1", ADDRESS_PUBLIC },
        { "3ffe::1", ADDRESS_PUBLIC },
        { "::", ADDRESS_RESERVED },
        { "::1", ADDRESS_LOOPBACK },
        { "::2", ADDRESS_RESERVED },
        { "::ffff:127.0.0.1", ADDRESS_TRANSLATED },
        { "::ffff:8.8.8.8", ADDRESS_TRANSLATED },
        { "::127.0.0.1", ADDRESS_RESERVED },
        { "64:ff9b::7f00:1", ADDRESS_TRANSLATED },
        { "64:ff9b:1::1", ADDRESS_TRANSLATED },
        { "100::1", ADDRESS_RESERVED },
        { "2001::1", ADDRESS_TRANSLATED },
        { "2001:10::1", ADDRESS_RESERVED },
        { "2001:db8::1", ADDRESS_PUBLIC },
        { "2002:7f00:1::1", ADDRESS_TRANSLATED },
        { "3fff::1", ADDRESS_RESERVED },
        { "4000::1", ADDRESS_RESERVED },
        { "fc00::1", ADDRESS_PRIVATE },
        { "fd00:ec2::254", ADDRESS_METADATA },
        { "fdff::1", ADDRESS_PRIVATE },
        { "fe80::1", ADDRESS_LINK_LOCAL },
        { "fec0::1", ADDRESS_PRIVATE },
        { "ff02::1", ADDRESS_MULTICAST },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct address address;

        assert_int_equal(address_parse(cases[i].text, &address), 0);
        if (address_classify(&address) != cases[i].class)
            fail_msg("%s is %s", cases[i].text, address_class_name(address_classify(&address)));
    }
}

static void test_blocks(void **state)
{
    static const char *const bad[] = { "",          "10.0.0.0/33", "10.0.0.1/8",  "10.0.0.0/-1",
                                       "10.0.0.0/", "10.0.0.0/08", "::/129",      "fd00::1/8",
                                       "10.0.0",    "a.b",         "10.0.0.0/8/8" };
    struct address_block block;
    struct address in, out;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (address_block_parse(bad[i], &block) == 0)
            fail_msg("'%s' was taken", bad[i]);
    assert_int_equal(address_block_parse("10.16.0.0/12", &block), 0);
    assert_int_equal(address_parse("10.31.255.255", &in), 0);
    assert_int_equal(address_parse("10.32.0.0", &out), 0);
    assert_true(address_block_has(&block, &in) && !address_block_has(&block, &out));
    assert_int_equal(address_block_parse("0.0.0.0/0", &block), 0);
    assert_true(address_block_has(&block, &out));
    assert_int_equal(address_parse("::1", &out), 0);
    assert_false(address_block_has(&block, &out));
    assert_int_equal(address_block_parse("::1", &block), 0);
    assert_true(address_block_has(&block, &out));
}

static void test_own_addresses(void **state)
{
    struct address address;

    (void) state;
    assert_int_equal(address_parse("127.0.0.1", &address), 0);
    assert_true(address_is_own(&address));
    assert_int_equal(address_parse("192.0.2.77", &address), 0);
    assert_false(address_is_own(&address));
}

static void test_names(void **state)
{
    static const struct {
        const char *text, *host; /* NULL: refused */
        int port;
    } cases[] = {
        { "example.com", "example.com", -1 },
        { "Example.COM.", "example.com", -1 },
        { "a_b-c.example", "a_b-c.example", -1 },
        { "xn--bcher-kva.example:8443", "xn--bcher-kva.example", 8443 },
        { "127.0.0.1:80", "127.0.0.1", 80 },
        { "[::1]:80", "::1", 80 },
        { "[0:0:0:0:0:0:0:1]", "::1", -1 },
        { "[::FFFF:127.0.0.1]", "::ffff:127.0.0.1", -1 },
        { "1e100.net", "1e100.net", -1 },
        { "0x7f.example", "0x7f.example", -1 },
        { "3com", "3com", -1 },
        { "", NULL, 0 },
        { ".", NULL, 0 },
        { "..", NULL, 0 },
        { ".example.com", NULL, 0 },
        { "example..com", NULL, 0 },
        { "-a.example", NULL, 0 },
        { "a-.example", NULL, 0 },
        { "127.1", NULL, 0 },
        { "2130706433", NULL, 0 },
        { "0x7f000001", NULL, 0 },
        { "0x7f.1", NULL, 0 },
        { "127.0.0.0x1", NULL, 0 },
        { "0177.0.0.1", NULL, 0 },
        { "127.0.0.1.", "127.0.0.1", -1 },
        { "127.0.0.01", NULL, 0 },
        { "1.2.3.4.5", NULL, 0 },
        { "256.0.0.1", NULL, 0 },
        { "a b", NULL, 0 },
        { "a%00b", NULL, 0 },
        { "user@host", NULL, 0 },
        { "b\xc3\xbc"
          "cher.example",
          NULL, 0 },
        { "::1", NULL, 0 },
        { "[::1", NULL, 0 },
        { "[::1]x", NULL, 0 },
        { "[127.0.0.1]", NULL, 0 },
        { "[fe80::1%25lo]", NULL, 0 },
        { "example.com:", NULL, 0 },
        { "example.com:0", NULL, 0 },
        { "example.com:080", NULL, 0 },
        { "example.com:+80", NULL, 0 },
        { "example.com:65536", NULL, 0 },
        { "example.com:80:80", NULL, 0 },
        { "a23456789012345678901234567890123456789012345678901234567890123.example",
          "a23456789012345678901234567890123456789012345678901234567890123.example", -1 },
        { "a234567890123456789012345678901234567890123456789012345678901234.example", NULL, 0 },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct host host;
        int port, r = authority_parse(cases[i].text, strlen(cases[i].text), &host, &port);

        if ((r == 0) != (cases[i].host != NULL))
            fail_msg("'%s' gives %d", cases[i].text, r);
        if (r == 0) {
            assert_string_equal(host.text, cases[i].host);
            assert_int_equal(port, cases[i].port);
        }
    }
}

static struct egress_policy *policy_of(const char *const *entries, bool listed)
{
    struct egress_policy *policy;
    struct gb_err err;

    assert_int_equal(egress_policy_new(&policy, &err), 0);
    for (; *entries; entries++)
        if (egress_policy_allow(policy, *entries, listed, &err) < 0)
            fail_msg("%s", err.msg);
    return policy;
}

static bool allows(const struct egress_policy *policy, const char *name, uint16_t port,
                   const char *method)
{
    struct host host;
    bool hidden;

    assert_int_equal(host_parse(name, strlen(name), &host), 0);
    return policy_match(policy, &host, port, method, &hidden) != NULL;
}

static void test_entries(void **state)
{
    static const char *const entries[] = {
        "one.example", "*.sub.example",      "odd.example:8443",      "open.example:*",
        "192.0.2.7",   "[2001:db8::7]:8080", "GET,HEAD read.example", "POST *.write.example",
        NULL
    };
    struct egress_policy *policy = policy_of(entries, false);

    (void) state;
    assert_true(allows(policy, "one.example", 443, NULL));
    assert_true(allows(policy, "one.example", 80, "DELETE"));
    assert_true(allows(policy, "one.example", 80, "BREW")); /* no methods named: any */
    assert_false(allows(policy, "one.example", 22, NULL));
    assert_false(allows(policy, "two.example", 443, NULL));
    assert_false(allows(policy, "xone.example", 443, NULL));
    assert_false(allows(policy, "a.one.example", 443, NULL));
    assert_true(allows(policy, "a.sub.example", 443, NULL));
    assert_true(allows(policy, "a.b.sub.example", 443, NULL));
    assert_false(allows(policy, "sub.example", 443, NULL));
    assert_false(allows(policy, "xsub.example", 443, NULL));
    assert_true(allows(policy, "odd.example", 8443, NULL));
    assert_false(allows(policy, "odd.example", 443, NULL));
    assert_true(allows(policy, "open.example", 1, NULL));
    assert_true(allows(policy, "192.0.2.7", 80, "GET"));
    assert_false(allows(policy, "192.0.2.8", 80, "GET"));
    assert_true(allows(policy, "2001:db8:0::7", 8080, "GET"));
    assert_true(allows(policy, "read.example", 80, "GET"));
    assert_false(allows(policy, "read.example", 80, "POST"));
    assert_false(allows(policy, "read.example", 80, "get"));
    assert_false(allows(policy, "read.example", 443, NULL));
    assert_true(allows(policy, "a.write.example", 80, "POST"));
    assert_false(allows(policy, "a.write.example", 80, "GET"));
    egress_policy_free(policy);
}

static void test_bad_entries(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "https://a.example",
        "a.example/x",
        "u@a.example",
        "*a.example",
        "a.*",
        "*.",
        "*.127.0.0.1",
        "a.example:0",
        "a.example:x",
        "*:x",

        "get a.example",
        "GET, a.example",
        "GET,,HEAD a.example",
        "GET  a.example",
        "TRACE a.example",
        "a.example:80:*",
        "a.example:*:*",
        "127.1",
        "a.example ",
        "\n",
        "**",
    };
    struct egress_policy *policy;
    struct gb_err err;

    (void) state;
    assert_int_equal(egress_policy_new(&policy, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (egress_policy_allow(policy, bad[i], true, &err) != -EINVAL)
            fail_msg("'%s' was taken", bad[i]);
    assert_true(egress_policy_is_empty(policy));
    for (int i = 0; i < EGRESS_RULES_MAX; i++) {
        char entry[32];

        snprintf(entry, sizeof entry, "h%d.example", i);
        assert_int_equal(egress_policy_allow(policy, entry, true, &err), 0);
    }
    assert_int_equal(egress_policy_allow(policy, "h0.example", true, &err), 0);
    assert_int_equal(egress_policy_allow(policy, "one-more.example", true, &err), -E2BIG);
    egress_policy_free(policy);
}

static void test_ceiling(void **state)
{
    static const char *const over[] = { "one.example",    "*.sub.example:8443", "GET read.example",
                                        "127.0.0.1:9000", "localhost:9000",     NULL };
    static const char *const good[] = { "one.example",         "one.example:80",
                                        "GET one.example",     "a.sub.example:8443",
                                        "*.sub.example:8443",  "*.a.sub.example:8443",
                                        "GET read.example:80", "127.0.0.1:9000",
                                        "localhost:9000" };
    static const char *const bad[] = { "*",
                                       "*.example",
                                       "one.example:8443",
                                       "one.example:*",
                                       "two.example",
                                       "a.sub.example",
                                       "sub.example:8443",
                                       "read.example",
                                       "GET,POST read.example",
                                       "127.0.0.1",
                                       "127.0.0.2:9000",
                                       "*.localhost:9000" };
    struct egress_policy *ceiling = policy_of(over, true), *policy;
    struct gb_err err;

    (void) state;
    assert_int_equal(egress_policy_new(&policy, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (egress_policy_allow_within(policy, good[i], ceiling, &err) < 0)
            fail_msg("%s", err.msg);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (egress_policy_allow_within(policy, bad[i], ceiling, &err) != -EPERM)
            fail_msg("'%s' was taken", bad[i]);
    assert_non_null(strstr(err.msg, "--network-allow"));
    egress_policy_free(policy);
    egress_policy_free(ceiling);
}

static bool permits(const struct egress_policy *policy, const char *name, uint16_t port,
                    const char *address)
{
    const struct rule *rule;
    struct address to;
    struct host host;
    const char *why;
    bool hidden;

    assert_int_equal(host_parse(name, strlen(name), &host), 0);
    assert_int_equal(address_parse(address, &to), 0);
    rule = policy_match(policy, &host, port, NULL, &hidden);
    assert_non_null(rule);
    return policy_permits(policy, rule, &to, &why);
}

static void test_addresses(void **state)
{
    static const char *const operator[] = { "*", "one.example", "127.0.0.1:9000", "localhost:9000",
                                            NULL };
    struct egress_policy *ceiling = policy_of(operator, true), *policy;
    struct gb_err err;

    (void) state;
    assert_true(permits(ceiling, "one.example", 80, "8.8.8.8"));
    assert_false(permits(ceiling, "one.example", 80, "127.0.0.1"));
    assert_false(permits(ceiling, "one.example", 80, "10.1.2.3"));
    assert_true(permits(ceiling, "127.0.0.1", 9000, "127.0.0.1"));
    assert_false(permits(ceiling, "127.0.0.1", 80, "127.0.0.1")); /* by "*", which is public only */
    assert_true(permits(ceiling, "localhost", 9000, "127.0.0.1"));
    assert_int_equal(egress_policy_add_address(ceiling, "10.1.0.0/16", &err), 0);
    assert_true(permits(ceiling, "one.example", 80, "10.1.2.3"));
    assert_false(permits(ceiling, "one.example", 80, "10.2.2.3"));
    assert_false(permits(ceiling, "evil.example", 80, "10.1.2.3")); /* by "*" */

    /* A session has what the operator listed, and no more than it asked for. */
    assert_int_equal(egress_policy_new(&policy, &err), 0);
    assert_int_equal(egress_policy_allow_within(policy, "127.0.0.1:9000", ceiling, &err), 0);
    assert_int_equal(egress_policy_allow_within(policy, "one.example", ceiling, &err), 0);
    assert_int_equal(egress_policy_allow_within(policy, "10.1.2.3", ceiling, &err), 0);
    assert_int_equal(egress_policy_inherit(policy, ceiling, &err), 0);
    assert_true(permits(policy, "127.0.0.1", 9000, "127.0.0.1"));
    assert_true(permits(policy, "one.example", 443, "10.1.2.3"));
    assert_false(allows(policy, "two.example", 443, NULL));
    egress_policy_free(policy);
    egress_policy_free(ceiling);
}

static void count_entry(void *arg, const char *entry, bool is_secret)
{
    unsigned *counts = arg;

    assert_null(strstr(entry, "hunter2"));
    counts[is_secret]++;
}

/* What a stranger brings is reached at public addresses, whatever is listed for others. */
static void test_public_only(void **state)
{
    struct egress_policy *policy;
    struct gb_err err;

    (void) state;
    assert_int_equal(egress_policy_new(&policy, &err), 0);
    assert_int_equal(egress_policy_allow_public(policy, "brought.example:8080", &err), 0);
    assert_int_equal(egress_policy_allow_public(policy, "127.0.0.1:9", &err), 0);
    assert_int_equal(egress_policy_allow_public(policy, "index.example", &err), 0);
    assert_int_equal(egress_policy_allow(policy, "index.example", true, &err), 0);
    assert_int_equal(egress_policy_allow(policy, "127.0.0.1:80", true, &err), 0);
    assert_int_equal(egress_policy_add_address(policy, "127.0.0.1", &err), 0);
    assert_true(permits(policy, "brought.example", 8080, "8.8.8.8"));
    assert_false(permits(policy, "brought.example", 8080, "127.0.0.1"));
    assert_false(permits(policy, "127.0.0.1", 9, "127.0.0.1"));
    assert_true(permits(policy, "127.0.0.1", 80, "127.0.0.1"));
    assert_true(permits(policy, "index.example", 80, "127.0.0.1"));
    assert_int_equal(egress_policy_allow_public(policy, "*", &err), -EINVAL);
    assert_int_equal(egress_policy_allow_public(policy, "*.example", &err), -EINVAL);
    assert_int_equal(egress_policy_allow_public(policy, "a b", &err), -EINVAL);
    egress_policy_free(policy);
}

static void test_secrets(void **state)
{
    static const struct egress_secret good = { "api.example", 0, "Authorization",
                                               "Bearer hunter2" };
    static const struct egress_secret bad[] = {
        { "*.example", 0, "X-Key", "hunter2" },
        { "", 0, "X-Key", "hunter2" },
        { "api.example", 0, "", "hunter2" },
        { "api.example", 0, "X Key", "hunter2" },
        { "api.example", 0, "Host", "hunter2" },
        { "api.example", 0, "content-length", "2" },
        { "api.example", 0, "Proxy-X", "hunter2" },
        { "api.example", 0, "Connection", "x" },
        { "api.example", 0, "X-Key", "" },
        { "api.example", 0, "X-Key", " hunter2" },
        { "api.example", 0, "X-Key", "a\r\nhunter2" },
        { "api.example", 0, "X-Key", "hunter2\t" },
    };
    static const char *const over[] = { "*.example", NULL };
    struct egress_policy *policy, *other, *ceiling = policy_of(over, true);
    const struct secret *found[2];
    unsigned counts[2] = { 0, 0 };
    struct gb_err err;
    struct host host;
    uint16_t port;

    (void) state;
    assert_int_equal(egress_policy_new(&policy, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_true(egress_policy_add_secret(policy, &bad[i], ceiling, &err) < 0);
        assert_null(strstr(err.msg, "hunter2"));
    }
    assert_int_equal(egress_policy_add_secret(policy, &good, ceiling, &err), 0);
    assert_true(allows(policy, "api.example", 443, NULL));
    assert_int_equal(host_parse("api.example", 11, &host), 0);
    assert_int_equal(policy_secrets(policy, &host, 80, found, 2, &port), 1);
    assert_int_equal(port, 443);
    assert_int_equal(policy_secrets(policy, &host, 443, found, 2, &port), 1);
    assert_int_equal(policy_secrets(policy, &host, 8080, found, 2, &port), 0);
    egress_policy_each(policy, count_entry, counts);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 1);

    /* Inherited by those who may reach the host; outliving whom it came from. */
    assert_int_equal(egress_policy_new(&other, &err), 0);
    assert_int_equal(egress_policy_inherit(other, policy, &err), 0);
    assert_int_equal(policy_secrets(other, &host, 80, found, 2, &port), 0);
    assert_int_equal(egress_policy_allow_within(other, "api.example", ceiling, &err), 0);
    assert_int_equal(egress_policy_inherit(other, policy, &err), 0);
    egress_policy_free(policy);
    assert_int_equal(policy_secrets(other, &host, 80, found, 2, &port), 1);
    assert_memory_equal(found[0]->value, "Bearer hunter2", 14);
    egress_policy_free(other);

    other = policy_of(over + 1, true); /* nothing */
    assert_int_equal(egress_policy_new(&policy, &err), 0);
    assert_int_equal(egress_policy_add_secret(policy, &good, other, &err), -EPERM);
    egress_policy_free(policy);
    egress_policy_free(other);
    egress_policy_free(ceiling);
}

static void keep_no_proxy(void *arg, const char *assignment)
{
    if (strncmp(assignment, "NO_PROXY=", 9) == 0)
        snprintf(arg, 64, "%s", assignment + 9);
}

static void test_env(void **state)
{
    static const char *const names[] = { "one.example", NULL };
    static const char *const local[] = { "127.0.0.1:9000", "localhost:9000", NULL };
    struct egress_policy *policy = policy_of(names, true);
    char text[64];

    (void) state;
    egress_env_each(policy, keep_no_proxy, text);
    assert_string_equal(text, "localhost,127.0.0.1,::1");
    egress_policy_free(policy);
    policy = policy_of(local, true);
    egress_env_each(policy, keep_no_proxy, text);
    assert_string_equal(text, "::1");
    egress_policy_free(policy);
}

static void test_mask(void **state)
{
    static char value[] = "Bearer s3cr3t-s3cr3t-token";
    const struct secret secret = { .value = value, .value_len = sizeof value - 1 };
    const struct secret *const secrets[] = { &secret };
    char whole[] = "a Bearer s3cr3t-s3cr3t-token b s3cr3t-s3cr3t-token c";
    struct mask mask;

    (void) state;
    mask_init(&mask, secrets, 1);
    assert_int_equal(mask_apply(&mask, whole, sizeof whole - 1, false), sizeof whole - 1);
    assert_string_equal(whole, "a ************************** b ******************* c");

    /* However a reply is cut, no piece that is given out holds it. */
    for (size_t cut = 1; cut < 40; cut++) {
        char text[] = "xx Bearer s3cr3t-s3cr3t-token yy", out[64] = "";
        size_t len = strlen(text), given = 0, have = 0;
        char buf[64];

        for (size_t at = 0; at < len;) {
            size_t n = len - at < cut ? len - at : cut, sure;

            memcpy(buf + have, text + at, n);
            have += n;
            at += n;
            sure = mask_apply(&mask, buf, have, at == len);
            memcpy(out + given, buf, sure);
            given += sure;
            memmove(buf, buf + sure, have - sure);
            have -= sure;
        }
        assert_int_equal(given, len);
        assert_null(strstr(out, "s3cr3t-token"));
        assert_true(strncmp(out, "xx ", 3) == 0 && strcmp(out + len - 3, " yy") == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),       cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_own_addresses), cmocka_unit_test(test_names),
        cmocka_unit_test(test_entries),       cmocka_unit_test(test_bad_entries),
        cmocka_unit_test(test_ceiling),       cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_secrets),       cmocka_unit_test(test_env),
        cmocka_unit_test(test_mask),          cmocka_unit_test(test_public_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
