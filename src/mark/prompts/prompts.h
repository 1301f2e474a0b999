/* The prompts as text; the files beside this one. The operator's own in DATA/mark/prompts/ take
 * their place. */
#pragma once

extern const char prompt_persona[];
extern const char prompt_decide[];
extern const char prompt_fenced[];
extern const char prompt_code[];
extern const char prompt_story[];
extern const char prompt_sources[];
