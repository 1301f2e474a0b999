/* Addresses to listen at, and stale Unix sockets. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/http/listen.h"

#include "base/banned.h"

static void test_parse(void **state)
{
    static const struct {
        const char *text, *host;
        int port;
        bool local;
        const char *dialect;
    } cases[] = {
        { "127.0.0.1:8080", "127.0.0.1", 8080, true, "" },
        { ":0", "127.0.0.1", 0, true, "" },
        { "9000", "127.0.0.1", 9000, true, "" },
        { "[::1]:80", "::1", 80, true, "" },
        { "[::]:80", "::", 80, false, "" },
        { "0.0.0.0:1", "0.0.0.0", 1, false, "" },
        { "127.9.9.9:1", "127.9.9.9", 1, true, "" },
        { "localhost:1", "localhost", 1, true, "" },
        { "example.com:65535,dialect=locals", "example.com", 65535, false, "locals" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct listen_spec spec;

        assert_int_equal(listen_parse(cases[i].text, &spec, NULL), 0);
        assert_string_equal(spec.host, cases[i].host);
        assert_int_equal(spec.port, cases[i].port);
        assert_int_equal(listen_is_local(&spec), cases[i].local);
        assert_string_equal(spec.dialect, cases[i].dialect);
    }
}

static void test_refused(void **state)
{
    static const char *const cases[] = {
        "",
        ":",
        "localhost",
        "127.0.0.1:",
        "1.2.3.4:65536",
        "1.2.3.4:-1",
        "::1:80",
        "[::1:80",
        "[]:80",
        "a b:80",
        "x:80,dialect=",
        "x:80,dialect=A B",
        "unix:",
        "1.2.3.4:8x",
        "1.2.3.4:0000080",
    };
    char longer[200] = "unix:/";

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct listen_spec spec;
        struct gb_err err = { 0 };

        assert_true(listen_parse(cases[i], &spec, &err) < 0);
        assert_true(err.msg[0] != '\0');
    }
    memset(longer + 6, 'x', 150);
    assert_int_equal(listen_parse(longer, &(struct listen_spec){ 0 }, NULL), -ENAMETOOLONG);
}

static void test_unix(void **state)
{
    char dir[] = "/tmp/gb-listen-XXXXXX", text[64];
    struct sockaddr_storage addr;
    struct listen_spec spec;
    struct gb_err err;
    struct stat st;
    int fd, other;

    (void) state;
    assert_non_null(mkdtemp(dir));
    snprintf(text, sizeof text, "unix:%s/s", dir);
    assert_int_equal(listen_parse(text, &spec, &err), 0);
    assert_true(listen_is_local(&spec));
    assert_int_equal(listen_socket(&spec, &fd, &addr, &err), 0);
    assert_int_equal(lstat(spec.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(listen_socket(&spec, &other, &addr, &err), -EADDRINUSE);
    close(fd); /* as if the server had died */
    assert_int_equal(listen_socket(&spec, &fd, &addr, &err), 0);
    close(fd);
    unlink(spec.path);
    close(open(spec.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(listen_socket(&spec, &fd, &addr, &err), -EEXIST);
    assert_int_equal(unlink(spec.path), 0); /* still there */
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
