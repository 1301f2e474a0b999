/* Without anything else of the connector, so that the fuzz targets of drivers can use it. */
#include <stdarg.h>
#include <stdio.h>

#include "connect/driver.h"

#include "base/banned.h"

int driver_fail(struct driver_error *error, enum connect_word word, const char *fmt, ...)
{
    va_list ap;

    error->word = word;
    va_start(ap, fmt);
    (void) vsnprintf(error->text, sizeof error->text, fmt, ap);
    va_end(ap);
    return -1;
}
