#include "base/text/percent.h"

#include "base/text/hex.h"

#include "base/banned.h"

int percent_byte(const char *text, size_t len)
{
    int high, low;

    if (len < 3 || text[0] != '%')
        return -1;
    high = hex_value(text[1]);
    low = hex_value(text[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}
