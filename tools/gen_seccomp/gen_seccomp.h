/* Shared by the two halves of gen_seccomp: a parsed policy, to be compiled to BPF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_MAX     131072
#define TOKENS_MAX   8192
#define POLICIES_MAX 8
#define RULES_MAX    768
#define CONDS_MAX    4
#define NAME_LEN     32

struct arch {
    const char *name;
    const char *macro; /* defined by a compiler for it */
    uint32_t scmp;
    uint32_t audit;
    bool has_x32;
};

struct token {
    const char *text;
    int line;
    bool starts; /* a statement: it is in the first column */
};

struct cond {
    unsigned arg;
    uint32_t mask;
    uint32_t value;
    bool equal;
};

struct rule {
    const char *call;
    uint32_t nr;
    int line;
    uint32_t action; /* SECCOMP_RET_* */
    unsigned n_conds;
    struct cond conds[CONDS_MAX];
};

struct policy {
    char name[NAME_LEN];
    uint32_t action; /* for calls without rules */
    struct rule rules[RULES_MAX];
    unsigned n_rules;
};

struct gen {
    const char *path;
    const struct arch *arch;
    char text[TEXT_MAX];
    struct token tokens[TOKENS_MAX];
    size_t n_tokens;
    struct policy policies[POLICIES_MAX];
    unsigned n_policies;
};

/* Reads g->path and fills the policies; prints errors on standard error. 0 or -EINVAL. */
int gen_read(struct gen *g);
