/*
 * Requests of cells (run_spec.ask): those about packages are answered here, all others by whoever
 * started the execution.
 *
 * A request is looked at twice, here for its "op" and there for the rest; it is small, and neither
 * has to trust the other's view of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/json_depth.h"
#include "service/execution/execution.h"
#include "service/package/packages.h"

#include "base/banned.h"

#define ASK_DEPTH_MAX 16

/* An answer that is there already. */
static int answer_now(const char *json)
{
    autoclose int from = -EBADF, to = -EBADF;
    int ends[2], r;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    from = ends[0];
    to = ends[1];
    r = io_write_all(to, json, strlen(json)); /* far less than a pipe holds */
    return r < 0 ? r : TAKE_FD(from);
}

static bool is_about_packages(const json_t *wish)
{
    const char *op = json_string_value(json_object_get(wish, "op"));

    return op && (strcmp(op, "install") == 0 || strcmp(op, "uninstall") == 0);
}

int execution_ask(void *arg, const char *json, size_t len)
{
    struct execution *x = arg;
    json_t *wish = NULL;
    bool packages;

    if (!json_too_deep(json, len, ASK_DEPTH_MAX))
        wish = json_loadb(json, len, 0, NULL);
    if (!json_is_object(wish)) {
        json_decref(wish);
        return answer_now("{\"success\": false, \"message\": \"malformed request\"}");
    }
    packages = is_about_packages(wish);
    json_decref(wish);
    if (packages && x->service->packages)
        return packages_ask(x, json, len);
    if (packages)
        return answer_now("{\"success\": false, \"message\": \"packages cannot be installed "
                          "here; ask the operator of the service\"}");
    if (x->ask)
        return x->ask(x->ask_arg, json, len);
    return answer_now(
        "{\"success\": false, \"message\": \"there is nobody to ask for that here\"}");
}
