#include "base/words/problem.h"

#include "base/banned.h"

struct row {
    const char *word;
    int status;
    const char *meaning;
};

/* The first row is for PROBLEM_NONE. */
static const struct row rows[PROBLEM_END] = {
    { "internal", 500, "the service failed; see the server log" },
#define PROBLEM(name, word, status, meaning) { word, status, meaning },
#include "base/words/problems.def"
};

static const struct row *row_of(enum problem problem)
{
    return &rows[(unsigned) problem < PROBLEM_END ? problem : PROBLEM_NONE];
}

const char *problem_word(enum problem problem)
{
    return row_of(problem)->word;
}

int problem_status(enum problem problem)
{
    return row_of(problem)->status;
}

const char *problem_meaning(enum problem problem)
{
    return row_of(problem)->meaning;
}
