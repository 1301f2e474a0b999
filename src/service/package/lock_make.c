/* A lock file of the newest versions: what `glovebox template update` writes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "service/package/installer_internal.h"
#include "service/package/internal.h"
#include "service/package/lock.h"

#include "base/banned.h"

static json_t *strings(const char *const *list)
{
    json_t *array = json_array();

    for (; *list; list++)
        (void) json_array_append_new(array, json_string(*list));
    return array;
}

/* The text comes from a box: it is checked like any other lock file. */
static int text_take(const struct job *job, char **ret_text, struct fault *fault)
{
    const char *text = json_string_value(json_object_get(job->result, "lock"));
    struct gb_err err = { 0 };
    size_t len;

    if (!text || lock_check(text, &len, &err) < 0)
        return fault_set(fault, PROBLEM_INSTALLER_FAILED, NULL,
                         "the installer returned a malformed lock file: %.100s", err.msg);
    *ret_text = strdup(text);
    return *ret_text ? 0 : fault_no_memory(fault);
}

int packages_make_lock(struct service *service, const char *const *wanted,
                       const struct install_watch *watch, char **ret_text, struct fault *fault)
{
    struct packages *packages = service->packages;
    struct installer *installer = &packages->installer;
    struct install_request request = { .cancel_fd = packages->stop[0], .watch = *watch };
    struct job job = { .installer = installer, .request = &request };
    int r;

    if (!pip_config_any(installer->pip))
        return fault_set(fault, PROBLEM_NO_INDEX, NULL,
                         "no package index is configured: set --index-url, or set --wheels to a "
                         "directory of wheels");
    installer_tool_fetch(installer, &request);
    job.deadline_us = clock_now_us() + installer->config->timeout_us;
    r = installer_box_open(&job, fault);
    if (r == 0 && !job.uv)
        r = fault_set(fault, PROBLEM_NO_PIP, NULL,
                      "a lock file is made by uv, which is not there and could not be fetched from "
                      "the index; install it, or see --uv");
    if (r == 0)
        r = installer_phase(&job, "lock", json_pack("{s:o}", "wanted", strings(wanted)), fault);
    if (r == 0)
        r = text_take(&job, ret_text, fault);
    installer_job_release(&job);
    return r;
}
