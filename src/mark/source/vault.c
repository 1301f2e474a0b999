#include "mark/source/vault.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "mark/dirs.h"

#include "base/banned.h"

#define FILE_NAME "source.key"
#define VERSION   "v1."
#define KEY_BYTES crypto_aead_xchacha20poly1305_ietf_KEYBYTES
#define NONCE     crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG       crypto_aead_xchacha20poly1305_ietf_ABYTES
#define HASH_HEX  16 /* of the key, in the sealed text */

struct key {
    unsigned char bytes[KEY_BYTES];
    char name[HASH_HEX + 1];
};

void vault_wipe(char *plain)
{
    if (plain)
        sodium_memzero(plain, strlen(plain));
    free(plain);
}

/* ---- the key ---- */

static void key_name(struct key *key)
{
    static const char label[] = "glovebox source key";
    unsigned char hash[HASH_HEX / 2 < crypto_generichash_BYTES_MIN ? crypto_generichash_BYTES_MIN
                                                                   : HASH_HEX / 2];

    (void) crypto_generichash(hash, sizeof hash, (const unsigned char *) label, sizeof label,
                              key->bytes, sizeof key->bytes);
    (void) sodium_bin2hex(key->name, sizeof key->name, hash, HASH_HEX / 2);
}

/* -ENOENT: there is none. */
static int key_read(int dir_fd, struct key *key, struct gb_err *err)
{
    autoclose int fd = openat(dir_fd, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char text[2 * KEY_BYTES + 2];
    struct stat st;
    size_t len = 0;
    ssize_t got;
    int r = 0;

    if (fd < 0 || fstat(fd, &st) < 0)
        return gb_fail(err, errno, "open '" MARK_DIR "/" FILE_NAME "' of the data directory");
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
        return gb_fail_plain(err, EPERM,
                             "the key " MARK_DIR "/" FILE_NAME " of the data directory can be read "
                             "by others or is another's; only its owner may: chmod 600");
    got = io_read_all(fd, text, sizeof text);
    if (got < 0)
        r = gb_fail(err, (int) -got, "read '" MARK_DIR "/" FILE_NAME "' of the data directory");
    else if (got < 2 * (ssize_t) KEY_BYTES || got == sizeof text ||
             sodium_hex2bin(key->bytes, sizeof key->bytes, text, 2 * KEY_BYTES, NULL, &len, NULL) <
                 0 ||
             len != sizeof key->bytes)
        r = gb_fail_plain(err, EUCLEAN,
                          "the key " MARK_DIR "/" FILE_NAME " of the data directory is damaged; "
                          "restore it from a backup, or remove it and set the passwords again");
    sodium_memzero(text, sizeof text);
    if (r == 0)
        key_name(key);
    return r;
}

/* Under a name of its own first, then linked: two processes that make one end with the same, and
 * nobody ever reads half of it. */
static int key_write(int dir_fd, const char *part, struct gb_err *err)
{
    autoclose int fd =
        openat(dir_fd, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    unsigned char bytes[KEY_BYTES];
    char text[2 * KEY_BYTES + 2];
    int r;

    if (fd < 0)
        return gb_fail(err, errno, "create '" MARK_DIR "/" FILE_NAME "' in the data directory");
    randombytes_buf(bytes, sizeof bytes);
    (void) sodium_bin2hex(text, sizeof text, bytes, sizeof bytes);
    text[2 * KEY_BYTES] = '\n';
    r = io_write_all(fd, text, 2 * KEY_BYTES + 1);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && linkat(dir_fd, part, dir_fd, FILE_NAME, 0) < 0 && errno != EEXIST)
        r = -errno;
    (void) unlinkat(dir_fd, part, 0);
    if (r == 0 && fsync(dir_fd) < 0)
        r = -errno;
    sodium_memzero(bytes, sizeof bytes);
    sodium_memzero(text, sizeof text);
    return r < 0 ? gb_fail(err, -r, "write '" MARK_DIR "/" FILE_NAME "' in the data directory") : 0;
}

static int key_make(const char *data_dir, struct key *key, struct gb_err *err)
{
    autoclose int dir = -EBADF;
    char part[64];
    int r = mark_dir_open(data_dir, NULL, true, &dir, err);

    if (r == 0)
        r = key_read(dir, key, err);
    if (r != -ENOENT)
        return r;
    (void) snprintf(part, sizeof part, FILE_NAME ".%d.%08x", (int) getpid(), randombytes_random());
    r = key_write(dir, part, err);
    return r < 0 ? r : key_read(dir, key, err);
}

static int key_get(const char *data_dir, struct key *key, struct gb_err *err)
{
    autoclose int dir = -EBADF;
    int r = mark_dir_open(data_dir, NULL, false, &dir, err);

    if (r == 0)
        r = key_read(dir, key, err);
    if (r == -ENOENT)
        return gb_fail_plain(err, EKEYREJECTED,
                             "the key " MARK_DIR "/" FILE_NAME " is missing in the data directory; "
                             "copy it from where the store was, or set the passwords of the "
                             "sources again");
    return r;
}

/* ---- secrets ---- */

static int seal(const struct key *key, const char *place, const char *plain, size_t len,
                char **ret_sealed)
{
    size_t bytes = NONCE + len + TAG;
    size_t text_size = sodium_base64_encoded_len(bytes, sodium_base64_VARIANT_ORIGINAL);
    autofree unsigned char *box = malloc(bytes);
    size_t head = strlen(VERSION) + HASH_HEX + 1;
    char *text = malloc(head + text_size);

    if (!box || !text) {
        free(text);
        return -ENOMEM;
    }
    randombytes_buf(box, NONCE);
    (void) crypto_aead_xchacha20poly1305_ietf_encrypt(
        box + NONCE, NULL, (const unsigned char *) plain, len, (const unsigned char *) place,
        strlen(place), NULL, box, key->bytes);
    (void) snprintf(text, head + 1, VERSION "%s.", key->name);
    (void) sodium_bin2base64(text + head, text_size, box, bytes, sodium_base64_VARIANT_ORIGINAL);
    *ret_sealed = text;
    return 0;
}

int vault_seal(const char *data_dir, const char *place, const char *plain, char **ret_sealed,
               struct gb_err *err)
{
    size_t len = strlen(plain);
    struct key key;
    int r;

    if (len > VAULT_PLAIN_MAX)
        return gb_fail_plain(err, EINVAL, "a secret can have at most %d bytes", VAULT_PLAIN_MAX);
    if (sodium_init() < 0)
        return gb_fail_plain(err, EIO, "libsodium cannot be used");
    r = key_make(data_dir, &key, err);
    if (r == 0 && seal(&key, place, plain, len, ret_sealed) < 0)
        r = gb_fail(err, ENOMEM, "seal a secret");
    sodium_memzero(&key, sizeof key);
    return r;
}

static int unseal(const struct key *key, const char *place, const char *text, char **ret_plain,
                  struct gb_err *err)
{
    size_t max = strlen(text), bytes = 0;
    autofree unsigned char *box = malloc(max + 1);
    char *plain = malloc(max + 1);
    unsigned long long len = 0;

    if (!box || !plain) {
        free(plain);
        return gb_fail(err, ENOMEM, "open a secret");
    }
    if (sodium_base642bin(box, max, text, max, NULL, &bytes, NULL, sodium_base64_VARIANT_ORIGINAL) <
            0 ||
        bytes < NONCE + TAG ||
        crypto_aead_xchacha20poly1305_ietf_decrypt((unsigned char *) plain, &len, NULL, box + NONCE,
                                                   bytes - NONCE, (const unsigned char *) place,
                                                   strlen(place), box, key->bytes) < 0) {
        free(plain);
        return gb_fail_plain(err, EBADMSG,
                             "the sealed password is damaged or belongs to something else; set it "
                             "again");
    }
    plain[len] = '\0';
    *ret_plain = plain;
    return 0;
}

int vault_open(const char *data_dir, const char *place, const char *sealed, char **ret_plain,
               struct gb_err *err)
{
    size_t head = strlen(VERSION) + HASH_HEX + 1;
    struct key key;
    int r;

    if (strncmp(sealed, VERSION, strlen(VERSION)) != 0 || strlen(sealed) <= head)
        return gb_fail_plain(err, EBADMSG, "the sealed password is damaged; set it again");
    if (sodium_init() < 0)
        return gb_fail_plain(err, EIO, "libsodium cannot be used");
    r = key_get(data_dir, &key, err);
    if (r == 0 &&
        (strncmp(sealed + strlen(VERSION), key.name, HASH_HEX) != 0 || sealed[head - 1] != '.'))
        r = gb_fail_plain(err, EKEYREJECTED,
                          "the password was sealed with another key than the " MARK_DIR
                          "/" FILE_NAME
                          " in the data directory; copy the key from where the store was, or set "
                          "the password again");
    if (r == 0)
        r = unseal(&key, place, sealed + head, ret_plain, err);
    sodium_memzero(&key, sizeof key);
    return r;
}
