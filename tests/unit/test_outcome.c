#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "engine/frame.h"
#include "engine/outcome.h"

#include "base/banned.h"

/* The names are part of the receipt: they are promised, and never change. */
static void test_status_names(void **state)
{
    static const struct {
        enum run_status status;
        const char *name;
    } cases[] = {
        { RUN_OK, "ok" },
        { RUN_ERROR, "error" },
        { RUN_TIMEOUT, "timeout" },
        { RUN_OOM, "oom" },
        { RUN_KILLED, "killed" },
        { RUN_PIDS, "pids" },
        { RUN_DISK, "disk" },
        { RUN_OUTPUT, "output" },
        { RUN_CANCELLED, "cancelled" },
        { RUN_SYSTEM, "system" },
        { (enum run_status)(RUN_SYSTEM + 1), "system" },
        { (enum run_status) 1000, "system" },
    };

    (void) state;
    assert_int_equal(RUN_SYSTEM, 9); /* one added: name it above */
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(run_status_name(cases[i].status), cases[i].name);
}

static char *text(const char *words)
{
    char *copy = strdup(words);

    assert_non_null(copy);
    return copy;
}

static void assert_zero(const struct outcome *o)
{
    const struct stream_cut *cuts[] = { &o->out, &o->err };

    for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
        assert_null(cuts[i]->head);
        assert_null(cuts[i]->tail);
        assert_int_equal(cuts[i]->head_len + cuts[i]->tail_len, 0);
        assert_int_equal(cuts[i]->left_out, 0);
    }
    assert_null(o->files);
    assert_null(o->error_name);
    assert_null(o->error_value);
    assert_null(o->error_traceback);
    assert_int_equal(o->files_len, 0);
    assert_false(o->files_incomplete);
    assert_int_equal(o->error_name_len, 0);
    assert_int_equal(o->status, RUN_OK);
    assert_int_equal(o->limit, LIMIT_NONE);
    assert_int_equal(o->exit_code, 0);
    assert_int_equal(o->wall_us, 0);
    assert_null(o->result.json);
    assert_null(o->outputs);
    assert_int_equal(o->outputs_len + o->outputs_bytes + o->result.len, 0);
    assert_int_equal(o->outputs_left_out, 0);
}

static void test_outputs(void **state)
{
    struct outcome o = { 0 };

    (void) state;
    assert_int_equal(outcome_add_output(&o, "one", 3), 0);
    assert_int_equal(outcome_add_output(&o, "", 0), 0);
    assert_int_equal(outcome_set_result(&o, "result!", 6), 0);
    assert_int_equal(outcome_set_result(&o, "another", 7), 0);
    assert_int_equal(o.outputs_len, 2);
    assert_string_equal(o.outputs[0].json, "one");
    assert_int_equal(o.outputs[1].len, 0);
    assert_string_equal(o.result.json, "result");
    assert_int_equal(o.outputs_bytes, 9);
    assert_int_equal(o.outputs_left_out, 1);
    outcome_release(&o);
    assert_zero(&o);
}

static void test_outputs_are_counted(void **state)
{
    struct outcome o = { 0 };

    (void) state;
    for (size_t i = 0; i < FRAME_DISPLAYS_MAX + 7; i++)
        assert_int_equal(outcome_add_output(&o, &i, sizeof i), 0);
    assert_int_equal(o.outputs_len, FRAME_DISPLAYS_MAX);
    assert_int_equal(o.outputs_left_out, 7);
    for (size_t i = 0; i < o.outputs_len; i++)
        assert_memory_equal(o.outputs[i].json, &i, sizeof i);
    assert_int_equal(outcome_set_result(&o, "still", 5), 0);
    assert_string_equal(o.result.json, "still");
    outcome_release(&o);
}

static void test_outputs_are_weighed(void **state)
{
    autofree char *large = calloc(1, FRAME_BUNDLE_MAX + 1);
    struct outcome o = { 0 };

    (void) state;
    assert_non_null(large);
    assert_int_equal(outcome_add_output(&o, large, FRAME_BUNDLE_MAX + 1), 0);
    assert_int_equal(o.outputs_len, 0);
    assert_int_equal(o.outputs_left_out, 1);
    for (int i = 0; i < 5; i++)
        assert_int_equal(outcome_add_output(&o, large, FRAME_BUNDLE_MAX), 0);
    assert_int_equal(o.outputs_len, FRAME_DISPLAYS_BYTES / FRAME_BUNDLE_MAX);
    assert_int_equal(o.outputs_bytes, FRAME_DISPLAYS_BYTES);
    assert_int_equal(o.outputs_left_out, 3);
    assert_int_equal(outcome_set_result(&o, "x", 1), 0);
    assert_null(o.result.json);
    assert_int_equal(o.outputs_left_out, 4);
    outcome_release(&o);
}

/* What is not freed here the sanitizer reports. */
static void test_release_full(void **state)
{
    struct outcome outcome = { 0 };

    (void) state;
    outcome.status = RUN_ERROR;
    outcome.limit = LIMIT_PIDS;
    outcome.exit_code = 1;
    outcome.wall_us = outcome.cpu_us = outcome.memory_peak_bytes = outcome.processes = 9;
    outcome.out = (struct stream_cut){ text("head"), text("tail"), 4, 4, 17 };
    outcome.err = (struct stream_cut){ text("head"), text("tail"), 4, 4, 17 };
    outcome.files = calloc(3, sizeof *outcome.files);
    assert_non_null(outcome.files);
    outcome.files_len = 3;
    for (size_t i = 0; i < 3; i++)
        outcome.files[i].path = text("some/path");
    outcome.files_incomplete = true;
    outcome.error_name = text("ValueError");
    outcome.error_value = text("no");
    outcome.error_traceback = text("Traceback");
    outcome.error_name_len = 10;

    outcome_release(&outcome);
    assert_zero(&outcome);
    outcome_release(&outcome); /* twice does no harm */
    assert_zero(&outcome);
}

static void test_release_half_filled(void **state)
{
    struct outcome outcome = { 0 };

    (void) state;
    outcome_release(NULL);

    outcome_release(&outcome);
    assert_zero(&outcome);

    /* A run that failed while its outcome was made: lengths without data, data without the rest. */
    outcome.files_len = 5;
    outcome.out.head_len = 3;
    outcome_release(&outcome);
    assert_zero(&outcome);

    outcome.err.tail = text("only a tail");
    outcome.error_value = text("only a value");
    outcome_release(&outcome);
    assert_zero(&outcome);

    outcome.files = calloc(2, sizeof *outcome.files);
    assert_non_null(outcome.files);
    outcome.files_len = 2;
    outcome.files[1].path = text("the first has none");
    outcome_release(&outcome);
    assert_zero(&outcome);

    /* Nothing changed: a list without entries is still a list to be freed. */
    outcome.files = calloc(1, sizeof *outcome.files);
    assert_non_null(outcome.files);
    outcome_release(&outcome);
    assert_zero(&outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_names),        cmocka_unit_test(test_release_full),
        cmocka_unit_test(test_release_half_filled), cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_outputs_are_counted), cmocka_unit_test(test_outputs_are_weighed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
