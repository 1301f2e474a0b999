#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli/cmd.h"

#include "base/banned.h"

void say(const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(line, sizeof line, fmt, ap) < 0)
        line[0] = '\0';
    va_end(ap);
    for (char *p = line; *p; p++)
        if (iscntrl((unsigned char) *p))
            *p = '?'; /* file names may hold newlines and worse */
    fprintf(stderr, "glovebox: %s\n", line);
}
