#include "mark/auth/password.h"

#include <ctype.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/utf8.h"
#include "base/thread.h"

#include "base/banned.h"

#define MEMORY_BYTES (INT64_C(64) * 1024 * 1024)
#define PASSES       3
#define RUNNING_MAX  2
#define WAITING_MAX  64
#define WAIT_S       15

_Static_assert(STORE_PASSWORD_MAX > crypto_pwhash_STRBYTES, "a hash fits");

/* ---- the turn ---- */

static int fail_busy(struct fault *fault)
{
    (void) fault_set(fault, PROBLEM_BUSY, NULL,
                     "too many people are signing in at this moment; try again in a few seconds");
    fault->retry_after_s = 3;
    return -1;
}

static int turn_begin(struct hasher *hasher, struct fault *fault)
{
    struct timespec until;
    int r = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_S;
    (void) pthread_mutex_lock(&hasher->lock);
    if (hasher->running >= RUNNING_MAX && hasher->waiting >= WAITING_MAX) {
        r = -EBUSY;
    } else {
        hasher->waiting++;
        while (r == 0 && hasher->running >= RUNNING_MAX)
            r = -pthread_cond_timedwait(&hasher->freed, &hasher->lock, &until);
        hasher->waiting--;
        if (hasher->running < RUNNING_MAX) {
            r = 0;
            hasher->running++;
        }
    }
    (void) pthread_mutex_unlock(&hasher->lock);
    return r < 0 ? fail_busy(fault) : 0;
}

static void turn_end(struct hasher *hasher)
{
    (void) pthread_mutex_lock(&hasher->lock);
    hasher->running--;
    (void) pthread_cond_signal(&hasher->freed);
    (void) pthread_mutex_unlock(&hasher->lock);
}

/* ---- hashes ---- */

/* Made up, not computed: checking a password against it takes as long as against any other. */
static void make_nobody(struct hasher *hasher)
{
    uint8_t salt[16], hash[32];
    char salt_text[23], hash_text[44];

    randombytes_buf(salt, sizeof salt);
    randombytes_buf(hash, sizeof hash);
    (void) sodium_bin2base64(salt_text, sizeof salt_text, salt, sizeof salt,
                             sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
    (void) sodium_bin2base64(hash_text, sizeof hash_text, hash, sizeof hash,
                             sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
    (void) snprintf(hasher->nobody, sizeof hasher->nobody, "$argon2id$v=19$m=%lld,t=%lld,p=1$%s$%s",
                    (long long) (hasher->memory_bytes / 1024), (long long) hasher->passes,
                    salt_text, hash_text);
}

void hasher_init(struct hasher *hasher, int64_t memory_bytes, int64_t passes)
{
    *hasher = (struct hasher){ .memory_bytes = memory_bytes ? memory_bytes : MEMORY_BYTES,
                               .passes = passes ? passes : PASSES };
    (void) pthread_mutex_init(&hasher->lock, NULL); /* cannot fail with defaults */
    cond_init(&hasher->freed);
    make_nobody(hasher);
}

void hasher_release(struct hasher *hasher)
{
    (void) pthread_cond_destroy(&hasher->freed);
    (void) pthread_mutex_destroy(&hasher->lock);
}

/* In a turn. Fails only if there is no memory. */
static int make_hash(struct hasher *hasher, const char *password, char ret_hash[STORE_PASSWORD_MAX])
{
    char hash[crypto_pwhash_STRBYTES];

    if (crypto_pwhash_str(hash, password, strlen(password), (unsigned long long) hasher->passes,
                          (size_t) hasher->memory_bytes) != 0)
        return -ENOMEM;
    (void) snprintf(ret_hash, STORE_PASSWORD_MAX, "%s", hash);
    return 0;
}

int hasher_make(struct hasher *hasher, const char *password, char ret_hash[STORE_PASSWORD_MAX],
                struct fault *fault)
{
    int r = turn_begin(hasher, fault);

    if (r < 0)
        return r;
    r = make_hash(hasher, password, ret_hash);
    turn_end(hasher);
    return r < 0 ? fault_no_memory(fault) : 0;
}

int hasher_check(struct hasher *hasher, const char *password, const char *hash, bool *ret_right,
                 char ret_again[STORE_PASSWORD_MAX], struct fault *fault)
{
    char text[STORE_PASSWORD_MAX] = "";
    bool right;
    int r = turn_begin(hasher, fault);

    if (r < 0)
        return r;
    (void) snprintf(text, sizeof text, "%s", hash ? hash : hasher->nobody);
    ret_again[0] = '\0';
    errno = 0;
    right = crypto_pwhash_str_verify(text, password, strlen(password)) == 0 && hash;
    r = !right && errno == ENOMEM ? -1 : 0;
    if (right &&
        crypto_pwhash_str_needs_rehash(text, (unsigned long long) hasher->passes,
                                       (size_t) hasher->memory_bytes) != 0 &&
        make_hash(hasher, password, ret_again) < 0)
        ret_again[0] = '\0'; /* another time */
    turn_end(hasher);
    if (r < 0)
        return fault_no_memory(fault);
    *ret_right = right;
    return 0;
}

/* ---- rules ---- */

/* The commonest of at least eight characters, as lists of leaked passwords count them, in lower
 * case. It is short on purpose: throttling is what stops guessing, and this is for the handful that
 * is tried first everywhere. */
static const char *const common[] = {
    "00000000",   "11111111",   "11223344",      "12121212",     "123123123",  "12341234",
    "1234567890", "12345678",   "123456789",     "12345678910",  "123456abc",  "123456789a",
    "1234qwer",   "123qweasd",  "147258369",     "1q2w3e4r",     "1q2w3e4r5t", "1qaz2wsx",
    "1qazxsw2",   "22222222",   "55555555",      "66666666",     "77777777",   "789456123",
    "87654321",   "88888888",   "987654321",     "99999999",     "a1234567",   "a12345678",
    "a123456789", "aa123456",   "aa12345678",    "abc12345",     "abcd1234",   "abcdefgh",
    "access14",   "admin123",   "administrator", "admin1234",    "alexander",  "asdasdasd",
    "asdf1234",   "asdfasdf",   "asdfghjk",      "asdfghjkl",    "babygirl",   "baseball",
    "basketball", "bigdaddy",   "butterfly",     "changeme",     "charlie1",   "chocolate",
    "computer",   "corvette",   "creative",      "danielle",     "default1",   "einstein",
    "elephant",   "football",   "football1",     "fuckyou1",     "glovebox",   "godzilla",
    "greenday",   "hello123",   "iloveyou",      "iloveyou1",    "internet",   "jennifer",
    "jonathan",   "letmein1",   "letmein123",    "liverpool",    "manchester", "marlboro",
    "master12",   "maverick",   "mercedes",      "metallica",    "michael1",   "michelle",
    "midnight",   "mountain",   "myspace1",      "newyork1",     "nicholas",   "p@ssw0rd",
    "p@ssword",   "pa55word",   "pa$$w0rd",      "passw0rd",     "password",   "password!",
    "password1",  "password12", "password123",   "password1234", "patricia",   "pokemon1",
    "princess",   "princess1",  "q1w2e3r4",      "q1w2e3r4t5",   "qazwsxedc",  "qwer1234",
    "qwerasdf",   "qwerty12",   "qwerty123",     "qwertyui",     "qwertyuiop", "qwerty1234",
    "rockstar",   "samantha",   "scorpion",      "security",     "slipknot",   "snowball",
    "spiderman",  "starwars",   "steelers",      "summer123",    "sunshine",   "sunshine1",
    "superman",   "swordfish",  "test1234",      "testtest",     "trustno1",   "valentine",
    "victoria",   "welcome1",   "welcome123",    "whatever",     "william1",   "zaq12wsx",
    "zxcvbnm1",
};

static int fail_weak(struct fault *fault, const char *what)
{
    return fault_set(fault, PROBLEM_PASSWORD_WEAK, "password", "%s; choose another password", what);
}

static bool is_one_character(const char *password)
{
    for (const char *p = password; *p; p++)
        if (*p != password[0])
            return false;
    return true;
}

int password_check(const char *password, const char *email, struct fault *fault)
{
    size_t len = strlen(password);

    if (len < PASSWORD_MIN || len > PASSWORD_LEN_MAX)
        return fault_set(fault, PROBLEM_PASSWORD_WEAK, "password",
                         "a password has %d to %d bytes; several words make a good one",
                         PASSWORD_MIN, PASSWORD_LEN_MAX);
    if (!utf8_valid(password, len))
        return fail_weak(fault, "this password is not UTF-8");
    if (strcasecmp(password, email) == 0)
        return fail_weak(fault, "this password is the address");
    if (is_one_character(password))
        return fail_weak(fault, "this password repeats one character");
    for (size_t i = 0; i < ARRAY_LEN(common); i++)
        if (strcasecmp(password, common[i]) == 0)
            return fail_weak(fault, "this password is one of the most common ones");
    return 0;
}

/* ---- addresses ---- */

#define LOCAL_MAX 64
#define LABEL_MAX 63

/* Dot-separated runs of letters, digits and @more, none empty or longer than @part_max. */
static bool is_dotted(const char *text, size_t len, const char *more, size_t part_max)
{
    size_t part = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '.' && part > 0)
            part = 0;
        else if ((isascii((unsigned char) text[i]) && isalnum((unsigned char) text[i])) ||
                 (text[i] != '\0' && strchr(more, text[i]) && text[i] != '.'))
            part++;
        else
            return false;
        if (part > part_max)
            return false;
    }
    return part > 0;
}

/* No label of a host begins or ends with a hyphen. */
static bool has_stray_hyphen(const char *host)
{
    return host[0] == '-' || host[strlen(host) - 1] == '-' || strstr(host, ".-") ||
           strstr(host, "-.");
}

int email_normalise(const char *email, char ret_email[STORE_EMAIL_MAX], struct fault *fault)
{
    size_t len = strlen(email);
    const char *at = strrchr(email, '@');

    if (len >= STORE_EMAIL_MAX || !at || at - email > LOCAL_MAX ||
        !is_dotted(email, (size_t) (at - email), "!#$%&'*+/=?^_`{|}~-", LOCAL_MAX) ||
        !is_dotted(at + 1, strlen(at + 1), "-", LABEL_MAX) || has_stray_hyphen(at + 1))
        return fault_set(fault, PROBLEM_EMAIL_MALFORMED, "email",
                         "this is not an address like ada@example.com, in ASCII and of at most %d "
                         "characters",
                         STORE_EMAIL_MAX - 1);
    for (size_t i = 0; i <= len; i++)
        ret_email[i] = (char) tolower((unsigned char) email[i]);
    return 0;
}
