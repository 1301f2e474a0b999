/*
 * Compiles seal/seccomp.def into classic BPF, at build time.
 *
 *     gen_seccomp ARCH seal/seccomp.def out.h        ARCH is x86_64 or aarch64
 *
 * Each policy of the file (tools/gen_seccomp/parse.c) is emitted as one array:
 *
 *     other architecture -> ENOSYS; x32 number -> ENOSYS
 *     a binary search over ranges of call numbers with the same result
 *     a block for each call that looks at arguments
 *
 * BPF jumps only forward, so the program is written from its end to its start: the target of every
 * jump already exists and its distance is known. A conditional jump reaches 255 instructions. To
 * reach further, a copy of the target (if it is a return) or an unconditional jump to it is placed
 * right after it.
 *
 * libseccomp provides only the numbers. Its own filters cannot express "these arguments, else that
 * errno" for one call, and it would build them at run time, where we must not allocate.
 *
 * The architecture is an argument, never that of the build host.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "gen_seccomp/gen_seccomp.h"

#include "base/banned.h"

#define X32_SYSCALL    0x40000000U
#define OFFSET_NR      0
#define OFFSET_ARCH    4
#define OFFSET_ARGS    16
#define JUMP_REACH_MAX 255U

static const struct arch arches[] = {
    { "x86_64", "__x86_64__", SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, true },
    { "aarch64", "__aarch64__", SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, false },
};

/* --- the program, written backwards --- */

/* insns[0] is the last instruction. A position is an index into it; it stays valid while the
 * program grows at its start. `full` is sticky, so that emitting needs no check at every step. */
struct prog {
    struct sock_filter insns[BPF_MAXINSNS];
    unsigned len;
    bool full;
};

static unsigned prog_emit(struct prog *p, uint16_t code, uint32_t k, unsigned jt, unsigned jf)
{
    if (p->len == BPF_MAXINSNS) {
        p->full = true;
        return p->len - 1;
    }
    p->insns[p->len] =
        (struct sock_filter){ .code = code, .jt = (uint8_t) jt, .jf = (uint8_t) jf, .k = k };
    return p->len++;
}

/* The number of instructions between the next one to be emitted and @pos. */
static unsigned prog_distance(const struct prog *p, unsigned pos)
{
    return p->len - 1 - pos;
}

static unsigned prog_return(struct prog *p, uint32_t action)
{
    for (unsigned i = p->len; i-- > 0;)
        if (p->insns[i].code == (BPF_RET | BPF_K) && p->insns[i].k == action)
            return i;
    return prog_emit(p, BPF_RET | BPF_K, action, 0, 0);
}

/* A position equivalent to @pos that the next instruction can jump to. */
static unsigned prog_near(struct prog *p, unsigned pos)
{
    if (prog_distance(p, pos) <= JUMP_REACH_MAX)
        return pos;
    if (p->insns[pos].code == (BPF_RET | BPF_K))
        return prog_emit(p, BPF_RET | BPF_K, p->insns[pos].k, 0, 0);
    return prog_emit(p, BPF_JMP | BPF_JA, prog_distance(p, pos), 0, 0);
}

static unsigned prog_jump(struct prog *p, uint16_t test, uint32_t k, unsigned yes, unsigned no)
{
    unsigned len;

    /* Moving one closer can push the other out of reach, once. */
    do {
        len = p->len;
        yes = prog_near(p, yes);
        no = prog_near(p, no);
    } while (p->len != len);
    return prog_emit(p, BPF_JMP | test | BPF_K, k, prog_distance(p, yes), prog_distance(p, no));
}

static unsigned prog_load(struct prog *p, uint32_t offset)
{
    return prog_emit(p, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static unsigned prog_cond(struct prog *p, const struct cond *cond, unsigned yes, unsigned no)
{
    prog_jump(p, BPF_JEQ, cond->value, cond->equal ? yes : no, cond->equal ? no : yes);
    if (cond->mask != UINT32_MAX)
        prog_emit(p, BPF_ALU | BPF_AND | BPF_K, cond->mask, 0, 0);
    /* Both architectures are little-endian: the low half of an argument comes first. */
    return prog_load(p, OFFSET_ARGS + 8 * cond->arg);
}

/* All rules of the call @nr; the last one has no tests. */
static unsigned prog_call(struct prog *p, const struct policy *policy, uint32_t nr)
{
    unsigned next = 0;

    for (unsigned i = policy->n_rules; i-- > 0;) {
        const struct rule *rule = &policy->rules[i];
        unsigned yes;

        if (rule->nr != nr)
            continue;
        yes = prog_return(p, rule->action);
        for (unsigned j = rule->n_conds; j-- > 0;)
            yes = prog_cond(p, &rule->conds[j], yes, next);
        next = yes;
    }
    return next;
}

/* Call numbers from @start to the next range's start have the same result. */
struct range {
    uint32_t start;
    uint32_t action; /* 0: the rules of the call @start decide */
    unsigned pos;
};

struct ranges {
    struct range list[2 * RULES_MAX + 1];
    unsigned len;
};

static void ranges_push(struct ranges *r, uint32_t start, uint32_t action)
{
    if (r->len > 0 && action != 0 && r->list[r->len - 1].action == action)
        return;
    r->list[r->len++] = (struct range){ .start = start, .action = action };
}

/* The first rule of the call with the smallest number that is not below @nr, or NULL. */
static const struct rule *policy_rule_from(const struct policy *p, uint32_t nr)
{
    const struct rule *found = NULL;

    for (unsigned i = 0; i < p->n_rules; i++)
        if (p->rules[i].nr >= nr && (!found || p->rules[i].nr < found->nr))
            found = &p->rules[i];
    return found;
}

static void ranges_build(struct ranges *ret, const struct policy *p)
{
    const struct rule *rule;
    uint32_t next = 0;

    ret->len = 0;
    while ((rule = policy_rule_from(p, next))) {
        if (rule->nr > next)
            ranges_push(ret, next, p->action);
        ranges_push(ret, rule->nr, rule->n_conds > 0 ? 0 : rule->action);
        next = rule->nr + 1;
    }
    ranges_push(ret, next, p->action);
}

/* The binary search; at its start the call's number is loaded. */
static unsigned prog_search(struct prog *p, const struct range *list, unsigned len)
{
    unsigned half = len / 2, low, high;

    if (len == 1)
        return list[0].action ? prog_return(p, list[0].action) : list[0].pos;
    high = prog_search(p, list + half, len - half);
    low = prog_search(p, list, half);
    return prog_jump(p, BPF_JGE, list[half].start, high, low);
}

static void prog_build(struct prog *p, const struct arch *arch, const struct policy *policy)
{
    struct ranges ranges;
    unsigned pos, nosys;

    ranges_build(&ranges, policy);
    for (unsigned i = ranges.len; i-- > 0;)
        if (ranges.list[i].action == 0)
            ranges.list[i].pos = prog_call(p, policy, ranges.list[i].start);

    pos = prog_search(p, ranges.list, ranges.len);
    nosys = prog_return(p, SECCOMP_RET_ERRNO | ENOSYS);
    /* A search that needs no step is a target and not code: it must come next. */
    if (pos != p->len - 1)
        prog_emit(p, BPF_JMP | BPF_JA, prog_distance(p, pos), 0, 0);
    if (arch->has_x32)
        prog_jump(p, BPF_JGE, X32_SYSCALL, nosys, p->len - 1);
    prog_load(p, OFFSET_NR);
    prog_jump(p, BPF_JEQ, arch->audit, p->len - 1, nosys);
    prog_load(p, OFFSET_ARCH);
}

/* --- the header --- */

static void prog_write(FILE *f, const struct prog *p, const char *name)
{
    fprintf(f, "\nstatic const struct sock_filter seccomp_%s[] = {\n", name);
    for (unsigned i = p->len; i-- > 0;)
        fprintf(f, "    { 0x%02x, %u, %u, 0x%08x }, /* %u */\n", p->insns[i].code, p->insns[i].jt,
                p->insns[i].jf, p->insns[i].k, p->len - 1 - i);
    fprintf(f, "};\n");
}

static int gen_write(const struct gen *g, const struct prog *progs, const char *out)
{
    FILE *f = fopen(out, "we");
    bool failed;

    if (!f) {
        fprintf(stderr, "%s: %s\n", out, strerror(errno));
        return -EIO;
    }
    fprintf(f,
            "/* Generated by gen_seccomp from a seccomp.def; do not edit. */\n"
            "#ifndef %s\n"
            "#error \"these filters were generated for %s\"\n"
            "#endif\n",
            g->arch->macro, g->arch->name);
    for (unsigned i = 0; i < g->n_policies; i++)
        prog_write(f, &progs[i], g->policies[i].name);

    failed = ferror(f);
    if (fclose(f) != 0 || failed) {
        fprintf(stderr, "cannot write %s\n", out);
        (void) unlink(out); /* an incomplete filter must not be compiled */
        return -EIO;
    }
    return 0;
}

static int gen_run(struct gen *g, const char *out)
{
    static struct prog progs[POLICIES_MAX];

    if (gen_read(g) < 0)
        return -EINVAL;
    for (unsigned i = 0; i < g->n_policies; i++) {
        prog_build(&progs[i], g->arch, &g->policies[i]);
        if (progs[i].full) {
            fprintf(stderr, "%s: policy '%s' needs more than %d instructions\n", g->path,
                    g->policies[i].name, BPF_MAXINSNS);
            return -E2BIG;
        }
    }
    return gen_write(g, progs, out);
}

int main(int argc, char **argv)
{
    static struct gen g;

    for (size_t i = 0; argc == 4 && i < ARRAY_LEN(arches); i++)
        if (strcmp(argv[1], arches[i].name) == 0)
            g.arch = &arches[i];
    if (!g.arch) {
        fprintf(stderr, "usage: gen_seccomp x86_64|aarch64 seccomp.def out.h\n");
        return 2;
    }
    g.path = argv[2];
    return gen_run(&g, argv[3]) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
