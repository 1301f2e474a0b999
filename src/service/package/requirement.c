#include "service/package/requirement.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/text/parse.h"

#include "base/banned.h"

#define MARKER_DEPTH 8
#define BLANKS       " \t"

/* ---- reading ---- */

/* The position in the text, and the result so far. */
struct scan {
    const char *at;
    char *out; /* the text again, without unnecessary spaces */
    size_t len;
    bool full;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || is_digit(c);
}

static void put(struct scan *s, const char *text, size_t len)
{
    if (s->len + len > REQUIREMENT_MAX) {
        s->full = true;
        return;
    }
    memcpy(s->out + s->len, text, len);
    s->len += len;
    s->out[s->len] = '\0';
}

static void skip_blanks(struct scan *s)
{
    s->at += strspn(s->at, BLANKS);
}

/* Takes the word if it comes next; @spaced keeps a space on both sides of it. */
static bool take(struct scan *s, const char *word, bool spaced)
{
    size_t len = strlen(word);

    if (strncmp(s->at, word, len) != 0)
        return false;
    s->at += len;
    if (spaced)
        put(s, " ", 1);
    put(s, word, len);
    if (spaced)
        put(s, " ", 1);
    return true;
}

/* ---- names and extras ---- */

/* Letters and digits, and . _ - between them. */
static size_t name_length(const char *text)
{
    size_t len = 0;

    while (is_alnum(text[len]) || (len > 0 && text[len] && strchr("._-", text[len])))
        len++;
    if (len == 0 || len > PACKAGE_NAME_MAX || !is_alnum(text[len - 1]))
        return 0;
    return len;
}

void package_normal(const char *name, char ret_normal[PACKAGE_NAME_MAX + 1])
{
    size_t len = name_length(name), n = 0;

    ret_normal[0] = '\0';
    if (len == 0 || name[len] != '\0')
        return;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];

        if (is_alnum(c))
            ret_normal[n++] = (char) (c >= 'A' && c <= 'Z' ? c | 32 : c);
        else if (ret_normal[n - 1] != '-')
            ret_normal[n++] = '-';
    }
    ret_normal[n] = '\0';
}

static bool take_name(struct scan *s)
{
    size_t len = name_length(s->at);

    put(s, s->at, len);
    s->at += len;
    return len > 0;
}

static bool take_extras(struct scan *s)
{
    if (!take(s, "[", false))
        return true;
    skip_blanks(s);
    if (take(s, "]", false))
        return true;
    do {
        skip_blanks(s);
        if (!take_name(s))
            return false;
        skip_blanks(s);
    } while (take(s, ",", false));
    return take(s, "]", false);
}

bool package_name_valid(const char *text)
{
    char out[REQUIREMENT_MAX + 1];
    struct scan s = { .at = text, .out = out };

    /* "name[]" is a valid requirement in PEP 508, but not a package name. */
    return take_name(&s) && strcmp(s.at, "[]") != 0 && take_extras(&s) && !s.full &&
           s.at[0] == '\0';
}

/* ---- versions ---- */

static size_t digits(const char *text)
{
    size_t n = 0;

    while (is_digit(text[n]))
        n++;
    return n;
}

/* The length of one of the words with an optional separator before and number behind, or 0. */
static size_t suffix(const char *text, const char *const *words)
{
    size_t at = text[0] && strchr("-_.", text[0]) ? 1 : 0;

    for (; *words; words++) {
        size_t len = strlen(*words);

        if (strncasecmp(text + at, *words, len) != 0)
            continue;
        at += len;
        if (text[at] && strchr("-_.", text[at]) && is_digit(text[at + 1]))
            at++;
        return at + digits(text + at);
    }
    return 0;
}

/* The length of a version of PEP 440 at the start of the text, or 0. */
static size_t version_length(const char *text)
{
    static const char *const pre[] = {
        "alpha", "beta", "preview", "pre", "rc", "a", "b", "c", NULL
    };
    static const char *const post[] = { "post", "rev", "r", NULL };
    static const char *const dev[] = { "dev", NULL };
    size_t at = (text[0] | 32) == 'v' ? 1 : 0, n = digits(text + at);

    if (n == 0)
        return 0;
    at += n;
    if (text[at] == '!') {
        n = digits(text + at + 1);
        if (n == 0)
            return 0;
        at += 1 + n;
    }
    while (text[at] == '.' && is_digit(text[at + 1]))
        at += 1 + digits(text + at + 1);
    at += suffix(text + at, pre);
    if (text[at] == '-' && is_digit(text[at + 1]))
        at += 1 + digits(text + at + 1);
    else
        at += suffix(text + at, post);
    at += suffix(text + at, dev);
    if (text[at] == '+' && is_alnum(text[at + 1])) {
        at += 2;
        while (is_alnum(text[at]) ||
               (text[at] && strchr("-_.", text[at]) && is_alnum(text[at + 1])))
            at++;
    }
    return at;
}

bool package_version_valid(const char *text)
{
    size_t len = version_length(text);

    return len > 0 && text[len] == '\0';
}

static bool is_any(const char *version)
{
    return !version || version[0] == '\0' || strcmp(version, "latest") == 0;
}

bool package_version_or_any_valid(const char *version)
{
    return is_any(version) || package_version_valid(version);
}

static bool take_version(struct scan *s, bool star)
{
    size_t len = version_length(s->at);

    if (len == 0)
        return false;
    put(s, s->at, len);
    s->at += len;
    if (star)
        (void) take(s, ".*", false);
    return true;
}

/* One or more comparisons, separated by commas. */
static bool take_versions(struct scan *s)
{
    static const char *const signs[] = { "===", "==", "~=", "!=", "<=", ">=", "<", ">" };
    bool found;

    do {
        found = false;
        skip_blanks(s);
        for (size_t i = 0; i < ARRAY_LEN(signs) && !found; i++) {
            if (!take(s, signs[i], false))
                continue;
            skip_blanks(s);
            found = take_version(s, strcmp(signs[i], "==") == 0 || strcmp(signs[i], "!=") == 0);
            if (!found)
                return false;
        }
        skip_blanks(s);
    } while (found && take(s, ",", false));
    return found;
}

/* ---- markers ---- */

static bool take_operand(struct scan *s)
{
    static const char *const names[] = {
        "python_version",
        "python_full_version",
        "os_name",
        "sys_platform",
        "platform_release",
        "platform_system",
        "platform_version",
        "platform_machine",
        "extra",
        "platform_python_implementation",
        "implementation_name",
        "implementation_version",
    };
    char quote = s->at[0];
    size_t len;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        len = strlen(names[i]);
        if (strncmp(s->at, names[i], len) == 0 && !is_alnum(s->at[len]) && s->at[len] != '_')
            return take(s, names[i], false);
    }
    if (quote != '"' && quote != '\'')
        return false;
    for (len = 1; is_alnum(s->at[len]) || (s->at[len] && strchr("._-+*! ", s->at[len])); len++)
        ;
    if (s->at[len] != quote)
        return false;
    put(s, s->at, len + 1);
    s->at += len + 1;
    return true;
}

static bool take_marker(struct scan *s, int depth);

static bool take_comparison(struct scan *s, int depth)
{
    static const char *const signs[] = { "===", "==", "~=", "!=", "<=",
                                         ">=",  "<",  ">",  "in", "not in" };
    bool found = false;

    skip_blanks(s);
    if (take(s, "(", false)) {
        if (depth == 0 || !take_marker(s, depth - 1))
            return false;
        skip_blanks(s);
        return take(s, ")", false);
    }
    if (!take_operand(s))
        return false;
    skip_blanks(s);
    for (size_t i = 0; i < ARRAY_LEN(signs) && !found; i++)
        found = take(s, signs[i], true);
    skip_blanks(s);
    return found && take_operand(s);
}

static bool take_marker(struct scan *s, int depth)
{
    do {
        if (!take_comparison(s, depth))
            return false;
        skip_blanks(s);
    } while (take(s, "and ", true) || take(s, "or ", true));
    return true;
}

/* ---- URLs ---- */

/* One host, perhaps with a port: no pattern, no user, no password. */
static bool url_host_valid(const char *at)
{
    size_t len = strcspn(at, "/?#");

    for (size_t i = 0; i < len; i++)
        if (!is_alnum(at[i]) && !strchr(".-_:[]", at[i]))
            return false;
    return len > 0;
}

/* Printable, without spaces and quotes; apart from the host it is not interpreted. */
static bool take_url(struct scan *s)
{
    static const char *const schemes[] = { "https://", "http://", "git+https://" };
    bool found = false;
    size_t len = 0;

    skip_blanks(s);
    for (size_t i = 0; i < ARRAY_LEN(schemes) && !found; i++)
        found = strncasecmp(s->at, schemes[i], strlen(schemes[i])) == 0 &&
                url_host_valid(s->at + strlen(schemes[i]));
    while (s->at[len] > ' ' && s->at[len] < 0x7f && !strchr("'\"\\`<>{}|^;", s->at[len]))
        len++;
    put(s, s->at, len);
    s->at += len;
    return found && strcspn(s->at - len, "@") >= len; /* it contains no user and no password */
}

static bool looks_like_url(const char *text)
{
    return strstr(text, "://") || strchr(text, '@');
}

/* ---- the whole requirement ---- */

static bool take_rest(struct scan *s, bool *ret_versioned)
{
    bool brackets;

    skip_blanks(s);
    if (!take_extras(s))
        return false;
    skip_blanks(s);
    brackets = s->at[0] == '(';
    s->at += brackets;
    if (brackets || (s->at[0] && strchr("=~!<>", s->at[0]))) {
        if (!take_versions(s))
            return false;
        *ret_versioned = true;
    }
    skip_blanks(s);
    if (brackets && *s->at++ != ')')
        return false;
    skip_blanks(s);
    if (s->at[0] == ';') {
        s->at++;
        put(s, " ; ", 3);
        if (!take_marker(s, MARKER_DEPTH))
            return false;
        skip_blanks(s);
    }
    return s->at[0] == '\0';
}

static int malformed(const char *text, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX];

    format_quoted(text, quoted);
    return gb_fail_plain(err, EINVAL,
                         "%s is not a requirement; expected a name with optional extras and "
                         "versions, such as requests[socks]>=2.31",
                         quoted);
}

int requirement_parse(const char *text, bool urls, struct requirement *ret_requirement,
                      struct gb_err *err)
{
    struct requirement r = { 0 };
    struct scan s = { .at = text, .out = r.text };
    char quoted[FORMAT_QUOTED_MAX];
    size_t len;

    if (strlen(text) > REQUIREMENT_MAX)
        return gb_fail_plain(err, EINVAL, "a requirement may have at most %d bytes",
                             REQUIREMENT_MAX);
    if (looks_like_url(text) && text[strspn(text, " \t")] != '-' && !urls) {
        format_quoted(text, quoted);
        return gb_fail_plain(err, EPERM,
                             "%s is a URL, which is accepted only if the operator sets "
                             "--package-urls; give a package name",
                             quoted);
    }
    skip_blanks(&s);
    len = name_length(s.at);
    if (len == 0)
        return malformed(text, err);
    memcpy(r.name, s.at, len);
    package_normal(r.name, r.normal);
    put(&s, s.at, len);
    s.at += len;
    skip_blanks(&s);
    if (s.at[0] == '@') {
        s.at++;
        put(&s, " @ ", 3);
        r.is_url = r.versioned = true;
        if (!take_url(&s))
            return malformed(text, err);
        skip_blanks(&s);
        if (s.at[0] != '\0')
            return malformed(text, err);
    } else if (!take_rest(&s, &r.versioned)) {
        return malformed(text, err);
    }
    if (s.full)
        return malformed(text, err);
    *ret_requirement = r;
    return 0;
}

int requirement_from_name(const char *package, const char *version,
                          struct requirement *ret_requirement)
{
    char text[REQUIREMENT_MAX + 1];
    struct gb_err ignored;
    int len;

    if (!package_name_valid(package) || !package_version_or_any_valid(version))
        return -EINVAL;
    len = is_any(version) ? snprintf(text, sizeof text, "%s", package)
                          : snprintf(text, sizeof text, "%s==%s", package, version);
    if (len < 0 || (size_t) len >= sizeof text)
        return -EINVAL;
    return requirement_parse(text, false, ret_requirement, &ignored);
}

/* ---- lists ---- */

/* Whether the comma at @comma ends a requirement: the next one begins with a name. */
static bool comma_ends(const char *comma)
{
    comma += 1 + strspn(comma + 1, BLANKS);
    return *comma == '\0' || !strchr("<>=!~", *comma);
}

size_t requirement_next(const char **text, const char **ret_start)
{
    const char *start = *text + strspn(*text, BLANKS), *end = start;
    bool url = false;
    char quote = '\0';
    int depth = 0;

    for (; *end; end++) {
        if (quote)
            quote = *end == quote ? '\0' : quote;
        else if (*end == '"' || *end == '\'')
            quote = *end;
        else if (*end == '[' || *end == '(')
            depth++;
        else if (*end == ']' || *end == ')')
            depth--;
        else if (*end == '@')
            url = true;
        else if (*end == ',' && depth <= 0 && !url && comma_ends(end))
            break;
    }
    *text = *end ? end + 1 : NULL;
    while (end > start && strchr(BLANKS, end[-1]))
        end--;
    *ret_start = start;
    return (size_t) (end - start);
}

bool package_listed(const char *list, const char *normal)
{
    char word[PACKAGE_NAME_MAX + 1], other[PACKAGE_NAME_MAX + 1];

    while (list && *list) {
        size_t len = strcspn(list, ", \t\n");

        if (len > 0 && len <= PACKAGE_NAME_MAX) {
            memcpy(word, list, len);
            word[len] = '\0';
            package_normal(word, other);
            if (other[0] && strcmp(other, normal) == 0)
                return true;
        }
        list += len + (list[len] != '\0');
    }
    return false;
}

static const char *const popular[] = {
    "aiohttp",        "anthropic",     "asyncpg",      "attrs",
    "beautifulsoup4", "black",         "boto3",        "botocore",
    "certifi",        "cffi",          "chardet",      "click",
    "colorama",       "cryptography",  "cython",       "dask",
    "django",         "docker",        "duckdb",       "fastapi",
    "flask",          "gensim",        "gunicorn",     "httpx",
    "humanize",       "idna",          "jinja2",       "joblib",
    "jsonschema",     "keras",         "langchain",    "lightgbm",
    "lxml",           "markdown",      "matplotlib",   "mypy",
    "networkx",       "nltk",          "numba",        "numpy",
    "openai",         "opencv-python", "openpyxl",     "packaging",
    "pandas",         "paramiko",      "pillow",       "plotly",
    "polars",         "protobuf",      "psutil",       "psycopg2",
    "pyarrow",        "pydantic",      "pygments",     "pyjwt",
    "pymongo",        "pymysql",       "pyparsing",    "pytest",
    "pytz",           "pyyaml",        "redis",        "regex",
    "requests",       "rich",          "scikit-learn", "scipy",
    "seaborn",        "selenium",      "setuptools",   "shapely",
    "simplejson",     "six",           "sqlalchemy",   "starlette",
    "statsmodels",    "sympy",         "tabulate",     "tensorflow",
    "tiktoken",       "tokenizers",    "torch",        "torchvision",
    "tornado",        "tqdm",          "transformers", "typing-extensions",
    "tzdata",         "ujson",         "urllib3",      "uvicorn",
    "websockets",     "werkzeug",      "wheel",        "xgboost",
    "xlrd",           "xlsxwriter",
};

/* One letter more, fewer or different, or two neighbours swapped. */
static bool one_slip(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b), i = 0;

    while (a[i] && a[i] == b[i])
        i++;
    if (la == lb)
        return strcmp(a + i + 1, b + i + 1) == 0 ||
               (a[i + 1] && a[i] == b[i + 1] && a[i + 1] == b[i] &&
                strcmp(a + i + 2, b + i + 2) == 0);
    if (la == lb + 1)
        return strcmp(a + i + 1, b + i) == 0;
    return lb == la + 1 && strcmp(a + i, b + i + 1) == 0;
}

const char *package_lookalike(const char *normal)
{
    const char *found = NULL;

    /* Names of up to three letters are too short for this. */
    for (size_t i = 0; i < ARRAY_LEN(popular); i++) {
        if (strcmp(popular[i], normal) == 0)
            return NULL;
        if (!found && strlen(popular[i]) > 3 && one_slip(normal, popular[i]))
            found = popular[i];
    }
    return found;
}
