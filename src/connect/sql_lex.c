#include "connect/sql_lex.h"

#include <string.h>

#include "base/text/utf8.h"

#include "base/banned.h"

static char peek(const struct sql_lexer *lexer, size_t ahead)
{
    return lexer->at + ahead < lexer->len ? lexer->text[lexer->at + ahead] : '\0';
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char) c >= 0x80;
}

static bool is_name(char c)
{
    return is_name_start(c) || is_digit(c) || c == '$';
}

/* ---- what is skipped ---- */

/* A comment in a comment is one, too. */
static bool skip_block_comment(struct sql_lexer *lexer)
{
    size_t depth = 0;

    while (lexer->at < lexer->len) {
        if (peek(lexer, 0) == '/' && peek(lexer, 1) == '*') {
            depth++;
            lexer->at += 2;
        } else if (peek(lexer, 0) == '*' && peek(lexer, 1) == '/') {
            lexer->at += 2;
            if (--depth == 0)
                return true;
        } else {
            lexer->at++;
        }
    }
    return false;
}

/* False: a comment without an end. */
static bool skip_blanks(struct sql_lexer *lexer)
{
    for (;;) {
        while (lexer->at < lexer->len && is_space(lexer->text[lexer->at]))
            lexer->at++;
        if (peek(lexer, 0) == '-' && peek(lexer, 1) == '-') {
            while (lexer->at < lexer->len && peek(lexer, 0) != '\n' && peek(lexer, 0) != '\r')
                lexer->at++;
        } else if (peek(lexer, 0) == '/' && peek(lexer, 1) == '*') {
            if (!skip_block_comment(lexer))
                return false;
        } else {
            return true;
        }
    }
}

/* ---- names ---- */

static void name_add(struct sql_piece *piece, size_t *len, char c)
{
    if (*len < sizeof piece->name - 1)
        piece->name[(*len)++] = c;
}

/* A character that does not fit is left out whole. */
static void name_end(struct sql_piece *piece, size_t len)
{
    if (len == sizeof piece->name - 1)
        len -= utf8_partial_end(piece->name, len);
    piece->name[len] = '\0';
}

static void take_word(struct sql_lexer *lexer, struct sql_piece *piece, bool fold)
{
    size_t len = 0;

    while (lexer->at < lexer->len && is_name(lexer->text[lexer->at])) {
        char c = lexer->text[lexer->at++];

        name_add(piece, &len, fold && c >= 'A' && c <= 'Z' ? (char) (c + 32) : c);
    }
    name_end(piece, len);
}

static void take_quoted_name(struct sql_lexer *lexer, struct sql_piece *piece)
{
    size_t len = 0;

    piece->kind = SQL_BROKEN;
    for (lexer->at++; lexer->at < lexer->len; lexer->at++) {
        if (peek(lexer, 0) == '"') {
            if (peek(lexer, 1) != '"') {
                lexer->at++;
                piece->kind = SQL_WORD;
                break;
            }
            lexer->at++;
        }
        name_add(piece, &len, lexer->text[lexer->at]);
    }
    name_end(piece, len);
}

/* ---- strings and numbers ---- */

static enum sql_kind take_string(struct sql_lexer *lexer, bool escapes)
{
    for (lexer->at++; lexer->at < lexer->len; lexer->at++) {
        if (escapes && peek(lexer, 0) == '\\') {
            lexer->at++;
        } else if (peek(lexer, 0) == '\'') {
            if (peek(lexer, 1) != '\'') {
                lexer->at++;
                return SQL_TEXT;
            }
            lexer->at++;
        }
    }
    lexer->at = lexer->len;
    return SQL_BROKEN;
}

/* $tag$ ... $tag$; false if what is here is none. */
static bool take_dollar_string(struct sql_lexer *lexer, struct sql_piece *piece)
{
    const char *start = lexer->text + lexer->at, *end = lexer->text + lexer->len, *close;
    size_t tag = 1;

    if (is_digit(peek(lexer, 1)))
        return false;
    while (start + tag < end && is_name(start[tag]) && start[tag] != '$')
        tag++;
    if (start + tag >= end || start[tag] != '$')
        return false;
    tag++;
    close = memmem(start + tag, (size_t) (end - start) - tag, start, tag);
    piece->kind = close ? SQL_TEXT : SQL_BROKEN;
    lexer->at = close ? (size_t) (close - lexer->text) + tag : lexer->len;
    return true;
}

/* Servers before 15 end a number where a word begins ("1LIMIT"), which would hide the word from
 * us; so that is none. */
static enum sql_kind take_number(struct sql_lexer *lexer)
{
    char base = (char) (peek(lexer, 1) | 32);
    bool any = peek(lexer, 0) == '0' && (base == 'x' || base == 'o' || base == 'b'), exponent = any;

    while (is_name(peek(lexer, 0)) || peek(lexer, 0) == '.') {
        char c = peek(lexer, 0);

        if (!is_digit(c) && c != '.' && c != '_') {
            if (c == '$' || (unsigned char) c >= 0x80 || (!any && ((c | 32) != 'e' || exponent)))
                return SQL_BROKEN;
            exponent = true;
        }
        lexer->at++;
    }
    return SQL_TEXT;
}

static void take_dollar(struct sql_lexer *lexer, struct sql_piece *piece)
{
    if (take_dollar_string(lexer, piece))
        return;
    piece->kind = SQL_OTHER;
    piece->symbol = '$';
    lexer->at++;
    if (is_digit(peek(lexer, 0))) {
        piece->kind = SQL_TEXT;
        while (is_digit(peek(lexer, 0)))
            lexer->at++;
    }
}

/* A string goes on after a line's end, and one with escapes has them there, too: E'a'<line>'b\'c'.
 * Nobody needs that; read as a string of its own it would hide what follows. */
static bool is_continued(struct sql_lexer lexer)
{
    return skip_blanks(&lexer) && peek(&lexer, 0) == '\'';
}

/* E'..', B'..', X'..', N'..', U&'..', U&".."; false: a plain word begins here. */
static bool take_prefixed(struct sql_lexer *lexer, struct sql_piece *piece)
{
    char c = (char) (peek(lexer, 0) | 32);

    if (c == 'u' && peek(lexer, 1) == '&' && (peek(lexer, 2) == '\'' || peek(lexer, 2) == '"')) {
        lexer->at += 2;
        piece->unicode = true;
        if (peek(lexer, 0) == '"')
            take_quoted_name(lexer, piece);
        else
            piece->kind = take_string(lexer, false);
        return true;
    }
    if ((c == 'e' || c == 'b' || c == 'x' || c == 'n') && peek(lexer, 1) == '\'') {
        lexer->at++;
        piece->kind = take_string(lexer, c == 'e');
        if (c == 'e' && is_continued(*lexer))
            piece->kind = SQL_BROKEN;
        return true;
    }
    return false;
}

static void take_colon(struct sql_lexer *lexer, struct sql_piece *piece)
{
    piece->kind = SQL_OTHER;
    piece->symbol = ':';
    lexer->at++;
    if (peek(lexer, 0) == ':') {
        lexer->at++;
        piece->kind = SQL_CAST;
    } else if (is_name_start(peek(lexer, 0))) {
        piece->kind = SQL_NAMED;
        take_word(lexer, piece, false);
    }
}

void sql_next(struct sql_lexer *lexer, struct sql_piece *ret_piece)
{
    char c;

    *ret_piece = (struct sql_piece){ .kind = SQL_END };
    if (!skip_blanks(lexer))
        ret_piece->kind = SQL_BROKEN;
    ret_piece->start = lexer->at;
    if (ret_piece->kind == SQL_BROKEN || lexer->at >= lexer->len)
        return;
    c = lexer->text[lexer->at];
    if (is_name_start(c)) {
        if (!take_prefixed(lexer, ret_piece)) {
            ret_piece->kind = SQL_WORD;
            take_word(lexer, ret_piece, true);
        }
    } else if (c == '"') {
        take_quoted_name(lexer, ret_piece);
    } else if (c == '\'') {
        ret_piece->kind = take_string(lexer, false);
    } else if (is_digit(c)) {
        ret_piece->kind = take_number(lexer);
    } else if (c == '$') {
        take_dollar(lexer, ret_piece);
    } else if (c == ':') {
        take_colon(lexer, ret_piece);
    } else {
        ret_piece->kind = SQL_OTHER;
        ret_piece->symbol = c;
        lexer->at++;
    }
    ret_piece->len = lexer->at - ret_piece->start;
}
