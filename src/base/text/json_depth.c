#include "base/text/json_depth.h"

#include "base/banned.h"

bool json_too_deep(const char *text, size_t len, unsigned max)
{
    bool in_string = false;
    unsigned depth = 0;

    for (size_t i = 0; i < len; i++) {
        if (in_string) {
            if (text[i] == '\\')
                i++;
            else if (text[i] == '"')
                in_string = false;
            continue;
        }
        if (text[i] == '"') {
            in_string = true;
        } else if (text[i] == '{' || text[i] == '[') {
            if (++depth > max)
                return true;
        } else if ((text[i] == '}' || text[i] == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}
