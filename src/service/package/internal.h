/* What the files about packages share. */
#pragma once

#include "service/package/installer.h"
#include "service/service_internal.h"

/* Parses and checks all of them; the caller frees. */
int wanted_parse(const struct package_config *config, const char *const *wanted,
                 struct requirement **ret_items, size_t *ret_len, struct fault *fault);

/* Finds or makes the layer of @base and the items together. */
int packages_resolve(struct service *service, const char *scope, const struct requirement *items,
                     size_t len, const struct layer *base, bool newest,
                     struct install_result *ret_result, struct fault *fault);

/* Whether packages can be installed where that template is used, and the words if not. */
bool packages_template_fits(const char *template);
int packages_template_refuse(const char *template, struct fault *fault);

/* Into a default set. *@ret_before is a reference to what it was, or NULL. */
int set_install(struct service *service, const char *name, const struct requirement *items,
                size_t len, bool newest, struct install_result *ret_result,
                struct layer **ret_before, struct fault *fault);

/* Installs into the store and nowhere else. *@ret_layer is a reference to what it came to, or NULL
 * if boxes have all of it anyway. */
int packages_make_layer(struct service *service, const char *const *wanted,
                        struct layer **ret_layer, json_t **ret_json, struct fault *fault);

struct layers *packages_layers(struct service *service);

/* ---- json.c ---- */

/* Adds the texts of items to a list of requirements, in the place of those of the same name. */
void requirements_add(json_t *list, const struct requirement *items, size_t len);

/* What an install came to, as packages_install() gives it. */
json_t *install_to_json(const struct install_result *result, const struct layer *before,
                        const struct requirement *items, size_t len, int64_t took_us);

/* As packages_list() gives it. Both may be NULL. */
json_t *layer_to_json(const struct layer *layer, const json_t *requirements);

/* Which interpreter a set is for. */
#define PYTHON_STAMP_MAX 4200
void python_stamp(const struct installer *installer, char ret_stamp[PYTHON_STAMP_MAX]);
