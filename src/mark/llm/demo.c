#include "mark/llm/demo.h"

#include "mark/llm/internal.h"

#include "base/banned.h"

int demo_chat(const struct llm_request *request, const struct llm_watch *watch, int cancel_fd,
              struct llm_reply *ret_reply, struct llm_error *ret_error)
{
    (void) request;
    (void) watch;
    (void) cancel_fd;
    (void) ret_reply;
    return llm_error_set(ret_error, LLM_INVALID, 0, "the demo model is not part of this build");
}
