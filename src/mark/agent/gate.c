#include "mark/agent/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/json_depth.h"
#include "mark/box/box.h"

#include "base/banned.h"

#define FILE_BYTES_MAX  (256 * 1024)
#define ENTRIES_MAX     1000
#define ENTRY_BYTES_MAX 200
#define MESSAGE_BYTES   512
#define WALL_US         (10 * USEC_PER_SEC)
#define REPLY_BYTES     4096

struct gate {
    json_t *policy;
};

/* ---- the file ---- */

/* Which characters an entry may have: a dotted name, for calls also ".name" and "name.*". */
static bool entry_is_valid(const char *entry, bool call, bool name)
{
    size_t len = strlen(entry), start = call && entry[0] == '.' ? 1 : 0;

    if (call && len > 2 && strcmp(entry + len - 2, ".*") == 0)
        len -= 2;
    if (len == start || len > ENTRY_BYTES_MAX)
        return false;
    for (size_t i = start; i < len; i++) {
        char c = entry[i];
        bool first = i == start || entry[i - 1] == '.';
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

        if (c == '.' && (name || start || first || i + 1 == len))
            return false;
        if (c != '.' && !letter && (first || c < '0' || c > '9'))
            return false;
    }
    return true;
}

static int list_check(const char *path, const char *side, const char *kind, const json_t *list,
                      struct gb_err *err)
{
    const json_t *item;
    size_t i;

    if (!json_is_array(list) || json_array_size(list) > ENTRIES_MAX)
        return gb_fail_about(err, EINVAL, "'%s': \"%s\".\"%s\" must be a list of at most %d names",
                             path, side, kind, ENTRIES_MAX);
    json_array_foreach (list, i, item) {
        const char *text = json_string_value(item);

        if (!text || !entry_is_valid(text, strcmp(kind, "calls") == 0, strcmp(kind, "names") == 0))
            return gb_fail_about(err, EINVAL,
                                 "'%s': \"%s\".\"%s\", entry %zu (%.40s) is not a name such as %s",
                                 path, side, kind, i + 1, text ? text : "not text",
                                 strcmp(kind, "calls") == 0   ? "\"os.system\", \"shutil.*\" or "
                                                                "\".to_pickle\""
                                 : strcmp(kind, "names") == 0 ? "\"__globals__\""
                                                              : "\"os\" or \"xml.etree\"");
    }
    return 0;
}

/* "deny" or "allow": lists by kind. */
static int side_check(const char *path, const char *side, const json_t *lists, struct gb_err *err)
{
    const json_t *list;
    const char *kind;

    if (!json_is_object(lists))
        return gb_fail_about(err, EINVAL, "'%s': \"%s\" must be an object", path, side);
    json_object_foreach ((json_t *) lists, kind, list) {
        int r;

        if (strcmp(kind, "imports") != 0 && strcmp(kind, "calls") != 0 &&
            strcmp(kind, "names") != 0)
            return gb_fail_about(err, EINVAL,
                                 "'%s': \"%s\" has \"%.40s\"; it may have \"imports\", \"calls\" "
                                 "and \"names\"",
                                 path, side, kind);
        r = list_check(path, side, kind, list, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int policy_check(const char *path, const json_t *policy, struct gb_err *err)
{
    const json_t *value;
    const char *key;

    if (!json_is_object(policy))
        return gb_fail_about(err, EINVAL, "'%s' must hold a JSON object", path);
    json_object_foreach ((json_t *) policy, key, value) {
        if (strcmp(key, "deny") == 0 || strcmp(key, "allow") == 0) {
            int r = side_check(path, key, value, err);

            if (r < 0)
                return r;
        } else if (strcmp(key, "shell") == 0 || strcmp(key, "dunders") == 0) {
            if (!json_is_boolean(value))
                return gb_fail_about(err, EINVAL, "'%s': \"%s\" must be true or false", path, key);
        } else if (strcmp(key, "comment") != 0) {
            return gb_fail_about(err, EINVAL,
                                 "'%s' has \"%.40s\"; it may have \"deny\", \"allow\", \"shell\", "
                                 "\"dunders\" and \"comment\"",
                                 path, key);
        }
    }
    return 0;
}

static int file_read(const char *path, char **ret_text, size_t *ret_len, struct gb_err *err)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    autofree char *text = malloc(FILE_BYTES_MAX + 1);
    struct stat st;
    size_t len = 0;

    if (!text)
        return gb_fail(err, ENOMEM, "read '%s'", path);
    /* EINVAL in any case: the option that names the file is at fault. */
    if (fd < 0 || fstat(fd, &st) < 0)
        return gb_fail_about(err, EINVAL, "the policy gate '%s' cannot be read: %s", path,
                             strerrordesc_np(errno));
    if (!S_ISREG(st.st_mode))
        return gb_fail_about(err, EINVAL, "the policy gate '%s' is not a file", path);
    while (len <= FILE_BYTES_MAX) {
        ssize_t got = read(fd, text + len, FILE_BYTES_MAX + 1 - len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return gb_fail_about(err, EINVAL, "the policy gate '%s' cannot be read: %s", path,
                                 strerrordesc_np(errno));
        if (got == 0)
            break;
        len += (size_t) got;
    }
    if (len > FILE_BYTES_MAX)
        return gb_fail_about(err, EINVAL, "the policy gate '%s' is larger than %d bytes", path,
                             FILE_BYTES_MAX);
    *ret_text = TAKE_PTR(text);
    *ret_len = len;
    return 0;
}

int gate_load(const char *path, struct gate **ret_gate, struct gb_err *err)
{
    autofree char *text = NULL;
    json_error_t error = { .line = 1 };
    struct gate *gate;
    json_t *policy = NULL;
    size_t len = 0;
    int r = file_read(path, &text, &len, err);

    if (r < 0)
        return r;
    if (!json_too_deep(text, len, 8))
        policy = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (!policy)
        return gb_fail_about(err, EINVAL, "'%s', line %d is not JSON: %s", path, error.line,
                             error.text[0] ? error.text : "nested too deeply");
    r = policy_check(path, policy, err);
    gate = r < 0 ? NULL : malloc(sizeof(*gate));
    if (!gate) {
        json_decref(policy);
        return r < 0 ? r : gb_fail(err, ENOMEM, "open the policy gate");
    }
    gate->policy = policy;
    *ret_gate = gate;
    return 0;
}

void gate_free(struct gate *gate)
{
    if (!gate)
        return;
    json_decref(gate->policy);
    free(gate);
}

/* ---- checking ---- */

static int deny(char **ret_message, struct fault *fault, const char *message)
{
    *ret_message = strdup(message);
    return *ret_message ? 1 : fault_no_memory(fault);
}

/* What the program said. It was alone in its box, but the box is still not the host. */
static int judge(const json_t *receipt, char **ret_message, struct fault *fault)
{
    const char *status = json_string_value(json_object_get(receipt, "status"));
    const char *out = json_string_value(json_object_get(receipt, "stdout"));
    char text[MESSAGE_BYTES];
    json_t *verdict = NULL;
    const json_t *denied;
    const char *message;
    int r;

    if (!status || strcmp(status, "ok") != 0 || !out)
        return deny(ret_message, fault,
                    "The policy gate could not check this program, so it was not run: it takes too "
                    "long or too much memory to parse. Write it shorter and simpler.");
    if (!json_too_deep(out, strlen(out), 4))
        verdict = json_loads(out, 0, NULL);
    denied = json_object_get(verdict, "denied");
    message = json_string_value(json_object_get(verdict, "message"));
    if (json_is_false(denied)) {
        r = 0;
    } else if (json_is_true(denied) && message) {
        (void) snprintf(text, sizeof(text),
                        "The policy of this service does not allow this program, so it was not "
                        "run. Line %d: %.400s.",
                        (int) json_integer_value(json_object_get(verdict, "line")), message);
        r = deny(ret_message, fault, text);
    } else {
        r = fault_set(fault, PROBLEM_INTERNAL, NULL, "the policy gate gave no answer");
    }
    json_decref(verdict);
    return r;
}

static int run(struct service *service, const struct caller *caller, const char *input,
               json_t **ret_receipt, struct fault *fault)
{
    struct execution_request request;
    struct execution *execution = NULL;
    int r;

    execution_request_init(&request);
    request.kind = EXECUTION_SCRIPT;
    request.code = gate_program;
    request.code_len = strlen(gate_program);
    request.filename = "gate.py";
    request.input = input;
    request.input_len = strlen(input);
    request.limits.wall_us = WALL_US;
    request.reply_bytes = REPLY_BYTES;
    r = execution_run_here(service, caller, NULL, &request, &execution, fault);
    if (r == 0)
        r = execution_receipt(execution, ret_receipt, fault);
    execution_unref(execution);
    return r;
}

int gate_check(struct gate *gate, struct service *service, const struct caller *caller,
               const char *code, char **ret_message, struct fault *fault)
{
    autofree char *input = NULL;
    json_t *request, *text, *receipt = NULL;
    int r;

    if (strlen(code) > GATE_CODE_BYTES_MAX)
        return deny(ret_message, fault,
                    "The policy gate does not check programs of more than 512 KB, so this one was "
                    "not run. Write it shorter.");
    text = json_string(code);
    if (!text) /* not UTF-8: no Python, either */
        return deny(ret_message, fault, "The program is not valid UTF-8, so it was not run.");
    request = json_pack("{s:O, s:o}", "policy", gate->policy, "code", text);
    input = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    if (!input)
        return fault_no_memory(fault);
    r = run(service, caller, input, &receipt, fault);
    if (r == 0)
        r = judge(receipt, ret_message, fault);
    json_decref(receipt);
    return r;
}
