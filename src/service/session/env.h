/* Environment variables in requests: NAME=value, a list that ends with NULL. */
#pragma once

struct fault;

/* Limited in number and size; names as in a shell. @env may be NULL. */
int env_check(const char *const *env, struct fault *fault);

/* A copy of both, @second after @first so that it takes precedence; each may be NULL, the copy
 * never is. 0 or -ENOMEM. */
int env_join(char *const *first, char *const *second, char ***ret_env);
