/* Tenants that stay: what they keep, what ends them, what they can do to us. */
#include <pthread.h>

#include "engine_harness.h"

#include "base/banned.h"

/* ---- what stays ---- */

static void test_remembers(void **state)
{
    struct place *place = *state;

    assert_ok(cell(place, "import os, math\nx = 41\ndef f(n): return n + x\nos.chdir('/tmp')"));
    prints(place, "print(f(1), math.pi > 3, os.getcwd(), os.environ['GREETING'])",
           "42 True /tmp hello\n");
    assert_ok(cell(place, "import threading\nstop = threading.Event()\n"
                          "t = threading.Thread(target=stop.wait, daemon=True)\nt.start()"));
    prints(place, "print(t.is_alive())\nstop.set()\nt.join()\nprint(t.is_alive())",
           "True\nFalse\n");
}

static void test_result(void **state)
{
    struct place *place = *state;
    struct outcome *o = cell(place, "6 * 7");

    assert_ok(o);
    assert_non_null(o->result.json);
    assert_non_null(strstr(o->result.json, "\"42\""));
    o = cell(place, "y = 1");
    assert_null(o->result.json);
}

static void test_exit_ends_the_cell(void **state)
{
    struct place *place = *state;
    struct outcome *o = cell(place, "x = 1\nimport sys\nsys.exit(3)");

    assert_ended(o, RUN_ERROR, 3);
    assert_false(o->lost);
    o = cell(place, "1 / 0");
    assert_ended(o, RUN_ERROR, 1);
    assert_string_equal(o->error_name, "ZeroDivisionError");
    assert_ok(cell(place, "raise SystemExit"));
    prints(place, "print(x)", "1\n");
}

static void test_input(void **state)
{
    struct place *place = *state;
    struct run_spec spec = spec_of("print(input()); import os; print(os.read(0, 10))");

    spec.input = "one\ntwo\n";
    spec.input_len = strlen(spec.input);
    assert_printed(cell_spec(place, &spec), "one\nb''\n");
    /* What was left of it is gone. */
    prints(place, "import sys\nprint(repr(sys.stdin.read()))", "''\n");
    spec.code = "print(sys.stdin.read())";
    spec.code_len = strlen(spec.code);
    assert_printed(cell_spec(place, &spec), "one\ntwo\n\n");
}

static void test_deep_recursion(void **state)
{
    struct place *place = *state;
    struct outcome *o = cell(place, "x = 5\ndef f(): f()\nf()");

    assert_ended(o, RUN_ERROR, 1);
    assert_string_equal(o->error_name, "RecursionError");
    prints(place, "print(x)", "5\n");
}

/* ---- what the world does meanwhile ---- */

static void file_put(struct place *place, const char *path, const char *text)
{
    struct upload *upload;
    struct gb_err err;

    if (upload_begin(place->box, path, 0644, &upload, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(write(upload_fd(upload), text, strlen(text)), strlen(text));
    if (upload_commit(upload, &err) < 0)
        fail_msg("%s", err.msg);
    upload_free(upload);
}

/* ---- stops ---- */

/* Cancels as soon as the cell prints something, once. */
static int press_when_printed(void *arg, enum stream stream, const char *data, size_t len)
{
    const int *fds = arg;

    (void) data;
    (void) len;
    if (stream == STREAM_OUT)
        (void) !write(fds[1], "x", 1);
    return 0;
}

static struct outcome *cell_until_printed(struct place *place, const char *code)
{
    struct run_spec spec = spec_of(code);
    struct outcome *o;
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    spec.cancel_fd = fds[0];
    spec.sink = (struct run_sink){ .arg = fds, .write = press_when_printed };
    o = cell_spec(place, &spec);
    (void) close(fds[0]);
    (void) close(fds[1]);
    return o;
}

static void test_timeout_keeps(void **state)
{
    struct place *place = *state;
    struct outcome *o;

    assert_ok(cell(place, "import time, os\nx = 7"));
    o = cell_within(place, "while True: time.sleep(0.01)", 200);
    assert_ended(o, RUN_TIMEOUT, 124);
    assert_false(o->lost);
    assert_string_equal(o->error_name, "KeyboardInterrupt");
    prints(place, "print(x)", "7\n");
    /* Its own shell would not let the interrupt through. */
    o = cell_until_printed(place, "os.system('echo up; sleep 100')\ny = 8");
    assert_ended(o, RUN_CANCELLED, 130);
    assert_false(o->lost);
    prints(place, "print(x, y)", "7 8\n");
}

static void test_timeout_loses(void **state)
{
    struct place *place = *state;
    struct outcome *o;

    assert_ok(cell(place, "x = 7\nopen('kept.txt', 'w').write('still here')"));
    o = cell_within(place, "sum(range(10**12))", BEGUN_MS);
    assert_ended(o, RUN_TIMEOUT, 124);
    assert_true(o->lost);
    assert_false(resident_is_alive(place->resident));
    resident_again(place);
    prints(place, "print('x' in dir(), open('kept.txt').read())", "False still here\n");
}

static void test_deaf_loses(void **state)
{
    struct place *place = *state;
    struct outcome *o;

    assert_ok(cell(place, "import signal"));
    o = cell_within(place, "signal.signal(2, signal.SIG_IGN)\nwhile True: pass", BEGUN_MS);
    assert_ended(o, RUN_TIMEOUT, 124);
    assert_true(o->lost);
}

static void test_cpu_limit(void **state)
{
    struct place *place = *state;
    struct run_spec spec = spec_of("while True: pass");

    assert_ok(cell(place, "x = 7"));
    spec.limits.cpu_us = 200 * USEC_PER_MSEC;
    assert_ended(cell_spec(place, &spec), RUN_TIMEOUT, 124);
    assert_int_equal(place->outcome.limit, LIMIT_CPU_TIME);
    /* Per execution: what earlier ones used is not counted again. */
    spec.code = "print(x)";
    spec.code_len = strlen(spec.code);
    assert_printed(cell_spec(place, &spec), "7\n");
}

static void *press(void *arg)
{
    int *fds = arg;

    (void) usleep((useconds_t) fds[2]);
    (void) !write(fds[1], "x", 1);
    return NULL;
}

static void test_cancel(void **state)
{
    struct place *place = *state;
    struct outcome *o = cell_until_printed(place, "import time\nx = 1\nprint(x)\ntime.sleep(60)");

    assert_ended(o, RUN_CANCELLED, 130);
    assert_false(o->lost);
    prints(place, "print(x)", "1\n");
}

/* Asked twice means at once. */
static int press_always(void *arg, enum stream stream, const char *data, size_t len)
{
    (void) press_when_printed(arg, STREAM_OUT, data, len);
    return press_when_printed(arg, stream, data, len);
}

static void test_cancel_twice(void **state)
{
    struct place *place = *state;
    struct run_spec spec = spec_of("import signal\nsignal.signal(2, signal.SIG_IGN)\nprint(1)\n"
                                   "while True: pass");
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    spec.cancel_fd = fds[0];
    spec.sink = (struct run_sink){ .arg = fds, .write = press_always };
    assert_ended(cell_spec(place, &spec), RUN_CANCELLED, 130);
    assert_true(place->outcome.lost);
    (void) close(fds[0]);
    (void) close(fds[1]);
}

/* In the moment in which a cell is done it cannot be killed any more: whatever is asked then, the
 * session is either lost and said to be, or it goes on. */
static void test_cancel_at_the_end(void **state)
{
    struct place *place = *state;
    struct run_spec spec = spec_of("print(1)");
    char waste[8];
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    spec.cancel_fd = fds[0];
    spec.sink = (struct run_sink){ .arg = fds, .write = press_always };
    for (int i = 0; i < 50; i++) {
        struct outcome *o = cell_spec(place, &spec);

        while (read(fds[0], waste, sizeof waste) > 0)
            ;
        if (o->lost)
            resident_again(place);
        prints(place, "print(2)", "2\n");
    }
    (void) close(fds[0]);
    (void) close(fds[1]);
}

/* An interrupt that comes just before, at or just after the end of a cell is for that cell or for
 * nobody. With a thread about that could take the signal in the wrong moment. */
static void test_late_interrupts(void **state)
{
    struct place *place = *state;
    struct run_spec spec = spec_of("for _ in range(200): pass");
    int fds[3], hit = 0;
    char waste[8];

    assert_ok(cell(place, "import threading, time\n"
                          "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"));
    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    spec.cancel_fd = fds[0];
    for (int i = 0; i < 120; i++) {
        pthread_t thread;
        struct outcome *o;

        fds[2] = i * 2; /* from before the cell to after it */
        assert_int_equal(pthread_create(&thread, NULL, press, fds), 0);
        if (i == 0)
            pthread_join(thread, NULL); /* one of them surely is in time */
        o = cell_spec(place, &spec);
        if (o->status == RUN_CANCELLED)
            hit++;
        else
            assert_ok(o);
        assert_false(o->lost);
        if (i != 0)
            pthread_join(thread, NULL);
        while (read(fds[0], waste, sizeof waste) > 0)
            ;
        prints(place, "print(sum(range(10)))", "45\n");
    }
    assert_true(hit > 0);
    (void) close(fds[0]);
    (void) close(fds[1]);
}

/* ---- ends ---- */

struct end_case {
    const char *name, *code;
    enum run_status status;
    int exit_code;
    int64_t wall_ms; /* 0: as always */
};

static const struct end_case end_cases[] = {
    { "_exit", "import os\nos._exit(7)", RUN_ERROR, 7, 0 },
    { "_exit 0", "import os\nos._exit(0)", RUN_OK, 0, 0 },
    { "its group", "import os\nos.killpg(0, 9)", RUN_KILLED, 137, 0 },
    { "crash", "import ctypes\nctypes.string_at(0)", RUN_KILLED, 139, 0 },
    { "stopped", "import os\nos.kill(os.getpid(), 19)", RUN_TIMEOUT, 124, 200 },
    { "closed control", "import os\nos.close(3)", RUN_OK, 0, 0 },
    { "garbage", "import os, time\nos.write(3, b'garbage')\ntime.sleep(60)", RUN_KILLED, 137, 0 },
    { "a RUN", "import os, time\nos.write(3, bytes([1,1,0,0,0,0,0,0,0,0,0,0]))\ntime.sleep(60)",
      RUN_KILLED, 137, 0 },
};

static void test_ends(void **state)
{
    struct place *place = *state;

    for (size_t i = 0; i < ARRAY_LEN(end_cases); i++) {
        const struct end_case *c = &end_cases[i];
        struct run_spec spec = spec_of("1");
        struct outcome *o, never;
        struct gb_err err;

        o = c->wall_ms ? cell_within(place, c->code, c->wall_ms) : cell(place, c->code);
        if (o->status != c->status || o->exit_code != c->exit_code || !o->lost)
            fail_msg("%s: %s %d, lost %d", c->name, run_status_name(o->status), o->exit_code,
                     o->lost);
        assert_int_equal(resident_run(place->resident, &spec, &never, &err), -ECHILD);
        resident_again(place);
        prints(place, "print('back')", "back\n");
    }
}

static void test_dies_between(void **state)
{
    struct place *place = *state;
    struct run_spec spec = spec_of("1");
    int64_t until = clock_now_us() + WALL_US;
    struct outcome never;
    struct gb_err err;

    assert_ok(cell(place, "import threading, time, os\n"
                          "def die():\n"
                          " while not os.path.exists('die'): time.sleep(0.01)\n"
                          " os._exit(1)\n"
                          "threading.Thread(target=die, daemon=True).start()"));
    file_put(place, "die", "");
    while (resident_is_alive(place->resident) && clock_now_us() < until)
        (void) usleep(1000);
    assert_int_equal(resident_run(place->resident, &spec, &never, &err), -ECHILD);
}

static void test_oom(void **state)
{
    struct place *place = *state;
    struct outcome *o = cell(place, "x = bytearray(2 << 30)");

    assert_ended(o, RUN_OOM, 137);
    resident_again(place);
    prints(place, "print('back')", "back\n");
}

static void test_pids(void **state)
{
    struct place *place = *state;
    struct outcome *o = cell(place, "import os, signal\npids = []\n"
                                    "for _ in range(500):\n"
                                    " p = os.fork()\n"
                                    " if p == 0:\n  signal.pause()\n"
                                    " pids.append(p)");

    assert_int_equal(o->status, RUN_PIDS);
    assert_false(o->lost);
    assert_ok(cell(place, "for p in pids: os.kill(p, 9)\nfor p in pids: os.waitpid(p, 0)"));
    prints(place, "print(os.system('true'))", "0\n");
}

/* ---- lies ---- */

/* What it sends is about nobody but itself: a DONE of another number is passed over. */
static void test_forged_done(void **state)
{
    struct place *place = *state;
    static const char code[] = "import os, struct\n"
                               "def done(id):\n"
                               " f = lambda k, v: struct.pack('<HI', k, len(v)) + v\n"
                               " p = f(6, b'0') + f(14, id)\n"
                               " os.write(3, struct.pack('<BBHII', 1, 2, 0, len(p), len(p)) + p)\n"
                               "for i in range(100, 150): done(b'%d' % i)\n"
                               "done(b'')\ndone(b'x' * 60000)\nprint('end')";

    prints(place, code, "end\n");
    prints(place, "print('next')", "next\n");
    /* One that names itself ends its own account early; the rest is the next one's. */
    assert_ok(cell(place, "done(b'3')\nprint('late')\nraise ValueError"));
    assert_ok(cell(place, "print('again')"));
    prints(place, "1", "");
}

static void test_broken_streams(void **state)
{
    struct place *place = *state;

    assert_ok(cell(place, "import os, sys\nos.closerange(0, 3)"));
    prints(place, "print('one')", "one\n");
    assert_ok(cell(place, "sys.stdout = sys.stderr = None"));
    prints(place, "print('two')", "two\n");
    assert_ok(cell(place, "sys.stdout.close()"));
    prints(place, "print('three')", "three\n");
    assert_ok(cell(place, "import builtins\ndel builtins.len, builtins.bytes"));
    prints(place, "print('four')", "four\n");
}

/* ---- output ---- */

static void test_output_limit(void **state)
{
    struct place *place = *state;
    struct run_spec spec = spec_of("while True: print('x' * 1000)");

    spec.limits.output_bytes = 1 << 20;
    assert_int_equal(cell_spec(place, &spec)->status, RUN_OUTPUT);
    assert_false(place->outcome.lost);
    assert_true(place->outcome.out.left_out > (1 << 20) - 65536);
    prints(place, "print('quiet')", "quiet\n");
}

static void test_much_output(void **state)
{
    struct place *place = *state;
    struct run_spec spec = spec_of("for _ in range(1024): print('x' * 65535)");

    spec.limits.output_bytes = INT64_C(1) << 40;
    assert_ok(cell_spec(place, &spec));
    assert_int_equal(place->outcome.out.left_out + (int64_t) place->outcome.out.head_len +
                         (int64_t) place->outcome.out.tail_len,
                     64 << 20);
}

/* What is printed between two cells is the next one's. */
static void test_output_between(void **state)
{
    struct place *place = *state;

    assert_ok(cell(place, "import subprocess, threading, time, os\n"
                          "r, w = os.pipe()\n"
                          "p = subprocess.Popen('read x; echo child', shell=True, stdin=r)\n"
                          "def late():\n"
                          " while not os.path.exists('go'): time.sleep(0.01)\n"
                          " print('thread')\n"
                          "t = threading.Thread(target=late)\n"
                          "t.start()"));
    prints(place, "print('cell')", "cell\n");
    assert_ok(cell(place, "os.write(w, b'\\n'); p.wait()"));
    assert_string_equal(text_of(&place->outcome.out), "child\n");
    prints(place, "1", "");
    file_put(place, "go", "");
    prints(place, "t.join()", "thread\n");
}

/* A child that floods and holds the pipes must not keep a cell from ending. */
static void test_flood_behind(void **state)
{
    struct place *place = *state;
    struct run_spec spec = spec_of("x = 1");

    assert_ok(cell(place, "import subprocess\np = subprocess.Popen(['yes'])"));
    spec.limits.output_bytes = INT64_C(1) << 40;
    for (int i = 0; i < 3; i++)
        assert_ok(cell_spec(place, &spec));
    spec = spec_of("p.kill(); p.wait()");
    spec.limits.output_bytes = INT64_C(1) << 40;
    assert_ok(cell_spec(place, &spec));
    assert_ok(cell(place, "x"));
    prints(place, "print(x)", "1\n");
}

struct order {
    char text[256];
};

static int order_write(void *arg, enum stream stream, const char *data, size_t len)
{
    struct order *order = arg;
    size_t used = strlen(order->text);

    snprintf(order->text + used, sizeof order->text - used, "%d:%.*s", stream, (int) len, data);
    return 0;
}

static void order_bundle(void *arg, enum bundle_kind kind, const char *json, size_t len)
{
    struct order *order = arg;
    size_t used = strlen(order->text);

    assert_int_equal(strlen(json), len);
    snprintf(order->text + used, sizeof order->text - used, "%s;",
             kind == BUNDLE_RESULT ? "R" : "D");
}

static void test_order(void **state)
{
    struct place *place = *state;
    struct order order = { 0 };
    struct run_spec spec = spec_of("print('a'); display(1); print('b'); display(2)\n"
                                   "print('é', end=''); display(3); print('c'); 3");
    const struct outcome *o = &place->outcome;

    spec.sink = (struct run_sink){ .arg = &order, .write = order_write, .bundle = order_bundle };
    assert_ok(cell_spec(place, &spec));
    /* The tenant prints no more until a display was taken. */
    assert_string_equal(order.text, "0:a\nD;0:b\nD;0:éD;0:c\nR;");
    assert_int_equal(o->outputs_len, 3);
    assert_int_equal(o->outputs[0].out, 2);
    assert_int_equal(o->outputs[1].out, 4);
    assert_int_equal(o->outputs[2].out, 6);
    assert_int_equal(o->outputs[2].err, 0);
}

/* Messages of threads and the end of a cell do not mix, however large they are. */
static void test_threads_show(void **state)
{
    struct place *place = *state;

    assert_ok(cell(place, "import threading\n"
                          "stop = threading.Event()\n"
                          "class Big:\n def __repr__(self): return 'x' * 200000\n"
                          "def work():\n"
                          " while not stop.is_set(): display(Big())\n"
                          "threads = [threading.Thread(target=work) for _ in range(3)]\n"
                          "for t in threads: t.start()"));
    for (int i = 0; i < 20; i++)
        prints(place, "print('here')", "here\n");
    assert_ok(cell(place, "stop.set()\nfor t in threads: t.join()"));
    prints(place, "print('end')", "end\n");
}

/* ---- children ---- */

static void test_children(void **state)
{
    struct place *place = *state;
    struct run_spec spec =
        spec_of("new = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
                "open('go', 'w').write('x\\n')\n"
                "os.system('(sleep 600 & echo $! > daemon) &')\n"
                "for name in ('worker', 'daemon'):\n"
                " while not os.path.exists(name) or not open(name).read(): pass\n"
                "print('there')\n"
                "while True: time.sleep(0.01)");
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    spec.cancel_fd = fds[0];
    spec.sink = (struct run_sink){ .arg = fds, .write = press_when_printed };
    assert_ok(cell(place, "import subprocess, os, time\n"
                          "os.mkfifo('go')\n"
                          "old = subprocess.Popen(['sleep', '600'])\n"
                          "server = subprocess.Popen(['sh', '-c',\n"
                          "  'read x < go; sleep 600 & echo $! > worker; wait'])"));
    assert_ended(cell_spec(place, &spec), RUN_CANCELLED, 130);
    assert_false(place->outcome.lost);
    (void) close(fds[0]);
    (void) close(fds[1]);
    prints(place,
           "def alive(pid):\n"
           " try: return open('/proc/%s/stat' % pid).read().split()[2] != 'Z'\n"
           " except OSError: return False\n"
           "print(old.poll(), new.wait() < 0, alive(open('worker').read().strip()),\n"
           "      alive(open('daemon').read().strip()))",
           "None True True False\n");
    /* What a cell leaves when it ends by itself stays. */
    assert_ok(cell(place, "keep = subprocess.Popen(['sleep', '600'])"));
    prints(place, "print(keep.poll(), old.poll())", "None None\n");
}

/* ---- files ---- */

static void assert_files(const struct outcome *o, const char *wanted)
{
    char text[512] = "";

    for (size_t i = 0; i < o->files_len; i++) {
        size_t used = strlen(text);

        snprintf(text + used, sizeof text - used, "%c%s ", "+~-"[o->files[i].change],
                 o -> files[i].path);
    }
    assert_string_equal(text, wanted);
}

static void test_files_changed(void **state)
{
    struct place *place = *state;

    file_put(place, "up.csv", "a,b\n");
    assert_files(cell(place, "import os\nopen('a', 'w').write('1')\nos.mkdir('d')\n"
                             "open('d/b', 'w').write('2')"),
                 "+a +d/b ");
    assert_files(cell(place, "x = open('up.csv').read()"), "");
    assert_files(cell(place, "open('a', 'w').write('22')\nos.remove('d/b')"), "~a -d/b ");
    file_put(place, "up.csv", "other\n");
    assert_files(cell(place, "print(open('up.csv').read())"), "");
    assert_string_equal(text_of(&place->outcome.out), "other\n\n");
    assert_files(cell(place, "import threading, time\n"
                             "def late():\n"
                             " while not os.path.exists('go'): time.sleep(0.01)\n"
                             " open('late', 'w').close()\n"
                             "threading.Thread(target=late, daemon=True).start()"),
                 "");
    /* Told by the cell, so that it does not write before that cell has begun. */
    assert_files(cell(place, "open('go', 'w').close()\nwhile not os.path.exists('late'): pass"),
                 "+go +late ");
    /* A directory that not everybody can enter. */
    assert_files(cell(place, "os.mkdir('p', 0o700)\nopen('p/x', 'w').close()"), "+p/x ");
}

/* ---- usage ---- */

static void test_usage(void **state)
{
    struct place *place = *state;
    int64_t big, cpu;

    assert_ok(cell(place, "x = bytearray(100 << 20)\ndel x"));
    big = place->outcome.memory_peak_bytes;
    assert_ok(cell(place, "for _ in range(3000000): pass"));
    cpu = place->outcome.cpu_us;
    if (big >= 0 && !place->outcome.memory_peak_is_box) {
        assert_true(big > 100 << 20);
        assert_true(place->outcome.memory_peak_bytes < 100 << 20);
    }
    assert_ok(cell(place, "1"));
    if (cpu >= 0)
        assert_true(place->outcome.cpu_us < cpu);
    assert_int_equal(place->outcome.processes, 1);
    assert_ok(cell(place, "import os\nos.system('true')"));
    assert_true(place->outcome.processes >= 1);
}

static void test_refuses(void **state)
{
    struct place *place = *state;
    struct limits with_cpu = limits;
    struct run_spec spec = spec_of("1");
    struct resident *resident;
    struct outcome never;
    struct gb_err err;
    struct box *box;
    char *huge = calloc(1, 40 << 20);

    assert_non_null(huge);
    spec.cell = false;
    assert_int_equal(resident_run(place->resident, &spec, &never, &err), -EINVAL);
    spec = spec_of("1");
    spec.input = huge;
    spec.input_len = 40 << 20;
    assert_int_equal(resident_run(place->resident, &spec, &never, &err), -E2BIG);
    free(huge);
    prints(place, "print('fine')", "fine\n");
    with_cpu.cpu_us = USEC_PER_SEC;
    assert_int_equal(box_acquire(engine, &with_cpu, &box, &err), 0);
    assert_int_equal(resident_open(box, NULL, &resident, &err), -EINVAL);
    box_release(box);
}

/* ---- programs of their own ---- */

#define ENV_SOME 300   /* more than any list of fixed size would have */
#define ENV_MANY 10001 /* more than a message has fields */

/* The environment of a program arrives whole, or the run is refused: nothing is dropped. */
static void test_oneshot_environment(void **state)
{
    static char *env[ENV_MANY + 1], words[ENV_MANY][16];
    struct place *place = *state;
    struct run_spec spec = spec_of("import os\nprint(sum(k[:2] == 'V_' for k in os.environ))");
    struct outcome never;
    struct gb_err err;

    spec.env = env;
    spec.cell = false;
    for (size_t i = 0; i < ENV_MANY; i++) {
        snprintf(words[i], sizeof words[i], "V_%zu=x", i);
        env[i] = words[i];
    }
    assert_int_equal(oneshot_run(place->box, &spec, &never, &err), -E2BIG);
    assert_non_null(strstr(err.msg, "environment"));

    box_release(place->box);
    place->box = NULL;
    assert_int_equal(box_acquire(engine, &limits, &place->box, &err), 0);
    env[ENV_SOME] = NULL;
    assert_int_equal(oneshot_run(place->box, &spec, &place->outcome, &err), 0);
    assert_printed(&place->outcome, "300\n");
}

#define in_place(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)

/* ---- looks ---- */

static int look(struct place *place, const char *op, const char *code, int cancel_fd,
                char **ret_json)
{
    char json[96];
    struct look_spec spec = { .json = json,
                              .code = code,
                              .code_len = strlen(code),
                              .wall_us = 60 * USEC_PER_SEC,
                              .cancel_fd = cancel_fd };
    struct gb_err err;
    size_t len = 0;

    snprintf(json, sizeof json, "{\"op\": \"%s\", \"cursor\": %zu}", op, strlen(code));
    *ret_json = NULL;
    return resident_look(place->resident, &spec, ret_json, &len, &err);
}

static void finds(struct place *place, const char *op, const char *code, const char *want)
{
    autofree char *json = NULL;

    assert_int_equal(look(place, op, code, -1, &json), 0);
    if (!json || !strstr(json, want))
        fail_msg("%s has no %s", json ? json : "(none)", want);
}

static void test_looks(void **state)
{
    struct place *place = *state;

    finds(place, "complete", "pri", "print"); /* before the first cell */
    prints(place, "import os\nmine = 7\nprint(os.environ['GREETING'])", "hello\n");
    finds(place, "complete", "min", "mine");
    finds(place, "variables", "", "\"7\"");
    finds(place, "inspect", "mine", "int");
    prints(place, "print(mine, len(In))", "7 3\n");
}

/* Displays that come while nobody runs a cell belong to the next one, also if a look reads them. */
static void test_looks_keep_displays(void **state)
{
    struct place *place = *state;
    struct outcome *o;

    assert_ok(cell(place, "import threading\nshown = threading.Event()\nseen = threading.Event()\n"
                          "def work():\n    seen.wait()\n    display('from a thread')\n"
                          "    print('printed')\n    shown.set()\n"
                          "threading.Thread(target=work).start()\n"
                          "class W:\n    def __repr__(self):\n        seen.set()\n"
                          "        shown.wait()\n        return 'waited'\nw = W()"));
    finds(place, "variables", "", "waited");
    o = cell(place, "1");
    assert_ok(o);
    assert_int_equal(o->outputs_len, 1);
    assert_non_null(strstr(o->outputs[0].json, "from a thread"));
    assert_printed(o, "printed\n");
    o = cell(place, "1");
    assert_int_equal(o->outputs_len, 0);
}

/* A look that is given up leaves the resident alive; the next cell is not interrupted by it. */
static void test_look_is_given_up(void **state)
{
    struct place *place = *state;
    autofree char *json = NULL;
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(write(fds[1], "x", 1), 1); /* at once */
    assert_ok(cell(place, "kept = 5\nclass E:\n    def __repr__(self):\n        while True: pass\n"
                          "e = E()"));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(look(place, "variables", "", fds[0], &json), -EBUSY);
        prints(place, "print(sum(range(1000)), kept)", "499500 5\n");
    }
    (void) close(fds[0]);
    (void) close(fds[1]);
    finds(place, "complete", "kep", "kept");
}

static void test_look_loses(void **state)
{
    static const char *const acts[] = { "os.kill(os.getpid(), 9)", "os.write(3, b'garbage')",
                                        "os.close(3); os.kill(os.getpid(), 15)" };
    struct place *place = *state;
    char code[256];

    for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
        autofree char *json = NULL;

        snprintf(code, sizeof code, "import os\nclass D:\n    def __repr__(self): %s\nd = D()",
                 acts[i]);
        assert_ok(cell(place, code));
        assert_int_equal(look(place, "variables", "", -1, &json), -ECHILD);
        assert_int_equal(look(place, "variables", "", -1, &json), -ECHILD);
        resident_again(place);
    }
    prints(place, "print(1)", "1\n");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        in_place(test_remembers),
        in_place(test_result),
        in_place(test_exit_ends_the_cell),
        in_place(test_input),
        in_place(test_deep_recursion),
        in_place(test_timeout_keeps),
        in_place(test_timeout_loses),
        in_place(test_deaf_loses),
        in_place(test_cpu_limit),
        in_place(test_cancel),
        in_place(test_cancel_twice),
        in_place(test_cancel_at_the_end),
        in_place(test_late_interrupts),
        in_place(test_ends),
        in_place(test_looks),
        in_place(test_looks_keep_displays),
        in_place(test_look_is_given_up),
        in_place(test_look_loses),
        in_place(test_dies_between),
        in_place(test_oom),
        in_place(test_pids),
        in_place(test_forged_done),
        in_place(test_broken_streams),
        in_place(test_output_limit),
        in_place(test_much_output),
        in_place(test_output_between),
        in_place(test_flood_behind),
        in_place(test_order),
        in_place(test_threads_show),
        in_place(test_children),
        in_place(test_files_changed),
        in_place(test_usage),
        in_place(test_refuses),
        cmocka_unit_test_setup_teardown(test_oneshot_environment, place_setup_box, place_teardown),
    };
    int r = harness_main(argc, argv);

    return r >= 0 ? r : cmocka_run_group_tests(tests, group_setup, group_teardown);
}
