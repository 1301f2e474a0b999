#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/banned.h"

__attribute__((format(printf, 3, 0))) static void fill(struct gb_err *err, int code,
                                                       const char *fmt, va_list ap)
{
    err->code = code;
    if (vsnprintf(err->msg, sizeof err->msg, fmt, ap) < 0)
        err->msg[0] = '\0';
}

int gb_fail(struct gb_err *err, int code, const char *fmt, ...)
{
    char reason[80];
    size_t used;
    va_list ap;

    if (!err)
        return -code;
    va_start(ap, fmt);
    fill(err, code, fmt, ap);
    va_end(ap);
    used = strlen(err->msg);
    snprintf(err->msg + used, sizeof err->msg - used, ": %s",
             strerror_r(code, reason, sizeof reason));
    return -code;
}

int gb_fail_plain(struct gb_err *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -code;
    va_start(ap, fmt);
    fill(err, code, fmt, ap);
    va_end(ap);
    return -code;
}
