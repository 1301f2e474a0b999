/* What may be asked of an installer, and what not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "service/package/requirement.h"

#include "base/banned.h"

static void test_good(void **state)
{
    static const struct {
        const char *text, *normal, *result;
        bool versioned;
    } rows[] = {
        { "requests", "requests", "requests", false },
        { "  requests  ", "requests", "requests", false },
        { "Zope.Interface", "zope-interface", "Zope.Interface", false },
        { "a__b-.c", "a-b-c", "a__b-.c", false },
        { "requests==2.31.0", "requests", "requests==2.31.0", true },
        { "requests (>=2, <3)", "requests", "requests>=2,<3", true },
        { "requests >= 2.8.1 , == 2.8.*", "requests", "requests>=2.8.1,==2.8.*", true },
        { "requests[security,tests]>=2", "requests", "requests[security,tests]>=2", true },
        { "x[]", "x", "x[]", false },
        { "x [ a , b ]", "x", "x[a,b]", false },
        { "x~=1.4.2", "x", "x~=1.4.2", true },
        { "x===1.0", "x", "x===1.0", true },
        { "x!=1!2.0rc1.post2.dev3+local.1", "x", "x!=1!2.0rc1.post2.dev3+local.1", true },
        { "x<v1.0-alpha.2", "x", "x<v1.0-alpha.2", true },
        { "x==1.0-1", "x", "x==1.0-1", true },
        { "x; python_version < '3.8'", "x", "x ; python_version < '3.8'", false },
        { "x>1;(os_name=='a b' or extra!=\"t\")and sys_platform not in 'win32'", "x",
          "x>1 ; (os_name == 'a b' or  extra != \"t\") and  sys_platform not in 'win32'", true },
        { "9lives", "9lives", "9lives", false },
    };
    struct requirement r;
    struct gb_err err;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (requirement_parse(rows[i].text, false, &r, &err) < 0)
            fail_msg("'%s': %s", rows[i].text, err.msg);
        assert_string_equal(r.text, rows[i].result);
        assert_string_equal(r.normal, rows[i].normal);
        assert_int_equal(r.versioned, rows[i].versioned);
        assert_false(r.is_url);
    }
}

static void test_bad(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "x; rm -rf /",
        "x;rm",
        "../../etc",
        "./x",
        "/etc/passwd",
        "~/x",
        "x/y",
        "-r requirements.txt",
        "--index-url=http://evil",
        "-e .",
        "x -e .",
        "x --pre",
        "x==1.0 --hash=sha256:00",
        "x y",
        "x,y",
        "x\ny",
        "x\n--index-url http://evil",
        "x==1\n",
        "x\x01",
        "x\t==\n1",
        "$(id)",
        "`id`",
        "x|y",
        "x&y",
        "x>=",
        "x==",
        "x>=1,",
        "x>=1,,<2",
        "x=1",
        "x>>1",
        "x(>=1",
        "x>=1)",
        "x[",
        "x[a",
        "x[a,]",
        "x[,a]",
        "x[a b]",
        "x[../a]",
        "x==1.0.*.*",
        "x>=1.*",
        "x==1..0",
        "x==latest",
        "x==1.0+",
        "x==1.0+a..b",
        "_x",
        "x_",
        ".x",
        "x.",
        "x;",
        "x; python_version",
        "x; python_version < 3.8",
        "x; python_version < '3",
        "x; python_version < '3\"",
        "x; evil == '1'",
        "x; os_name == 'a' and",
        "x; os_name == '$(id)'",
        "x; (((((((((((os_name=='a')))))))))))",
        "caf\xc3\xa9",
        "x\xff",
    };
    char large[REQUIREMENT_MAX + 10], name[PACKAGE_NAME_MAX + 2];
    struct requirement r;
    struct gb_err err;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (requirement_parse(texts[i], false, &r, &err) == 0)
            fail_msg("'%s' passes as '%s'", texts[i], r.text);
        assert_true(err.code == EINVAL || err.code == EPERM);
    }
    memset(large, 'a', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    assert_int_equal(requirement_parse(large, false, &r, &err), -EINVAL);
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(requirement_parse(name, false, &r, &err), -EINVAL);
    name[PACKAGE_NAME_MAX] = '\0';
    assert_int_equal(requirement_parse(name, false, &r, &err), 0);
}

static void test_urls(void **state)
{
    static const char *const bad[] = {
        "x @ file:///etc/passwd",      "x @ /etc/passwd",
        "x @ https://a:b@host/x.whl",  "x @ ssh://host/x",
        "x @ https://host/x.whl y",    "x @ https://host/x.whl;os_name",
        "x @ https://host/\"x\".whl",  "https://host/x.whl",
        "git+https://host/x",          "x @",
        "x @ https://*/x.whl",         "x @ https://*.com/x.whl",
        "x @ https:///x.whl",          "x @ git+https://?x",
        "x @ https://host/x.whl\n-e.",
    };
    static const char *const good[] = { "x @ https://host/x-1-py3-none-any.whl#sha256=00",
                                        "x@http://host:8080/x.whl", "x @ git+https://host/x.git" };
    struct requirement r;
    struct gb_err err;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(requirement_parse(good[i], false, &r, &err), -EPERM);
        assert_non_null(strstr(err.msg, "operator"));
        if (requirement_parse(good[i], true, &r, &err) < 0)
            fail_msg("'%s': %s", good[i], err.msg);
        assert_true(r.is_url && r.versioned);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (requirement_parse(bad[i], true, &r, &err) == 0)
            fail_msg("'%s' passes as '%s'", bad[i], r.text);
}

static void test_lists(void **state)
{
    (void) state;
    assert_true(package_listed("os, Sub_Process,sys", "sub-process"));
    assert_true(package_listed("os", "os"));
    assert_false(package_listed("osx,so", "os"));
    assert_false(package_listed("", "os"));
    assert_false(package_listed(NULL, "os"));
    assert_false(package_listed(",, ,", "os"));
    assert_false(package_listed("-", ""));
}

static void test_split(void **state)
{
    static const struct {
        const char *list, *items[4];
    } rows[] = {
        { "a", { "a" } },
        { "a,b", { "a", "b" } },
        { " humanize >= 4 , ujson ", { "humanize >= 4", "ujson" } },
        { "x>=1,<2,y", { "x>=1,<2", "y" } },
        { "x>=1, !=1.5 ,~=1.2,y", { "x>=1, !=1.5 ,~=1.2", "y" } },
        { "x[a,b]>=1,y(>=1,<2),z", { "x[a,b]>=1", "y(>=1,<2)", "z" } },
        { "x; python_version in '3.8,3.9',y", { "x; python_version in '3.8,3.9'", "y" } },
        { "x @ https://h/a,b", { "x @ https://h/a,b" } },
        { "y,x @ https://h/a,b", { "y", "x @ https://h/a,b" } },
        { "", { "" } },
        { "a,", { "a", "" } },
        { ",,a", { "", "", "a" } },
        { "x[a,b", { "x[a,b" } },
        { "x],b", { "x]", "b" } },
        { "x'a,b", { "x'a,b" } },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *rest = rows[i].list, *start;
        size_t n = 0, len;

        while (rest) {
            len = requirement_next(&rest, &start);
            assert_true(n < ARRAY_LEN(rows[i].items) && rows[i].items[n]);
            assert_int_equal(len, strlen(rows[i].items[n]));
            assert_memory_equal(start, rows[i].items[n], len);
            n++;
        }
        assert_true(n == ARRAY_LEN(rows[i].items) || !rows[i].items[n]);
    }
}

static void test_lookalike(void **state)
{
    static const char *const rows[][2] = {
        { "request", "requests" },
        { "reqests", "requests" },
        { "requestss", "requests" },
        { "erquests", "requests" },
        { "pandsa", "pandas" },
        { "numpyy", "numpy" },
        { "nunpy", "numpy" },
        { "requests", NULL },
        { "six", NULL },
        { "sic", NULL },
        { "urllib2", "urllib3" },
        { "x", NULL },
        { "", NULL },
        { "scikit-learm", "scikit-learn" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *found = package_lookalike(rows[i][0]);

        if (!rows[i][1])
            assert_null(found);
        else
            assert_string_equal(found ? found : "", rows[i][1]);
    }
}

static void test_versions(void **state)
{
    static const char *const good[] = { "1", "2.31.0", "1.0a1", "1.0.dev4", "v3", "1!2", "1+a.b" };
    static const char *const bad[] = { "", "latest", "1.", ".1", "1..2", "1 ", "1;", "1+", "a" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(package_version_valid(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(package_version_valid(bad[i]));
}

/* A name and a version that come apart, as /pip_install has them. */
static void test_from_name(void **state)
{
    static const struct {
        const char *package, *version, *text; /* NULL: refused */
    } cases[] = {
        { "requests", NULL, "requests" },
        { "requests", "", "requests" },
        { "requests", "latest", "requests" },
        { "Zope.Interface[a, b]", "6.1rc1", "Zope.Interface[a,b]==6.1rc1" },
        { "requests", "1.x", NULL },
        { "requests", "1.0; rm", NULL },
        { "requests==1", NULL, NULL },
        { "requests ; os_name == 'nt'", NULL, NULL },
        { "requests @ https://example.org/x.whl", NULL, NULL },
        { "-r", NULL, NULL },
        { "../etc", NULL, NULL },
        { "a[b,]", NULL, NULL },
        { "", "1.0", NULL },
    };
    struct requirement item;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int r = requirement_from_name(cases[i].package, cases[i].version, &item);

        assert_int_equal(r, cases[i].text ? 0 : -EINVAL);
        if (r == 0)
            assert_string_equal(item.text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),      cmocka_unit_test(test_bad),
        cmocka_unit_test(test_urls),      cmocka_unit_test(test_lists),
        cmocka_unit_test(test_lookalike), cmocka_unit_test(test_versions),
        cmocka_unit_test(test_split),     cmocka_unit_test(test_from_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
