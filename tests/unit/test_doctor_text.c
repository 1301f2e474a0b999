/* The doctor's report as a table and as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "cli/terminal/doctor_text.h"

#include "base/banned.h"

#define LONG_REASON                                                                                \
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "    \
    "sixteen seventeen eighteen nineteen twenty twenty-one twenty-two twenty-three twenty-four"

static void make_report(struct doctor_report *report)
{
    *report = (struct doctor_report){
        .checks = { { .name = "user_namespace",
                      .group = "Walls",
                      .state = DOCTOR_ACTIVE,
                      .required = true,
                      .tried = true,
                      .reason = "one of its own" },
                    { .name = "landlock",
                      .group = "Walls",
                      .state = DOCTOR_OFF,
                      .tried = true,
                      .reason = "switched off",
                      .cure = "switch it on" },
                    { .name = "memory",
                      .group = "Limits",
                      .state = DOCTOR_FAILED,
                      .required = true,
                      .tried = true,
                      .reason = LONG_REASON,
                      .cure = LONG_REASON } },
        .checks_len = 3,
        .id_mode = "single",
        .cgroups = "none",
        .python = "3.11.2",
        .host = { .kernel = "6.1.0", .machine = "x86_64", .uid = 1000, .landlock_abi = 2 },
        .packages = { { .module = "numpy", .version = "1.24.2" }, { .module = "PIL" } },
        .packages_len = 2,
    };
}

static char *written(const struct doctor_report *report, bool colours)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    assert_int_equal(doctor_write(out, report, NULL, NULL, NULL, colours), 0);
    (void) fclose(out);
    return text;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
}

static void test_table(void **state)
{
    struct doctor_report report;
    autofree char *text = NULL;

    (void) state;
    make_report(&report);
    text = written(&report, false);
    assert_says(text, "Linux 6.1.0 on x86_64, as an ordinary user, Python 3.11.2 in the box\n");
    assert_says(text, "\nWalls\n  user namespace   active   one of its own\n");
    assert_says(text, "\n  landlock         off      switched off\n"
                      "                            fix: switch it on\n");
    assert_says(text, "\n\nLimits\n  memory           failed   one two ");
    assert_says(text, "\nCode cannot be isolated here: 1 active, 0 missing, 1 off, 1 failed.\n");
    assert_null(strchr(text, '\033'));
}

/* No line is too long or ends with a blank, and no word is lost. */
static void test_wrapping(void **state)
{
    struct doctor_report report;
    autofree char *text = NULL;
    char words[4096] = "";
    size_t lines = 0;

    (void) state;
    make_report(&report);
    text = written(&report, false);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        size_t len = strlen(line), used = strlen(words);

        assert_true(len <= DOCTOR_COLUMNS);
        assert_true(len == 0 || line[len - 1] != ' ');
        snprintf(words + used, sizeof words - used, " %s", line + strspn(line, " "));
        lines += strncmp(line, "                            ", 28) == 0;
    }
    assert_says(words, LONG_REASON " fix: " LONG_REASON);
    assert_true(lines >= 5);
}

static void test_a_word_too_long(void **state)
{
    struct doctor_report report;
    autofree char *text = NULL;
    char word[121];

    (void) state;
    make_report(&report);
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    snprintf(report.checks[0].reason, sizeof report.checks[0].reason, "%s and more", word);
    text = written(&report, false);
    assert_says(text, word);
    assert_says(text, "x\n                            and more\n");
}

static void test_colours(void **state)
{
    struct doctor_report report;
    autofree char *text = NULL;

    (void) state;
    make_report(&report);
    text = written(&report, true);
    assert_says(text, "\033[32mactive \033[0m");
    assert_says(text, "\033[33moff    \033[0m");
    assert_says(text, "\033[1;31mfailed \033[0m");
}

static void test_what_was_not_tried(void **state)
{
    struct doctor_report report;
    autofree char *text = NULL;

    (void) state;
    make_report(&report);
    report.checks[0].state = DOCTOR_FAILED;
    report.checks[1].tried = report.checks[2].tried = false;
    text = written(&report, false);
    assert_null(strstr(text, "landlock"));
    assert_null(strstr(text, "Limits"));
    assert_says(text, "\n2 more were not tried: no program could be run in a box.\n"
                      "Code cannot be isolated here.\n");
}

static void test_a_full_disk(void **state)
{
    struct doctor_report report;
    FILE *out = fopen("/dev/full", "we");

    (void) state;
    assert_non_null(out);
    make_report(&report);
    assert_true(doctor_write(out, &report, NULL, NULL, NULL, false) < 0);
    (void) fclose(out);
}

static const char *string_at(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void test_json(void **state)
{
    struct doctor_report report;
    json_t *json, *checks, *check, *host;

    (void) state;
    make_report(&report);
    json = doctor_to_json(&report, json_pack("[{s:s}]", "name", "big"), NULL);
    assert_non_null(json);
    assert_int_equal(json_array_size(json_object_get(json, "models")), 1);
    assert_true(json_is_false(json_object_get(json, "isolated")));
    checks = json_object_get(json, "checks");
    assert_int_equal(json_array_size(checks), 3);
    check = json_array_get(checks, 0);
    assert_string_equal(string_at(check, "name"), "user_namespace");
    assert_string_equal(string_at(check, "state"), "active");
    assert_true(json_is_true(json_object_get(check, "required")));
    assert_true(json_is_null(json_object_get(check, "cure")));
    check = json_array_get(checks, 2);
    assert_string_equal(string_at(check, "state"), "failed");
    assert_string_equal(string_at(check, "reason"), LONG_REASON);
    assert_string_equal(string_at(check, "cure"), LONG_REASON);
    host = json_object_get(json, "host");
    assert_string_equal(string_at(host, "kernel"), "6.1.0");
    assert_string_equal(string_at(host, "id_mode"), "single");
    assert_string_equal(string_at(host, "cgroups"), "none");
    assert_int_equal(json_integer_value(json_object_get(host, "landlock_abi")), 2);
    assert_string_equal(string_at(json_object_get(host, "packages"), "numpy"), "1.24.2");
    assert_true(json_is_null(json_object_get(json_object_get(host, "packages"), "PIL")));
    json_decref(json);
}

/* Nothing could be opened: what is not known is null. */
static void test_json_without_a_box(void **state)
{
    struct doctor_report report;
    json_t *json, *host;

    (void) state;
    make_report(&report);
    report.id_mode = report.cgroups = NULL;
    report.python[0] = '\0';
    json = doctor_to_json(&report, NULL, NULL);
    assert_int_equal(json_array_size(json_object_get(json, "models")), 0);
    host = json_object_get(json, "host");
    assert_true(json_is_null(json_object_get(host, "id_mode")));
    assert_true(json_is_null(json_object_get(host, "cgroups")));
    assert_true(json_is_null(json_object_get(host, "python")));
    json_decref(json);
}

static void test_models(void **state)
{
    struct doctor_report report;
    json_t *models = json_pack("[{s:s, s:s, s:s, s:s, s:b, s:s}, {s:s, s:s, s:b, s:s}]", "name",
                               "big", "model", "gpt-x", "provider", "openai", "source", "--model",
                               "reachable", 1, "reason", "", "name", "\033[2Jevil", "model",
                               "m\xc2\x9b", "reachable", 0, "reason", "no\nanswer");
    json_t *none = json_array();
    json_t *store = json_pack("{s:s, s:s, s:b, s:s}", "kind", "postgresql", "where", "there", "ok",
                              0, "reason", "gone\033");
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    (void) state;
    make_report(&report);
    assert_non_null(out);
    assert_int_equal(doctor_write(out, &report, models, store, "set it", false), 0);
    assert_int_equal(doctor_write(out, &report, none, NULL, "set a key", false), 0);
    (void) fclose(out);
    assert_says(text, "\nModels\n  big              active   gpt-x, openai, from --model\n");
    assert_says(text, "  ?[2Jevil         failed   m");
    assert_says(text, "no?answer");
    assert_says(text, "  none             missing  Mark has no language model, only its demo\n");
    assert_says(text, "fix: set a key\n");
    assert_says(text, "\nStore\n  postgresql       failed   there: gone?\n");
    assert_null(strchr(text, '\033'));
    free(text);
    json_decref(models);
    json_decref(none);
    json_decref(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_wrapping),
        cmocka_unit_test(test_a_word_too_long),
        cmocka_unit_test(test_colours),
        cmocka_unit_test(test_what_was_not_tried),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_without_a_box),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
