#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "service/service_internal.h"

#include "base/banned.h"

int fault_set(struct fault *fault, enum problem problem, const char *loc, const char *fmt, ...)
{
    va_list args;

    *fault = (struct fault){ .kind = (enum fault_kind) problem_status(problem),
                             .problem = problem,
                             .type = problem_word(problem) };
    (void) snprintf(fault->loc, sizeof fault->loc, "%s", loc ? loc : "");
    va_start(args, fmt);
    (void) vsnprintf(fault->detail, sizeof fault->detail, fmt, args);
    va_end(args);
    return -1;
}

int fault_no_memory(struct fault *fault)
{
    (void) fault_set(fault, PROBLEM_OUT_OF_MEMORY, NULL,
                     "the service is out of memory; try again later");
    fault->retry_after_s = 1;
    return -1;
}

int fault_from_engine(struct service *service, const char *what, const struct gb_err *err,
                      struct fault *fault)
{
    if (err->code == EADDRNOTAVAIL) /* the client has to fix it; nothing for the operator's log */
        return fault_set(fault, PROBLEM_VOLUME_NOT_AVAILABLE, "volumes", "%s", err->msg);
    service_log(service, LOG_LEVEL_ERROR, "%s: %s", what, err->msg);
    if (err->code == ENOSPC) {
        (void) fault_set(fault, PROBLEM_NO_SPACE, NULL,
                         "%s: the host's disk has no room for a workspace of that size; ask for a "
                         "smaller limits.disk, or end sessions that are not needed",
                         what);
        fault->retry_after_s = 30;
        return -1;
    }
    (void) fault_set(fault, PROBLEM_ENGINE, NULL,
                     "%s; retry, and if it keeps failing, ask the operator to check the server log",
                     what);
    fault->retry_after_s = 2;
    return -1;
}
