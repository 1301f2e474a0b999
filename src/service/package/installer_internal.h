/* What the installer's files share. */
#pragma once

#include "service/package/installer.h"
#include "service/package/trees.h"
#include "service/session/network.h"

extern const char installer_program[]; /* installer.py */
extern const char installer_uv_lock[]; /* uv.lock */

#define INSTALL_ITEMS_MAX 512    /* packages in a set */
#define INSTALL_FILES_MAX 200000 /* files in a set */

void installer_log(const struct installer *installer, enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- installer_box.c ---- */

/* An install in progress. */
struct job {
    struct installer *installer;
    const struct install_request *request;
    struct box *box;
    struct network network;
    const char *uv; /* in the box, or NULL */
    struct limits limits;
    int64_t deadline_us;
    char line[512]; /* of the box's output, as far as it has come */
    size_t line_len;
    json_t *result; /* of the last phase */

    json_t *packages; /* of the layer to be made, checked, in the order of their names */
    json_t *links;    /* their addresses: what is to be fetched */
    char *abi;
    bool shared; /* nothing in it is built here */
    char key[LAYER_KEY_MAX];
    struct tree *trees; /* of @packages, those that are there already or by now */
};

/* Resolves, and makes the layer if there is none. */
int installer_box_run(struct installer *installer, const struct install_request *request,
                      struct install_result *ret_result, struct fault *fault);

/* Creates the box of the job, and ends it. */
int installer_box_open(struct job *job, struct fault *fault);
void installer_box_close(struct job *job);
void installer_job_release(struct job *job);

/* Runs the program; job->result is what it returned. @more is added to its input, and released. */
int installer_phase(struct job *job, const char *phase, json_t *more, struct fault *fault);

/* A failure of ours: logged, and told in general terms. */
int installer_ours(struct job *job, const char *what, const struct gb_err *err,
                   struct fault *fault);

/* What the program said: {"kind", "detail"}. */
int installer_failed(struct job *job, const json_t *answer, struct fault *fault);

/* Text from a box is hostile: reduced to short, printable ASCII on one line. */
void installer_words(const json_t *from, char *buf, size_t size);

/* ---- resolved.c ---- */

/* Checks the result of the phase "resolve" and fills the job's set. */
int resolved_take(struct job *job, struct fault *fault);

/* The key of a set, of its packages in order. */
int resolved_key(struct job *job, struct fault *fault);

/* The entries of the form {name: version}. */
json_t *resolved_present(const json_t *from);

/* ---- layer_make.c ---- */

/* Makes the layer of job->packages: fetches what the store does not have, and links it together. */
int layer_make(struct job *job, struct layer **ret_layer, struct fault *fault);

/* ---- tool.c ---- */

/* Fetches uv if there is none, once in a while. Never fails: pip can do it all. */
void installer_tool_fetch(struct installer *installer, const struct install_request *request);

/* Mounts it in the box, and says where; NULL: there is none. */
const char *installer_tool_mount(struct installer *installer, struct box *box);
