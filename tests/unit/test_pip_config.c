/* What an installer is told of the host's pip configuration, and what is kept from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/package/pip_config.h"

#include "base/banned.h"

static void read_text(const char *text, struct pip_settings levels[2])
{
    pip_settings_read(text, strlen(text), levels);
}

static void test_files(void **state)
{
    struct pip_settings levels[2] = { 0 };

    (void) state;
    read_text(
        "# a comment\n[global]\nindex-url = https://a/simple\nFind_Links =\n    /one\n\t/two\n"
        "timeout = 5\n[install]\ntrusted-host: h1 h2\n[list]\nindex-url = https://no\n"
        "[global]\ncert=/c.pem",
        levels);
    assert_string_equal(levels[0].index_url, "https://a/simple");
    assert_string_equal(levels[0].find_links, "\n/one\n/two");
    assert_string_equal(levels[0].cert, "/c.pem");
    assert_string_equal(levels[1].trusted_host, "h1 h2");
    assert_null(levels[1].index_url);
    read_text("[global]\nindex-url = https://b\n", levels); /* a stronger file */
    assert_string_equal(levels[0].index_url, "https://b");
    read_text("no section = x\n[\n]\n=\n[global\nx", levels);
    pip_settings_release(&levels[0]);
    pip_settings_release(&levels[1]);
}

static int make(const char *index, const char *extra, const char *links,
                const struct pip_options *options, struct pip_config **ret, struct gb_err *err)
{
    struct pip_settings settings = { .index_url = (char *) index,
                                     .extra_index_url = (char *) extra,
                                     .find_links = (char *) links };

    return pip_config_make(&settings, options, ret, err);
}

static void test_defaults(void **state)
{
    struct pip_options none = { .index_url = "none" }, usual = { 0 };
    struct pip_config *config;
    struct gb_err err;

    (void) state;
    assert_int_equal(make(NULL, NULL, NULL, &usual, &config, &err), 0);
    assert_true(pip_config_any(config));
    assert_int_equal(config->hosts_len, 2); /* the index, and where it has its files */
    pip_config_free(config);
    assert_int_equal(make("https://a/simple", "https://b/simple", NULL, &none, &config, &err), 0);
    assert_false(pip_config_any(config));
    assert_int_equal(config->hosts_len, 0);
    pip_config_free(config);
    assert_int_equal(make(NULL, NULL, "/usr /nonexistent/wheels", &none, &config, &err), 0);
    assert_string_equal(config->find_links[0], "file:///packages/.1");
    assert_string_equal(config->dirs[0], "/usr");
    assert_null(config->find_links[1]);
    assert_non_null(strstr(config->note, "/nonexistent/wheels"));
    assert_false(config->proxy);
    pip_config_free(config);
}

static void test_passwords(void **state)
{
    struct pip_options usual = { 0 };
    struct pip_config *config;
    struct gb_err err;

    (void) state;
    assert_int_equal(make("https://al%40ice:s%3Acret@host.example:8443/simple/", NULL, NULL, &usual,
                          &config, &err),
                     0);
    assert_string_equal(config->index_url, "http://host.example:8443/simple/");
    assert_string_equal(config->trusted_hosts[0], "host.example");
    assert_int_equal(config->hosts_len, 1);
    assert_int_equal(config->hosts[0].port, 8443);
    /* al@ice:s:cret */
    assert_string_equal(config->hosts[0].authorization, "Basic YWxAaWNlOnM6Y3JldA==");
    pip_config_free(config);
    /* What is not an escape is part of the password: a:%4, a:%zz%0041% */
    assert_int_equal(make("https://a:%4@host.example/", NULL, NULL, &usual, &config, &err), 0);
    assert_string_equal(config->hosts[0].authorization, "Basic YTolNA==");
    pip_config_free(config);
    assert_int_equal(make("https://a:%zz%0041%@host.example/", NULL, NULL, &usual, &config, &err),
                     0);
    assert_string_equal(config->hosts[0].authorization, "Basic YTolenolMDA0MSU=");
    pip_config_free(config);
    assert_int_equal(make("http://a:secret@host/simple", NULL, NULL, &usual, &config, &err),
                     -EPERM);
    assert_null(strstr(err.msg, "secret"));
}

static void test_bad(void **state)
{
    static const char *const urls[] = { "ftp://host/simple",    "https:///simple",
                                        "https://host:0/",      "https://host:99999/",
                                        "https://ho st/simple", "https://host:8x/",
                                        "relative/path",        "https://h\"ost/" };
    struct pip_options usual = { 0 };
    struct pip_config *config;
    struct gb_err err;

    (void) state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        if (make(urls[i], NULL, NULL, &usual, &config, &err) == 0)
            fail_msg("'%s' passes as '%s'", urls[i], config->index_url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_passwords),
        cmocka_unit_test(test_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
