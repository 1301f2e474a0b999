/* The problem types of base/words/problems.def. */
#pragma once

enum problem {
    PROBLEM_NONE,
#define PROBLEM(name, ...) PROBLEM_##name,
#include "base/words/problems.def"
    PROBLEM_END, /* how many there are */
};

/* "session-expired"; "internal" for PROBLEM_NONE and for values out of range. */
const char *problem_word(enum problem problem);

/* The HTTP status; 500 likewise. */
int problem_status(enum problem problem);

/* Half a sentence for the documentation. */
const char *problem_meaning(enum problem problem);
