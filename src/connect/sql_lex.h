/*
 * Words of SQL as PostgreSQL splits them, for two purposes: to find the names of parameters outside
 * of strings and comments, and to find names in the expressions of a plan. Pure; it knows no
 * grammar. It assumes standard_conforming_strings, which every session sets.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SQL_NAME_MAX 64 /* NAMEDATALEN: longer names are cut at 63 bytes by the server, too */

enum sql_kind {
    SQL_END,
    SQL_WORD,   /* a name or keyword: @name is folded, or what was in quotes */
    SQL_TEXT,   /* a string, a number, $1 */
    SQL_NAMED,  /* :name; @name as written */
    SQL_CAST,   /* :: */
    SQL_OTHER,  /* one character, @symbol */
    SQL_BROKEN, /* a string, comment or quoted name without an end */
};

struct sql_lexer {
    const char *text;
    size_t len, at;
};

struct sql_piece {
    enum sql_kind kind;
    size_t start, len; /* in the text */
    char symbol;       /* of SQL_OTHER */
    bool unicode;      /* U&"...": @name is not what it means */
    char name[SQL_NAME_MAX];
};

/* The next piece; comments and blanks are skipped. */
void sql_next(struct sql_lexer *lexer, struct sql_piece *ret_piece);
