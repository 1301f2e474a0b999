#include "egress/mask.h"

#include <string.h>

#include "base/banned.h"

static void word_add(struct mask *mask, const char *text, size_t len)
{
    if (len < MASK_MIN || mask->words_len == MASK_WORDS_MAX)
        return;
    mask->words[mask->words_len].text = text;
    mask->words[mask->words_len++].len = len;
}

void mask_init(struct mask *mask, const struct secret *const *secrets, size_t len)
{
    mask->words_len = 0;
    for (size_t i = 0; i < len; i++) {
        const char *value = secrets[i]->value;
        const char *blank = memchr(value, ' ', secrets[i]->value_len);

        word_add(mask, value, secrets[i]->value_len);
        if (blank)
            word_add(mask, blank + 1, secrets[i]->value_len - (size_t) (blank + 1 - value));
    }
}

size_t mask_apply(const struct mask *mask, char *data, size_t len, bool end)
{
    size_t sure = len;

    for (size_t w = 0; w < mask->words_len; w++) {
        const char *word = mask->words[w].text;
        size_t size = mask->words[w].len, at = 0;
        char *found;

        while (at < len && (found = memchr(data + at, word[0], len - at))) {
            size_t left = len - (size_t) (found - data), n = left < size ? left : size;

            at = (size_t) (found - data);
            if (memcmp(found, word, n) != 0) {
                at++;
            } else if (n == size) {
                memset(found, '*', size);
                at += size;
            } else {
                if (at < sure && !end)
                    sure = at;
                at++;
            }
        }
    }
    return sure;
}
