#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/banned.h"

__attribute__((format(printf, 4, 0))) static void fill(struct gb_err *err, int code,
                                                       const char *before, const char *fmt,
                                                       va_list ap)
{
    size_t used;

    err->code = code;
    used = (size_t) snprintf(err->msg, sizeof err->msg, "%s", before);
    if (vsnprintf(err->msg + used, sizeof err->msg - used, fmt, ap) < 0)
        err->msg[0] = '\0';
}

static void add_reason(struct gb_err *err)
{
    char reason[80];
    size_t used = strlen(err->msg);

    snprintf(err->msg + used, sizeof err->msg - used, ": %s",
             strerror_r(err->code, reason, sizeof reason));
}

int gb_fail(struct gb_err *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -code;
    va_start(ap, fmt);
    fill(err, code, "cannot ", fmt, ap);
    va_end(ap);
    add_reason(err);
    return -code;
}

int gb_fail_about(struct gb_err *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -code;
    va_start(ap, fmt);
    fill(err, code, "", fmt, ap);
    va_end(ap);
    add_reason(err);
    return -code;
}

int gb_fail_plain(struct gb_err *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -code;
    va_start(ap, fmt);
    fill(err, code, "", fmt, ap);
    va_end(ap);
    return -code;
}
