/* llm_chat(): one call for all providers. */
#include "mark/llm/cassette.h"
#include "mark/llm/demo.h"
#include "mark/llm/internal.h"

#include "base/banned.h"

int llm_chat(const struct llm_model *model, const struct llm_request *request,
             const struct llm_watch *watch, int cancel_fd, struct llm_reply *ret_reply,
             struct llm_error *ret_error)
{
    static const struct llm_watch nobody;
    bool drifted = false;
    int r = -1;

    *ret_reply = (struct llm_reply){ .usage = llm_usage_unknown() };
    *ret_error = (struct llm_error){ 0 };
    watch = watch ? watch : &nobody;
    switch (model->kind) {
    case LLM_KIND_OPENAI:
    case LLM_KIND_ANTHROPIC:
        r = exchange_chat(model, request, watch, cancel_fd, ret_reply, ret_error);
        break;
    case LLM_KIND_SCRIPT:
        r = script_chat(model->script, request, watch, cancel_fd, ret_reply, ret_error);
        break;
    case LLM_KIND_CASSETTE:
        r = cassette_chat(model->cassette, request, watch, cancel_fd, ret_reply, &drifted,
                          ret_error);
        break;
    case LLM_KIND_DEMO:
        r = demo_chat(request, watch, cancel_fd, ret_reply, ret_error);
        break;
    }
    if (r < 0) {
        llm_reply_release(ret_reply);
        return r;
    }
    llm_error_release(ret_error);
    if (drifted)
        atomic_fetch_add(&model->learned->drifted, 1);
    if (model->recorder)
        recorder_add(model->recorder, model, request, ret_reply);
    return 0;
}
