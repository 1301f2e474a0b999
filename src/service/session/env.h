/* Environment variables in requests: NAME=value, a list that ends with NULL. */
#pragma once

struct fault;

/* Bounded in number and size; names as a shell takes them. @env may be NULL. */
int env_check(const char *const *env, struct fault *fault);
