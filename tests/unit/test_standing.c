/* Commands, shells and files of a session. */
#include <pthread.h>
#include <sys/stat.h>

#include "engine_harness.h"

#include "base/banned.h"

/* ---- commands ---- */

static void test_command(void **state)
{
    struct place *place = *state;
    struct outcome *o = command(place, "echo out; echo err >&2; pwd; echo $GREETING $LANG $HOME");

    assert_printed(o, "out\n/workspace\nhello C /workspace\n");
    assert_string_equal(text_of(&o->err), "err\n");
    assert_ended(command(place, "exit 7"), RUN_ERROR, 7);
    assert_ended(command(place, "kill -9 $$"), RUN_KILLED, 137);
    assert_ok(command(place, "echo text > made.txt"));
    assert_int_equal(place->outcome.files_len, 1);
    assert_string_equal(place->outcome.files[0].path, "made.txt");
    assert_int_equal(place->outcome.files[0].change, FILE_CREATED);
    assert_printed(command(place, "cat made.txt"), "text\n");
    assert_int_equal(place->outcome.files_len, 0);
}

static void test_command_argv(void **state)
{
    struct place *place = *state;
    char *echo[] = { (char *) "echo", (char *) "a  b", (char *) "$HOME", NULL };
    char *missing[] = { (char *) "/no/such/program", NULL };
    char *directory[] = { (char *) "/usr", NULL };
    struct run_spec spec = spec_of("");

    spec.argv = echo;
    assert_printed(command_spec(place, &spec, "/tmp"), "a  b $HOME\n");
    spec.argv = missing;
    assert_ended(command_spec(place, &spec, NULL), RUN_ERROR, 127);
    assert_non_null(strstr(text_of(&place->outcome.err), "No such file"));
    spec.argv = directory;
    assert_ended(command_spec(place, &spec, NULL), RUN_ERROR, 126);
    spec.argv = echo;
    assert_ended(command_spec(place, &spec, "/no/such/directory"), RUN_ERROR, 127);
}

static void test_command_input(void **state)
{
    struct place *place = *state;
    struct run_spec spec = spec_of("wc -c");
    char *large = malloc(300000);

    assert_non_null(large);
    memset(large, 'x', 300000);
    spec.input = large;
    spec.input_len = 300000;
    assert_printed(command_spec(place, &spec, NULL), "300000\n");
    free(large);
    assert_printed(command(place, "cat"), "");
}

static void test_command_refused(void **state)
{
    struct place *place = *state;
    struct run_spec spec = spec_of("true");
    char *large = malloc(200000), *none[] = { NULL };
    struct outcome never;
    struct gb_err err;

    assert_non_null(large);
    memset(large, 'x', 200000);
    spec.code_len = 5; /* with the NUL at its end */
    assert_int_equal(box_command(place->box, &spec, NULL, NULL, &never, &err), -EINVAL);
    spec.code = large;
    spec.code_len = 200000;
    assert_int_equal(box_command(place->box, &spec, NULL, NULL, &never, &err), -E2BIG);
    spec.argv = none;
    assert_int_equal(box_command(place->box, &spec, NULL, NULL, &never, &err), -EINVAL);
    free(large);
}

/* The same walls as a tenant's. */
static void test_command_sealed(void **state)
{
    struct place *place = *state;
    char *want;

    assert_ok(command(place, "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp|Uid|Gid|Groups|"
                             "SigBlk):' /proc/self/status; ls /proc/self/fd | wc -l; "
                             "cat /proc/self/oom_score_adj; ulimit -c; readlink /proc/self/root"));
    want = strdup(text_of(&place->outcome.out));
    assert_non_null(want);
    assert_non_null(strstr(want, "CapEff:\t0000000000000000"));
    assert_non_null(strstr(want, "CapBnd:\t0000000000000000"));
    assert_non_null(strstr(want, "NoNewPrivs:\t1"));
    assert_non_null(strstr(want, "Seccomp:\t2"));
    assert_non_null(strstr(want, "Uid:\t1000\t1000\t1000\t1000"));
    assert_non_null(strstr(want, "SigBlk:\t0000000000000000"));
    assert_non_null(strstr(want, "\n4\n1000\n0\n/\n")); /* 0, 1, 2 and that of ls itself */
    free(want);
    assert_int_not_equal(command(place, "unshare -U true")->exit_code, 0);
    assert_int_not_equal(command(place, "mount -t tmpfs x /tmp")->exit_code, 0);
    assert_int_not_equal(command(place, "echo x > /usr/x")->exit_code, 0);
    assert_int_not_equal(command(place, "cat /proc/1/environ /proc/1/maps")->exit_code, 0);
}

static void test_command_stops(void **state)
{
    struct place *place = *state;
    struct run_spec spec = spec_of("sleep 600 & trap '' INT; sleep 600; sleep 600");

    resident_again(place);
    assert_ok(cell(place, "x = 1\nimport subprocess\np = subprocess.Popen(['sleep', '600'])"));
    spec.limits.wall_us = 200 * USEC_PER_MSEC;
    assert_ended(command_spec(place, &spec, NULL), RUN_TIMEOUT, 124);
    /* Others were not hurt, and nothing of it is left. */
    prints(place,
           "import os\n"
           "def sleeps(pid):\n" /* the dead are there until PID 1 takes them away */
           " try: stat = open('/proc/%s/stat' % pid).read().split()\n"
           " except OSError: return False\n"
           " return stat[1] == '(sleep)' and stat[2] != 'Z'\n"
           "print(x, p.poll(), sum(sleeps(n) for n in os.listdir('/proc') if n.isdigit()))",
           "1 None 1\n");
    spec = spec_of("yes");
    spec.limits.output_bytes = 1 << 20;
    assert_int_equal(command_spec(place, &spec, NULL)->status, RUN_OUTPUT);
    assert_ok(command(place, "sleep 600 >/dev/null 2>&1 & echo $! > pid"));
    assert_printed(command(place, "test -d /proc/$(cat pid) && echo there"), "there\n");
    /* One command ends what another, or a cell, has started. */
    assert_ok(command(place, "kill $(cat pid)"));
    assert_ok(cell(place, "open('pid', 'w').write(str(p.pid))"));
    assert_ok(command(place, "kill $(cat pid)"));
    prints(place, "print(p.wait())", "-15\n");
}

static void test_command_in_a_full_box(void **state)
{
    struct place *place = *state;

    resident_again(place);
    assert_ok(cell(place, "import os, signal\n"
                          "pids = []\n"
                          "try:\n"
                          " while True:\n"
                          "  p = os.fork()\n"
                          "  if p == 0: signal.pause()\n"
                          "  pids.append(p)\n"
                          "except BlockingIOError: pass"));
    /* Whether the command itself or what it starts is one too many is the host's choice. */
    assert_int_equal(command(place, "true & true & wait")->status, RUN_PIDS);
    assert_ok(cell(place, "for p in pids: os.kill(p, 9)\nfor p in pids: os.waitpid(p, 0)"));
    assert_ok(command(place, "true"));
}

/* ---- shells ---- */

static struct outcome *shell_line(struct place *place, const char *text, int64_t wall_ms)
{
    struct run_spec spec = spec_of(text);
    struct gb_err err;

    if (wall_ms)
        spec.limits.wall_us = wall_ms * USEC_PER_MSEC;
    outcome_release(&place->outcome);
    if (shell_run(place->shell, &spec, &place->outcome, &err) < 0)
        fail_msg("%s", err.msg);
    return &place->outcome;
}

static void shell_new(struct place *place)
{
    static char *env[] = { (char *) "GREETING=hello", NULL };
    struct gb_err err;

    shell_free(place->shell);
    place->shell = NULL;
    if (shell_open(place->box, env, &place->shell, &err) < 0)
        fail_msg("%s", err.msg);
}

static void test_shell_remembers(void **state)
{
    struct place *place = *state;

    shell_new(place);
    assert_printed(shell_line(place, "echo $GREETING", 0), "hello\n");
    assert_string_equal(text_of(&place->outcome.err), "");
    assert_ok(shell_line(place, "cd /tmp; export A=1 B='x y'; f() { echo f $1; }", 0));
    assert_printed(shell_line(place, "pwd; env | grep ^A=; echo $B; f 3", 0),
                   "/tmp\nA=1\nx y\nf 3\n");
    assert_ended(shell_line(place, "(exit 9)", 0), RUN_ERROR, 9);
    assert_printed(shell_line(place, "echo $?; echo it\\'s \"it's\" 'a\nb'", 0),
                   "0\nit's it's a\nb\n");
    assert_ok(shell_line(place, "", 0));
}

struct shell_case {
    const char *text;
    int exit_code;
    const char *out;
};

/* None of these may reach beyond itself. */
static const struct shell_case shell_cases[] = {
    { "echo 'open", 2, "" },
    { "cat <<EOF\nhello", 0, "hello\n" },
    { "if true; then", 2, "" },
    { "done", 2, "" },
    { "}", 2, "" },
    { "# a comment", 0, "" },
    { "echo one \\", 0, "one \\\n" },
    { "cat", 0, "" },
    { "read x; echo $?", 0, "1\n" },
    { "printf '2 0\\n'; printf '3 0\\n' >&3; false", 1, "2 0\n" },
    { "ls /proc/self/fd | wc -l", 0, "4\n" },
    { "no_such_command", 127, "" },
    { "exec /no/such/file", 127, "" },
    { ": ${nope?}", 1, "" },
    { "return 3", 2, "" },
    { "break", 0, "" },
    { "set -u; echo $nope", 1, "" },
    { "set +u; echo a!b", 0, "a!b\n" },
    { "exec 3</dev/null; cat <&3", 0, "" },
    { "printf 'no newline'", 0, "no newline" },
};

static void test_shell_frames(void **state)
{
    struct place *place = *state;

    shell_new(place);
    for (size_t i = 0; i < ARRAY_LEN(shell_cases); i++) {
        const struct shell_case *c = &shell_cases[i];
        struct outcome *o = shell_line(place, c->text, 0);

        if (o->exit_code != c->exit_code || o->lost || strcmp(text_of(&o->out), c->out) != 0)
            fail_msg("%s: %d, lost %d, stdout: %s; stderr: %s", c->text, o->exit_code, o->lost,
                     text_of(&o->out), text_of(&o->err));
    }
    assert_printed(shell_line(place, "echo still here", 0), "still here\n");
}

static void test_shell_large(void **state)
{
    struct place *place = *state;
    size_t len = 200001; /* an even number of quotes */
    char *text = malloc(len + 1);
    struct run_spec spec = spec_of("true");
    struct outcome never;
    struct gb_err err;

    shell_new(place);
    assert_non_null(text);
    memset(text, '\'', len);
    memcpy(text, "echo ok; : ", 11);
    text[len] = '\0';
    assert_ok(shell_line(place, text, 0));
    spec.code_len = 5;
    assert_int_equal(shell_run(place->shell, &spec, &never, &err), -EINVAL);
    free(text);
}

static void test_shell_stops(void **state)
{
    struct place *place = *state;
    struct outcome *o;

    shell_new(place);
    resident_again(place);
    assert_ok(cell(place, "x = 5"));
    assert_ok(shell_line(place, "y=6; sleep 600 & echo $! > old", 0));
    o = shell_line(place, "sleep 600; echo not", 200);
    assert_ended(o, RUN_TIMEOUT, 124);
    assert_false(o->lost);
    o = shell_line(place, "while :; do :; done", 200);
    assert_ended(o, RUN_TIMEOUT, 124);
    assert_false(o->lost);
    assert_printed(shell_line(place, "echo $y; kill -0 $(cat old) && echo alive", 0), "6\nalive\n");
    /* Deaf: the shell goes, and nobody else. */
    assert_ok(shell_line(place, "trap '' INT", 0));
    o = shell_line(place, "while :; do :; done", 200);
    assert_ended(o, RUN_TIMEOUT, 124);
    assert_true(o->lost);
    prints(place, "print(x)", "5\n");
    shell_new(place);
    assert_printed(shell_line(place, "kill -0 $(cat old) && echo alive $y", 0), "alive\n");
}

static const struct shell_case shell_ends[] = {
    { "exit 4", 4, "" },
    { "exec echo gone", 0, "gone\n" },
    { "kill -9 $$", 137, "" },
    { "set -e; false", 1, "" },
};

static void test_shell_ends(void **state)
{
    struct place *place = *state;

    for (size_t i = 0; i < ARRAY_LEN(shell_ends); i++) {
        const struct shell_case *c = &shell_ends[i];
        struct run_spec spec = spec_of("true");
        struct outcome *o, never;
        struct gb_err err;

        shell_new(place);
        o = shell_line(place, c->text, 0);
        if (o->exit_code != c->exit_code || !o->lost || strcmp(text_of(&o->out), c->out) != 0)
            fail_msg("%s: %d, lost %d, %s", c->text, o->exit_code, o->lost, text_of(&o->out));
        assert_int_equal(shell_run(place->shell, &spec, &never, &err), -ECHILD);
    }
}

/* A late interrupt must not cost the next command anything. */
static void test_shell_late_interrupts(void **state)
{
    struct place *place = *state;

    shell_new(place);
    for (int i = 0; i < 30; i++) {
        struct run_spec spec = spec_of("sleep 0.02");
        struct gb_err err;

        spec.limits.wall_us = 15000 + i * 500;
        outcome_release(&place->outcome);
        assert_int_equal(shell_run(place->shell, &spec, &place->outcome, &err), 0);
        assert_false(place->outcome.lost);
        assert_printed(shell_line(place, "echo fine", 0), "fine\n");
    }
}

/* ---- files ---- */

static void upload(struct place *place, const char *path, const char *text)
{
    struct upload *up;
    struct gb_err err;

    if (upload_begin(place->box, path, 0644, &up, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(write(upload_fd(up), text, strlen(text)), strlen(text));
    if (upload_commit(up, &err) < 0)
        fail_msg("%s: %s", path, err.msg);
    upload_free(up);
}

/* "path kind size" of each, kinds as f d l o. */
static void assert_list(struct place *place, const char *dir, bool recursive, const char *after,
                        size_t limit, const char *wanted)
{
    char text[1024] = "";
    struct file_list list;
    struct gb_err err;

    if (box_file_list(place->box, dir, recursive, after, limit, &list, &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < list.len; i++) {
        size_t used = strlen(text);

        snprintf(text + used, sizeof text - used, "%c %s, ", "fdlo"[list.items[i].kind],
                 list.items[i].path);
    }
    if (list.more)
        snprintf(text + strlen(text), 8, "...");
    assert_string_equal(text, wanted);
    file_list_release(&list);
}

static void test_file_list(void **state)
{
    struct place *place = *state;
    struct file_list list;
    struct gb_err err;

    upload(place, "b.txt", "two");
    upload(place, "d/e/f.txt", "three");
    upload(place, "a.txt", "one");
    assert_ok(command(place, "ln -s /etc/passwd link; mkfifo pipe; mkdir -m 0 locked"));
    assert_list(place, "", false, NULL, 100, "f a.txt, f b.txt, d d, l link, d locked, o pipe, ");
    assert_list(place, ".", true, "b.txt", 2, "d d, d d/e, ...");
    assert_list(place, "d/", true, "", 100, "d d/e, f d/e/f.txt, ");
    assert_list(place, "d", false, NULL, 100, "d d/e, ");
    assert_list(place, "", true, "zzz", 100, "");
    assert_int_equal(box_file_list(place->box, "none", false, NULL, 9, &list, &err), -ENOENT);
    assert_int_equal(box_file_list(place->box, "a.txt", false, NULL, 9, &list, &err), -ENOTDIR);
    assert_int_equal(box_file_list(place->box, "link", false, NULL, 9, &list, &err), -ELOOP);
    assert_int_equal(box_file_list(place->box, "../", false, NULL, 9, &list, &err), -EXDEV);
    assert_int_equal(box_file_list(place->box, "/etc", false, NULL, 9, &list, &err), -EXDEV);
}

static void test_file_stat(void **state)
{
    struct place *place = *state;
    struct file_info info;
    struct gb_err err;

    upload(place, "d/a.txt", "hello");
    assert_ok(command(place, "ln -s d there; ln -s /etc/passwd link"));
    assert_int_equal(box_file_stat(place->box, "d/a.txt", &info, &err), 0);
    assert_int_equal(info.kind, FILE_REGULAR);
    assert_int_equal(info.size, 5);
    assert_int_equal(info.mode, 0644);
    file_info_release(&info);
    assert_int_equal(box_file_stat(place->box, "link", &info, &err), 0);
    assert_int_equal(info.kind, FILE_LINK);
    file_info_release(&info);
    assert_int_equal(box_file_stat(place->box, "", &info, &err), 0);
    assert_int_equal(info.kind, FILE_DIRECTORY);
    file_info_release(&info);
    assert_int_equal(box_file_stat(place->box, "there/a.txt", &info, &err), -ELOOP);
    assert_int_equal(box_file_stat(place->box, "none", &info, &err), -ENOENT);
    assert_int_equal(box_file_stat(place->box, "..", &info, &err), -EINVAL);
    assert_int_equal(box_file_stat(place->box, "../../etc", &info, &err), -EXDEV);
    assert_int_equal(box_file_stat(place->box, "/etc/passwd", &info, &err), -EXDEV);
}

static void test_file_read(void **state)
{
    struct place *place = *state;
    struct gb_err err;
    char text[16] = "";
    int fd;

    upload(place, "a b\n\xff", "bytes");
    assert_int_equal(box_open_read(place->box, "a b\n\xff", &fd, &err), 0);
    assert_int_equal(read(fd, text, sizeof text), 5);
    (void) close(fd);
    assert_ok(command(place, "ln -s /etc/passwd link; mkfifo pipe; mkdir d; ln d/../link hard"));
    assert_int_equal(box_open_read(place->box, "link", &fd, &err), -ELOOP);
    assert_int_equal(box_open_read(place->box, "hard", &fd, &err), -ELOOP);
    assert_int_equal(box_open_read(place->box, "pipe", &fd, &err), -EINVAL);
    assert_int_equal(box_open_read(place->box, "d", &fd, &err), -EISDIR);
    assert_int_equal(box_open_read(place->box, "../etc/passwd", &fd, &err), -EXDEV);
    assert_int_equal(box_open_read(place->box, "/proc/self/environ", &fd, &err), -EXDEV);
}

static void test_file_change(void **state)
{
    struct place *place = *state;
    struct gb_err err;
    struct box *box = place->box;

    assert_int_equal(box_file_mkdir(box, "a", false, &err), 0);
    assert_int_equal(box_file_mkdir(box, "a", false, &err), -EEXIST);
    assert_int_equal(box_file_mkdir(box, "a", true, &err), 0);
    assert_int_equal(box_file_mkdir(box, "x/y", false, &err), -ENOENT);
    assert_int_equal(box_file_mkdir(box, "x/y//z/", true, &err), 0);
    assert_int_equal(box_file_mkdir(box, "../out", true, &err), -EINVAL);
    assert_int_equal(box_file_mkdir(box, "x/../../out", true, &err), -EINVAL);
    upload(place, "x/y/f", "1");
    upload(place, "g", "2");
    assert_int_equal(box_file_mkdir(box, "g/h", true, &err), -ENOTDIR);
    assert_int_equal(box_file_rename(box, "x/y/f", "g", false, &err), -EEXIST);
    assert_int_equal(box_file_rename(box, "x/y/f", "g", true, &err), 0);
    assert_int_equal(box_file_rename(box, "none", "new/dir/n", true, &err), -ENOENT);
    assert_int_equal(box_file_rename(box, "g", "new/dir/g", false, &err), 0);
    assert_int_equal(box_file_rename(box, "new", "../new", false, &err), -EINVAL);
    assert_int_equal(box_file_rename(box, "new", "new/dir/new", false, &err), -EINVAL);
    assert_list(place, "", true, NULL, 100,
                "d a, d new, d new/dir, f new/dir/g, d x, d x/y, d x/y/z, ");
    assert_int_equal(box_file_remove(box, "x", false, &err), -ENOTEMPTY);
    assert_int_equal(box_file_remove(box, "a", false, &err), 0);
    assert_int_equal(box_file_remove(box, "x", true, &err), 0);
    assert_int_equal(box_file_remove(box, "x", true, &err), -ENOENT);
    assert_int_equal(box_file_remove(box, ".", true, &err), -EINVAL);
    assert_int_equal(box_file_remove(box, "..", true, &err), -EINVAL);
    assert_int_equal(box_file_remove(box, "", true, &err), -EINVAL);
    /* They are the tenant's own. */
    assert_printed(command(place, "stat -c '%U %a' new/dir new/dir/g; echo more >> new/dir/g; "
                                  "cat new/dir/g"),
                   "user 755\nuser 644\n1more\n");
}

static void test_file_remove_much(void **state)
{
    struct place *place = *state;
    struct gb_err err;

    assert_ok(command(place, "mkdir -p t/u/v; cd t; for i in $(seq 1500); do : > $i; : > u/v/$i; "
                             "done; ln -s /workspace loop; mkdir -m 0 w; touch /workspace/keep"));
    assert_int_equal(box_file_remove(place->box, "t", true, &err), 0);
    assert_list(place, "", true, NULL, 100, "f keep, ");
}

static void test_file_links_in_the_way(void **state)
{
    struct place *place = *state;
    struct gb_err err;
    struct upload *up;

    assert_ok(command(place, "mkdir real; touch real/x; ln -s /tmp out; ln -s real in; "
                             "ln -s /etc/passwd f"));
    assert_int_equal(box_file_mkdir(place->box, "out/d", true, &err), -ELOOP);
    assert_int_equal(box_file_remove(place->box, "in/x", true, &err), -ELOOP);
    assert_int_equal(box_file_rename(place->box, "real/x", "out/x", true, &err), -ELOOP);
    assert_int_equal(upload_begin(place->box, "out/x", 0644, &up, &err), 0);
    assert_int_equal(upload_commit(up, &err), -ELOOP);
    upload_free(up);
    /* A link is replaced or removed, never followed. */
    upload(place, "f", "mine");
    assert_int_equal(box_file_remove(place->box, "in", true, &err), 0);
    assert_printed(command(place, "ls real; ls /tmp; stat -c %F f; cat f"),
                   "x\nregular file\nmine");
}

static void test_upload(void **state)
{
    struct place *place = *state;
    char *long_name = malloc(5001);
    struct gb_err err;
    struct upload *up;

    /* Nobody sees it before it is whole, and without a commit nothing is left. */
    upload(place, "a", "old");
    assert_int_equal(upload_begin(place->box, "a", 0600, &up, &err), 0);
    assert_int_equal(write(upload_fd(up), "new", 3), 3);
    assert_printed(command(place, "ls -A; cat a"), "a\nold");
    assert_int_equal(upload_commit(up, &err), 0);
    upload_free(up);
    assert_printed(command(place, "ls -A; cat a; stat -c %a a"), "a\nnew600\n");
    assert_int_equal(upload_begin(place->box, "b", 0600, &up, &err), 0);
    upload_free(up);
    assert_printed(command(place, "ls -A; df --output=iused /workspace | tail -1 | xargs"),
                   "a\n2\n");
    assert_non_null(long_name);
    memset(long_name, 'n', 5000);
    long_name[5000] = '\0';
    assert_int_equal(upload_begin(place->box, long_name, 0600, &up, &err), -ENAMETOOLONG);
    long_name[300] = '\0';
    assert_int_equal(upload_begin(place->box, long_name, 0600, &up, &err), 0);
    assert_int_equal(upload_commit(up, &err), -ENAMETOOLONG);
    upload_free(up);
    free(long_name);
    assert_int_equal(upload_begin(place->box, "../x", 0600, &up, &err), 0);
    assert_true(upload_commit(up, &err) < 0);
    upload_free(up);
    assert_int_equal(box_file_mkdir(place->box, "d", false, &err), 0);
    assert_int_equal(upload_begin(place->box, "d", 0600, &up, &err), 0);
    assert_int_equal(upload_commit(up, &err), -EISDIR);
    upload_free(up);
    assert_printed(command(place, "ls -A"), "a\nd\n");
}

static void test_upload_quota(void **state)
{
    struct place *place = *state;
    char *block = calloc(1, 1 << 20);
    int64_t written = 0;
    struct gb_err err;
    struct upload *up;
    ssize_t n;

    assert_non_null(block);
    assert_int_equal(upload_begin(place->box, "big", 0600, &up, &err), 0);
    while ((n = write(upload_fd(up), block, 1 << 20)) > 0 && written <= limits.disk_bytes)
        written += n;
    assert_int_equal(n, -1);
    assert_int_equal(errno, ENOSPC);
    assert_true(written <= limits.disk_bytes);
    upload_free(up);
    /* It was given back. */
    upload(place, "small", "x");
    free(block);
}

/* File calls while a cell runs. */
struct meanwhile {
    struct place *place;
    int r;
};

static void *upload_meanwhile(void *arg)
{
    struct meanwhile *m = arg;
    struct upload *up;
    struct gb_err err;

    m->r = upload_begin(m->place->box, "signal", 0644, &up, &err);
    if (m->r == 0) {
        m->r = upload_commit(up, &err);
        upload_free(up);
    }
    return NULL;
}

static void test_files_meanwhile(void **state)
{
    struct meanwhile m = { .place = *state, .r = -1 };
    pthread_t thread;

    resident_again(m.place);
    assert_int_equal(pthread_create(&thread, NULL, upload_meanwhile, &m), 0);
    prints(m.place, "import os\nwhile not os.path.exists('signal'): pass\nprint('seen')", "seen\n");
    pthread_join(thread, NULL);
    assert_int_equal(m.r, 0);
}

#define in_box(name) cmocka_unit_test_setup_teardown(name, place_setup_box, place_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        in_box(test_command),
        in_box(test_command_argv),
        in_box(test_command_input),
        in_box(test_command_refused),
        in_box(test_command_sealed),
        in_box(test_command_stops),
        in_box(test_command_in_a_full_box),
        in_box(test_shell_remembers),
        in_box(test_shell_frames),
        in_box(test_shell_large),
        in_box(test_shell_stops),
        in_box(test_shell_ends),
        in_box(test_shell_late_interrupts),
        in_box(test_file_list),
        in_box(test_file_stat),
        in_box(test_file_read),
        in_box(test_file_change),
        in_box(test_file_remove_much),
        in_box(test_file_links_in_the_way),
        in_box(test_upload),
        in_box(test_upload_quota),
        in_box(test_files_meanwhile),
    };
    int r = harness_main(argc, argv);

    return r >= 0 ? r : cmocka_run_group_tests(tests, group_setup, group_teardown);
}
