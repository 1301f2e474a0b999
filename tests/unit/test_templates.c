#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "service/template/templates.h"

#include "base/banned.h"

static char dir[] = "/tmp/gb-templates-XXXXXX";

static int setup(void **state)
{
    (void) state;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    char path[128];

    (void) state;
    snprintf(path, sizeof path, "%s/templates", dir);
    (void) rmdir(path);
    return rmdir(dir);
}

static void test_names(void **state)
{
    static const char *const good[] = { "a", "A9", "py3.12", "python:3.12-slim", "a-b_c" };
    static const char *const bad[] = { "",        ".",   "..",     ".a",   "-a",        "a/b",
                                       "/a",      "a b", "a\n",    "\xff", "a\xc3\xa9", "a=b",
                                       "default", "a*",  "system", "auto" };
    char longest[70];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(template_name_valid(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(template_name_valid(bad[i]));
    memset(longest, 'x', sizeof longest);
    longest[64] = '\0';
    assert_true(template_name_valid(longest));
    longest[64] = 'x';
    longest[65] = '\0';
    assert_false(template_name_valid(longest));
}

static void test_alias_form(void **state)
{
    static const char *const good[] = { "a=b", "python:3.12*=py312", "x/y:z=default", "*=a" };
    static const char *const bad[] = { "",      "a",     "=a",   "a=",    "a= b",  "a b=c",
                                       "a=b/c", "[a]=b", "a?=b", "a\\=b", "a=b=c", "\xff=a" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(template_alias_valid(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(template_alias_valid(bad[i]));
}

static struct template_entry entry_of(const char *name)
{
    struct template_entry entry = { .kind = TEMPLATE_KIND_VENV };

    (void) snprintf(entry.name, sizeof entry.name, "%s", name);
    entry.source = strdup("/srv/v");
    entry.python = strdup("/srv/v/bin/python3");
    entry.preload = strdup("one two");
    entry.binds = calloc(3, sizeof *entry.binds);
    assert_non_null(entry.binds);
    entry.binds[0] = strdup("/srv/v/bin");
    entry.binds[1] = strdup("/srv/v/lib");
    return entry;
}

static void save(const char *name)
{
    struct template_entry entry = entry_of(name);
    struct gb_err err;

    assert_int_equal(templates_save(dir, &entry, true, &err), 0);
    template_entry_release(&entry);
}

static void drop(const char *name)
{
    struct gb_err err;

    assert_int_equal(templates_remove(dir, name, &err), 0);
}

static void test_round_trip(void **state)
{
    struct template_entry entry = entry_of("lab"), back = { 0 };
    struct template_def def;
    struct gb_err err;
    char **names;

    (void) state;
    assert_int_equal(templates_load(dir, "lab", &back, &err), -ENOENT);
    assert_string_equal(err.msg, "no such template: 'lab'; available: system");
    assert_int_equal(templates_save(dir, &entry, false, &err), 0);
    assert_int_equal(templates_save(dir, &entry, false, &err), -EEXIST);
    assert_int_equal(templates_save(dir, &entry, true, &err), 0);
    assert_int_equal(templates_load(dir, "lab", &back, &err), 0);
    def = template_entry_def(&back);
    assert_string_equal(def.name, "lab");
    assert_string_equal(def.python, entry.python);
    assert_string_equal(def.preload, "one two");
    assert_string_equal(def.binds[1], "/srv/v/lib");
    assert_null(def.binds[2]);
    assert_int_equal(back.kind, TEMPLATE_KIND_VENV);
    template_entry_release(&back);
    template_entry_release(&entry);
    assert_int_equal(templates_names(dir, &names, &err), 0);
    assert_string_equal(names[0], "lab");
    assert_null(names[1]);
    templates_names_free(names);
    drop("lab");
    assert_int_equal(templates_remove(dir, "lab", &err), -ENOENT);
    assert_int_equal(templates_remove(dir, "../x", &err), -EINVAL);
}

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void write_definition(const char *name, const char *packages, const char *layer,
                             const char *made_for)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/templates/%s.json", dir, name);
    file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file,
            "{\"version\": 1, \"kind\": \"packages\", \"source\": \"/usr/bin/python3\", "
            "\"python\": \"" VENV_PYTHON "\", \"preload\": \"six\", \"binds\": [], "
            "\"packages\": %s, \"layer\": %s, \"made_for\": %s}",
            packages, layer, made_for);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_int_equal(fclose(file), 0);
}

static void test_packages(void **state)
{
    static const struct {
        const char *packages, *layer, *made_for;
        bool good;
    } rows[] = {
        { "[\"six\"]", "\"" KEY "\"", "\"/usr/bin/python3.11\"", true },
        { "[\"six>=1,<2\", \"b[c]\"]", "\"" KEY "\"", "\"\"", true },
        { "[\"six\"]", "\"\"", "\"\"", false },
        { "[\"six\"]", "\"../x\"", "\"\"", false },
        { "[\"six\"]", "\"../../../../../../../../../../../../../../../../../../../../../etc\"",
          "\"\"", false },
        { "[\"six\"]", "\"" KEY "0\"", "\"\"", false },
        { "[\"six\"]", "\"" KEY "\\u0000\"", "\"\"", false },
        { "[\"six\"]", "null", "\"\"", false },
        { "[\"six\"]", "7", "\"\"", false },
        { "[\"six\"]", "\"" KEY "\"", "null", false },
        { "[]", "\"" KEY "\"", "\"\"", false },
        { "null", "\"" KEY "\"", "\"\"", false },
        { "\"six\"", "\"" KEY "\"", "\"\"", false },
        { "[\"six\", 1]", "\"" KEY "\"", "\"\"", false },
        { "[\"; rm -rf /\"]", "\"" KEY "\"", "\"\"", false },
    };
    struct template_entry entry = { 0 };
    struct gb_err err;

    (void) state;
    save("lab"); /* makes the directory */
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        write_definition("lab", rows[i].packages, rows[i].layer, rows[i].made_for);
        assert_int_equal(templates_load(dir, "lab", &entry, &err), rows[i].good ? 0 : -EINVAL);
        if (!rows[i].good)
            continue;
        assert_int_equal(entry.kind, TEMPLATE_KIND_PACKAGES);
        assert_null(template_entry_def(&entry).packages.dir); /* not before it is looked for */
        /* It comes back as it was. */
        assert_int_equal(templates_save(dir, &entry, true, &err), 0);
        template_entry_release(&entry);
        assert_int_equal(templates_load(dir, "lab", &entry, &err), 0);
        assert_string_equal(entry.packages[0], i == 0 ? "six" : "six>=1,<2");
        assert_string_equal(entry.layer, KEY);
        assert_string_equal(entry.made_for, i == 0 ? "/usr/bin/python3.11" : "");
        template_entry_release(&entry);
    }
    drop("lab");
}

static void test_venv_lib(void **state)
{
    static const char *const good[] = { "python3.9", "python3.11", "python3.100" };
    static const char *const bad[] = {
        "",           "python3",           "python3.",     "python3.x",
        "python2.7",  "python3.11t",       "../python3.1", "python3.11/..",
        "Python3.11", "python3.1111111111"
    };
    char lib[VENV_LIB_MAX];
    struct gb_err err;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(venv_lib_valid(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(venv_lib_valid(bad[i]));
    assert_int_equal(template_venv_lib(lib, &err), 0);
    assert_true(venv_lib_valid(lib));
}

/* What keeps a layer from being pruned. */
static void test_layer_is_named(void **state)
{
    char other[] = KEY;

    (void) state;
    other[0] = 'f';
    assert_false(templates_name_layer("/nonexistent", KEY));
    save("venv");
    write_definition("lab", "[\"six\"]", "\"" KEY "\"", "\"\"");
    assert_true(templates_name_layer(dir, KEY));
    assert_false(templates_name_layer(dir, other));
    write_definition("lab", "7", "\"" KEY "\"", "\"of a later version\"");
    assert_true(templates_name_layer(dir, KEY));
    write_definition("lab", "{", "\"" KEY "\"", "\"\"");
    assert_false(templates_name_layer(dir, KEY)); /* damaged: no template */
    drop("lab");
    assert_false(templates_name_layer(dir, KEY));
    drop("venv");
}

static void test_resolve(void **state)
{
    static const char *const aliases[] = { "img:1*=one",      "img:*=two", "gone=three",
                                           "python:3.9*=one", "two=one",   NULL };
    static const struct {
        const char *wanted, *name; /* NULL: unknown */
    } rows[] = {
        { "default", "two" },
        { "system", "system" },
        { "auto", NULL },
        { "one", "one" },
        { "two", "two" }, /* its own name comes before an alias */
        { "img:1.2", "one" },
        { "img:2", "two" },
        { "python", "two" },
        { "python:3.12-slim", "two" },
        { "python:3.9-slim", "one" },
        { "docker.io/library/python:3", "two" },
        { "gone", NULL },
        { "three", NULL },
        { "pythonx", NULL },
        { "../one", NULL },
        { "one.json", NULL },
        { "", NULL },
    };
    char name[TEMPLATE_NAME_MAX], big[5001];
    struct gb_err err;

    (void) state;
    save("one");
    save("two");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int r = templates_resolve(dir, aliases, "two", rows[i].wanted, name, &err);

        if (rows[i].name) {
            assert_int_equal(r, 0);
            assert_string_equal(name, rows[i].name);
        } else {
            assert_int_equal(r, -ENOENT);
            assert_non_null(strstr(err.msg, "available: system, one, two"));
        }
    }
    memset(big, '*', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_int_equal(templates_resolve(dir, aliases, "two", big, name, &err), -ENOENT);
    assert_int_equal(templates_resolve(dir, NULL, "system", "python:1", name, &err), 0);
    assert_int_equal(templates_resolve("/nonexistent", NULL, "gone", "default", name, &err), 0);
    /* It may have been removed since the service started. */
    assert_string_equal(name, "gone");
    assert_int_equal(templates_resolve("/nonexistent", NULL, "gone", "one", name, &err), -ENOENT);
    drop("one");
    drop("two");
}

/* Many names: the message still ends. */
static void test_many(void **state)
{
    char name[TEMPLATE_NAME_MAX];
    struct gb_err err;

    (void) state;
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "template-%02d", i);
        save(name);
    }
    assert_int_equal(templates_resolve(dir, NULL, "system", "nope", name, &err), -ENOENT);
    assert_non_null(strstr(err.msg, "template-00, "));
    assert_non_null(strstr(err.msg, "…"));
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "template-%02d", i);
        drop(name);
    }
}

/* Which one is the default, and what becomes of one that cannot be used. */
static void test_default(void **state)
{
    struct template_entry entry = { 0 };
    struct gb_err note, err;

    (void) state;
    assert_int_equal(template_default(dir, "auto", &entry, &note, &err), 0);
    assert_string_equal(entry.name, "system");
    assert_string_equal(entry.python, "/usr/bin/python3");
    assert_string_equal(entry.preload, engine_preload_all);
    assert_string_equal(note.msg, "");
    template_entry_release(&entry);
    assert_int_equal(template_default("/nonexistent", "auto", &entry, &note, &err), 0);
    template_entry_release(&entry);
    assert_int_equal(template_default(dir, "nope", &entry, &note, &err), -ENOENT);
    save("lab");
    assert_int_equal(template_default(dir, "auto", &entry, &note, &err), 0);
    assert_string_equal(entry.name, "system");
    template_entry_release(&entry);
    assert_int_equal(template_default(dir, "lab", &entry, &note, &err), 0);
    assert_string_equal(entry.name, "lab");
    template_entry_release(&entry);
    drop("lab");
    save("data");
    assert_int_equal(template_default(dir, "auto", &entry, &note, &err), 0);
    assert_string_equal(entry.name, "data");
    template_entry_release(&entry);
    assert_int_equal(template_default(dir, "system", &entry, &note, &err), 0);
    assert_string_equal(entry.name, "system");
    template_entry_release(&entry);
    /* One for a Python that is gone: auto does without, a name does not. */
    write_definition("data", "[\"six\"]", "\"" KEY "\"", "\"/usr/bin/python3.1\"");
    assert_int_equal(template_default(dir, "data", &entry, &note, &err), -ESTALE);
    assert_int_equal(template_default(dir, "auto", &entry, &note, &err), 0);
    assert_string_equal(entry.name, "system");
    assert_non_null(strstr(note.msg, "are for /usr/bin/python3.1"));
    template_entry_release(&entry);
    drop("data");
}

static void test_versions(void **state)
{
    static const char *const names[] = { "scikit_learn-1.9.1.dist-info",
                                         "Old-2.0-py3.11.egg-info",
                                         "six.py",
                                         "nope.dist-info",
                                         "-1.dist-info",
                                         "bad-\x1b.dist-info" };
    struct template_entry entry = { .kind = TEMPLATE_KIND_PACKAGES };
    autofree char *text = NULL;
    json_t *json;
    char path[160];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    entry.packages_dir = dir;
    json = template_versions(&entry);
    text = json_dumps(json, JSON_COMPACT);
    assert_string_equal(text, "[{\"name\":\"old\",\"version\":\"2.0\"},"
                              "{\"name\":\"scikit-learn\",\"version\":\"1.9.1\"}]");
    json_decref(json);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        assert_int_equal(rmdir(path), 0);
    }
}

static void test_find(void **state)
{
    struct template_entry entry = { 0 };
    struct gb_err err;

    (void) state;
    assert_int_equal(template_find(TEMPLATE_KIND_PYTHON, "/usr/bin/python3", &entry, &err), 0);
    assert_int_equal(strncmp(entry.python, "/usr/bin/python3", 16), 0);
    assert_null(entry.binds[0]); /* every box has it */
    template_entry_release(&entry);
    assert_int_equal(template_find(TEMPLATE_KIND_PYTHON, "/usr/bin", &entry, &err), -EISDIR);
    assert_int_equal(template_find(TEMPLATE_KIND_PYTHON, "/dev/null", &entry, &err), -EACCES);
    assert_int_equal(template_find(TEMPLATE_KIND_PYTHON, "/none", &entry, &err), -ENOENT);
    assert_int_equal(template_find(TEMPLATE_KIND_PYTHON, "", &entry, &err), -ENOENT);
    assert_int_equal(template_find(TEMPLATE_KIND_PYTHON, "/\xff", &entry, &err), -EILSEQ);
    assert_int_equal(template_find(TEMPLATE_KIND_VENV, "/usr", &entry, &err), -EINVAL);
    assert_int_equal(template_find(TEMPLATE_KIND_VENV, "/usr/bin/env", &entry, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),      cmocka_unit_test(test_alias_form),
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_resolve),
        cmocka_unit_test(test_many),       cmocka_unit_test(test_find),
        cmocka_unit_test(test_packages),   cmocka_unit_test(test_layer_is_named),
        cmocka_unit_test(test_venv_lib),   cmocka_unit_test(test_default),
        cmocka_unit_test(test_versions),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
