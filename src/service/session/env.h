/* Environment variables in requests: NAME=value, a list that ends with NULL. */
#pragma once

struct fault;

/* Bounded in number and size; names as a shell takes them. @env may be NULL. */
int env_check(const char *const *env, struct fault *fault);
/* A copy of its own, never NULL; 0 or -ENOMEM. */
int env_copy(const char *const *env, char ***ret_env);
void env_free(char **env); /* accepts NULL */
