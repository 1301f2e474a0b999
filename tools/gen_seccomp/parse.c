/*
 * The first half of gen_seccomp: seal/seccomp.def becomes rules.
 *
 * The file is split into tokens. Statements become a flat list of rules for each policy, in order;
 * `allow` and `deny` are rules without tests.
 *
 * The constants come from the host's headers, which is correct because x86_64 and aarch64 share the
 * kernel's generic values; the assertion below refuses a host that does not.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "gen_seccomp/gen_seccomp.h"

#include "base/banned.h"

/* Newer than the headers of the oldest build host, or internal to the kernel. */
#ifndef PR_SCHED_CORE
#define PR_SCHED_CORE 62
#endif
#define SOCK_TYPE_MASK 0xf

_Static_assert(ENOSYS == 38 && EAFNOSUPPORT == 97 && SOCK_STREAM == 1 && SOL_SOCKET == 1 &&
                   TIOCSTI == 0x5412 && MAP_HUGETLB == 0x40000,
               "build on a host with the kernel's generic constants");

struct constant {
    const char *name;
    uint32_t value;
};

#define C(name) #name, name

static const struct constant errnos[] = { { C(EAFNOSUPPORT) }, { C(EINVAL) }, { C(ENOMEM) },
                                          { C(ENOPROTOOPT) },  { C(ENOSYS) }, { C(EOPNOTSUPP) },
                                          { C(EPERM) } };

static const struct constant values[] = { { C(AF_INET) },
                                          { C(AF_INET6) },
                                          { C(AF_NETLINK) },
                                          { C(AF_UNIX) },
                                          { C(CLONE_NEWCGROUP) },
                                          { C(CLONE_NEWIPC) },
                                          { C(CLONE_NEWNET) },
                                          { C(CLONE_NEWNS) },
                                          { C(CLONE_NEWPID) },
                                          { C(CLONE_NEWUSER) },
                                          { C(CLONE_NEWUTS) },
                                          { C(CLONE_PARENT) },
                                          { C(CLONE_THREAD) },
                                          { C(FIONBIO) },
                                          { C(FIONREAD) },
                                          { C(F_DUPFD) },
                                          { C(F_DUPFD_CLOEXEC) },
                                          { C(F_GETFD) },
                                          { C(F_GETFL) },
                                          { C(F_SETFD) },
                                          { C(F_SETFL) },
                                          { C(IPPROTO_TCP) },
                                          { C(IPPROTO_UDP) },
                                          { C(MADV_MERGEABLE) },
                                          { C(MAP_HUGETLB) },
                                          { C(MFD_HUGETLB) },
                                          { C(NETLINK_ROUTE) },
                                          { C(O_ACCMODE) },
                                          { C(O_CREAT) },
                                          { C(O_TRUNC) },
                                          { C(PER_LINUX) },
                                          { C(PROT_EXEC) },
                                          { C(PR_SCHED_CORE) },
                                          { C(PR_SET_MM) },
                                          { C(PR_SET_SECCOMP) },
                                          { C(SHM_HUGETLB) },
                                          { C(SOCK_DGRAM) },
                                          { C(SOCK_STREAM) },
                                          { C(SOCK_TYPE_MASK) },
                                          { C(SOL_SOCKET) },
                                          { C(SOL_TCP) },
                                          { C(SO_ATTACH_FILTER) },
                                          { C(SO_ATTACH_REUSEPORT_CBPF) },
                                          { C(S_IFIFO) },
                                          { C(S_IFMT) },
                                          { C(S_IFREG) },
                                          { C(S_IFSOCK) },
                                          { C(S_ISUID) },
                                          { C(TCP_ULP) },
                                          { C(TIOCLINUX) },
                                          { C(TIOCSETD) },
                                          { C(TIOCSTI) },
                                          { C(__O_TMPFILE) } };

__attribute__((format(printf, 3, 4))) static int gen_fail(const struct gen *g, int line,
                                                          const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "%s:%d: ", g->path, line);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return -EINVAL;
}

/* --- the file, split into tokens --- */

static int text_read(struct gen *g)
{
    FILE *f = fopen(g->path, "re");
    size_t len;
    int failed;

    if (!f) {
        fprintf(stderr, "%s: %s\n", g->path, strerror(errno));
        return -EINVAL;
    }
    len = fread(g->text, 1, sizeof g->text - 1, f);
    failed = ferror(f) || !feof(f);
    fclose(f);
    if (failed || strlen(g->text) != len) {
        fprintf(stderr, "%s: cannot be read, is not text, or has more than %d bytes\n", g->path,
                TEXT_MAX - 1);
        return -EINVAL;
    }
    return 0;
}

static int text_split(struct gen *g)
{
    char *rest = g->text;

    for (int line = 1; rest; line++) {
        char *words = strsep(&rest, "\n");
        bool starts = *words != ' ' && *words != '\t';
        const char *word;

        words[strcspn(words, "#")] = '\0';
        while ((word = strsep(&words, " \t"))) {
            if (!*word)
                continue;
            if (g->n_tokens == TOKENS_MAX)
                return gen_fail(g, line, "more than %d words", TOKENS_MAX);
            g->tokens[g->n_tokens++] =
                (struct token){ .text = word, .line = line, .starts = starts };
            starts = false;
        }
    }
    return 0;
}

/* --- statements --- */

/* The words of one statement. Past the end there are empty words on the line of the last one, so
 * that a missing word is reported like a wrong one, with its line. */
struct cursor {
    struct gen *g;
    struct policy *policy; /* the one being filled, NULL before the first */
    size_t pos;
    size_t end;
    struct token none;
    bool require;
};

static const struct token *cursor_peek(const struct cursor *c)
{
    return c->pos < c->end ? &c->g->tokens[c->pos] : &c->none;
}

static const struct token *cursor_next(struct cursor *c)
{
    const struct token *t = cursor_peek(c);

    if (c->pos < c->end)
        c->pos++;
    return t;
}

static bool cursor_take(struct cursor *c, const char *word)
{
    if (strcmp(cursor_peek(c)->text, word) != 0)
        return false;
    c->pos++;
    return true;
}

static int cursor_wrong(const struct cursor *c, const struct token *t, const char *wanted)
{
    if (!*t->text)
        return gen_fail(c->g, t->line, "expected %s, not the end of the statement", wanted);
    return gen_fail(c->g, t->line, "expected %s, not '%s'", wanted, t->text);
}

static int cursor_end(const struct cursor *c)
{
    return c->pos < c->end ? cursor_wrong(c, cursor_peek(c), "the end of the statement") : 0;
}

static bool constant_find(const struct constant *table, size_t n, const char *name, size_t len,
                          uint32_t *ret_value)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0) {
            *ret_value = table[i].value;
            return true;
        }
    return false;
}

static bool number_parse(const char *text, size_t len, uint32_t *ret_value)
{
    char *end;
    unsigned long long v;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    v = strtoull(text, &end, 0);
    if (errno || end != text + len || v > UINT32_MAX)
        return false;
    *ret_value = (uint32_t) v;
    return true;
}

static int parse_value(struct cursor *c, uint32_t *ret_value)
{
    const struct token *t = cursor_next(c);
    const char *p = t->text;
    uint32_t sum = 0;

    for (;;) {
        size_t len = strcspn(p, "|");
        uint32_t v;

        if (!number_parse(p, len, &v) && !constant_find(values, ARRAY_LEN(values), p, len, &v))
            return cursor_wrong(c, t, "a number or a known constant");
        sum |= v;
        if (!p[len])
            break;
        p += len + 1;
    }
    *ret_value = sum;
    return 0;
}

static int parse_errno(struct cursor *c, uint32_t *ret_action)
{
    const struct token *t = cursor_next(c);
    uint32_t code;

    if (!constant_find(errnos, ARRAY_LEN(errnos), t->text, strlen(t->text), &code))
        return cursor_wrong(c, t, "a known errno");
    *ret_action = SECCOMP_RET_ERRNO | code;
    return 0;
}

static int parse_action(struct cursor *c, uint32_t *ret_action)
{
    if (cursor_take(c, "allow")) {
        *ret_action = SECCOMP_RET_ALLOW;
        return 0;
    }
    if (cursor_take(c, "errno"))
        return parse_errno(c, ret_action);
    return cursor_wrong(c, cursor_peek(c), "'allow' or 'errno'");
}

static int parse_cond(struct cursor *c, struct cond *ret_cond)
{
    const struct token *t = cursor_next(c);
    struct cond cond = { .mask = UINT32_MAX };
    int r;

    if (strncmp(t->text, "arg", 3) != 0 || t->text[3] < '0' || t->text[3] > '5' || t->text[4])
        return cursor_wrong(c, t, "arg0 to arg5");
    cond.arg = (unsigned) (t->text[3] - '0');

    if (cursor_take(c, "&")) {
        r = parse_value(c, &cond.mask);
        if (r < 0)
            return r;
    }
    cond.equal = cursor_take(c, "==");
    if (!cond.equal && !cursor_take(c, "!="))
        return cursor_wrong(c, cursor_peek(c), "'==' or '!='");
    r = parse_value(c, &cond.value);
    if (r < 0)
        return r;
    if (cond.value & ~cond.mask)
        return gen_fail(c->g, t->line, "the value has bits outside of the mask");
    *ret_cond = cond;
    return 0;
}

static int parse_conds(struct cursor *c, struct rule *rule)
{
    if (!cursor_take(c, "if"))
        return 0;
    do {
        int r;

        if (rule->n_conds == CONDS_MAX)
            return gen_fail(c->g, cursor_peek(c)->line, "more than %d tests", CONDS_MAX);
        r = parse_cond(c, &rule->conds[rule->n_conds++]);
        if (r < 0)
            return r;
    } while (cursor_take(c, "and"));
    return 0;
}

/* --- rules --- */

/* Of a call or a policy; the latter becomes part of a C name. */
static bool name_ok(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return len > 0 && len < NAME_LEN && !name[len];
}

static const struct rule *policy_last_rule(const struct policy *p, uint32_t nr)
{
    for (unsigned i = p->n_rules; i-- > 0;)
        if (p->rules[i].nr == nr)
            return &p->rules[i];
    return NULL;
}

static int policy_add(const struct gen *g, struct policy *p, const struct rule *rule)
{
    const struct rule *before = policy_last_rule(p, rule->nr);

    if (before && before->n_conds == 0)
        return gen_fail(g, rule->line, "'%s' already appears on line %d", rule->call, before->line);
    if (p->n_rules == RULES_MAX)
        return gen_fail(g, rule->line, "more than %d rules", RULES_MAX);
    p->rules[p->n_rules++] = *rule;
    return 0;
}

/* Checks that are possible only when a policy is complete. */
static int policy_check(const struct gen *g, const struct policy *p)
{
    for (unsigned i = 0; i < p->n_rules; i++) {
        const struct rule *last = policy_last_rule(p, p->rules[i].nr);

        if (last->n_conds > 0)
            return gen_fail(g, last->line, "the last rule of '%s' must have no 'if'", last->call);
    }
    return 0;
}

/* Adds @rule for the call @t, or nothing if there is no such call. */
static int call_add(struct cursor *c, const struct token *t, struct rule *rule)
{
    int nr;

    if (!name_ok(t->text))
        return cursor_wrong(c, t, "the name of a call");

    /* Negative numbers are internal to the library, for calls of other architectures. */
    nr = seccomp_syscall_resolve_name_arch(c->g->arch->scmp, t->text);
    if (nr < 0)
        return c->require ? gen_fail(c->g, t->line, "required call '%s' is not known on %s",
                                     t->text, c->g->arch->name)
                          : 0;

    rule->call = t->text;
    rule->nr = (uint32_t) nr;
    rule->line = t->line;
    return policy_add(c->g, c->policy, rule);
}

/* allow CALL...; deny ERRNO CALL... */
static int parse_list(struct cursor *c, bool deny)
{
    struct rule rule = { .action = SECCOMP_RET_ALLOW };
    int r = deny ? parse_errno(c, &rule.action) : 0;

    if (r == 0 && c->pos == c->end)
        return cursor_wrong(c, &c->none, "the name of a call");
    while (r == 0 && c->pos < c->end)
        r = call_add(c, cursor_next(c), &rule);
    return r;
}

static int parse_rule(struct cursor *c)
{
    const struct token *call = cursor_next(c);
    struct rule rule = { 0 };
    int r;

    r = parse_action(c, &rule.action);
    if (r < 0)
        return r;
    r = parse_conds(c, &rule);
    if (r < 0)
        return r;
    r = cursor_end(c);
    if (r < 0)
        return r;
    return call_add(c, call, &rule);
}

static struct policy *policy_find(struct gen *g, const char *name)
{
    for (unsigned i = 0; i < g->n_policies; i++)
        if (strcmp(g->policies[i].name, name) == 0)
            return &g->policies[i];
    return NULL;
}

static int parse_include(struct cursor *c)
{
    const struct token *t = cursor_next(c);
    const struct policy *from = policy_find(c->g, t->text);

    if (!from || from == c->policy)
        return cursor_wrong(c, t, "the name of an earlier policy");
    for (unsigned i = 0; i < from->n_rules; i++) {
        int r = policy_add(c->g, c->policy, &from->rules[i]);

        if (r < 0)
            return r;
    }
    return cursor_end(c);
}

static int parse_policy(struct cursor *c)
{
    const struct token *t = cursor_next(c);
    struct policy *p;
    int r;

    if (c->policy) {
        r = policy_check(c->g, c->policy);
        if (r < 0)
            return r;
    }
    if (!name_ok(t->text))
        return cursor_wrong(c, t, "the name of a policy");
    if (policy_find(c->g, t->text))
        return gen_fail(c->g, t->line, "policy '%s' already exists", t->text);
    if (c->g->n_policies == POLICIES_MAX)
        return gen_fail(c->g, t->line, "more than %d policies", POLICIES_MAX);
    if (!cursor_take(c, "default"))
        return cursor_wrong(c, cursor_peek(c), "'default'");

    p = &c->g->policies[c->g->n_policies++];
    snprintf(p->name, sizeof p->name, "%s", t->text);
    c->policy = p;
    r = parse_action(c, &p->action);
    return r < 0 ? r : cursor_end(c);
}

static int parse_statement(struct cursor *c)
{
    if (!cursor_peek(c)->starts)
        return gen_fail(c->g, cursor_peek(c)->line, "an indented line with nothing to continue");
    if (cursor_take(c, "policy"))
        return parse_policy(c);
    if (!c->policy)
        return cursor_wrong(c, cursor_peek(c), "'policy' first");
    if (cursor_take(c, "include"))
        return parse_include(c);

    c->require = cursor_take(c, "require");
    if (cursor_take(c, "allow"))
        return parse_list(c, false);
    if (cursor_take(c, "deny"))
        return parse_list(c, true);
    if (cursor_take(c, "rule"))
        return parse_rule(c);
    return cursor_wrong(c, cursor_peek(c), "a statement");
}

static int parse_file(struct gen *g)
{
    struct cursor c = { .g = g };

    while (c.end < g->n_tokens) {
        int r;

        c.pos = c.end++;
        while (c.end < g->n_tokens && !g->tokens[c.end].starts)
            c.end++;
        c.none = (struct token){ .text = "", .line = g->tokens[c.end - 1].line };
        r = parse_statement(&c);
        if (r < 0)
            return r;
    }
    if (!c.policy)
        return gen_fail(g, 1, "no policy in the file");
    return policy_check(g, c.policy);
}

int gen_read(struct gen *g)
{
    return text_read(g) < 0 || text_split(g) < 0 || parse_file(g) < 0 ? -EINVAL : 0;
}
