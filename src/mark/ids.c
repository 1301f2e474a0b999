#include "mark/ids.h"

#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/banned.h"

void mark_id_make(char buf[MARK_ID_MAX])
{
    uint8_t b[16];

    randombytes_buf(b, sizeof b);
    b[6] = (uint8_t) ((b[6] & 0x0f) | 0x40); /* version 4 */
    b[8] = (uint8_t) ((b[8] & 0x3f) | 0x80); /* the variant of RFC 9562 */
    (void) snprintf(buf, MARK_ID_MAX,
                    "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                    b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
                    b[13], b[14], b[15]);
}

bool mark_id_valid(const char *text)
{
    if (!text || strlen(text) != MARK_ID_MAX - 1)
        return false;
    for (int i = 0; i < MARK_ID_MAX - 1; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash ? text[i] != '-' : !strchr("0123456789abcdef", text[i]))
            return false;
    }
    return true;
}
