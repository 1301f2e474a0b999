/* Words for what went wrong: what happened, whose part it is, and what to do next. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mark/agent/work.h"

#include "base/banned.h"

#define REFUSAL_MAX ((size_t) 2000)

static long long minutes(int64_t us)
{
    return (long long) ((us + 60 * USEC_PER_SEC - 1) / (60 * USEC_PER_SEC));
}

static void fail_busy(struct work *work, const struct llm_error *error)
{
    if (error->retry_us > 0)
        work_fail(work, "model_busy",
                  "The model is overloaded or over its rate limit. Please ask again in about %lld "
                  "minute%s.",
                  minutes(error->retry_us), minutes(error->retry_us) == 1 ? "" : "s");
    else
        work_fail(work, "model_busy",
                  "The model is overloaded or over its rate limit. Please ask again in a moment.");
}

void ending_of_model(struct work *work, const struct llm_error *error)
{
    service_log(work->agent->config.service, LOG_LEVEL_WARNING,
                "mark: answer %s: model %s: status %d: %s", work->answer->message_id,
                llm_model_name(work->model), error->status, error->message);
    switch (error->failure) {
    case LLM_OK:
    case LLM_CANCELLED:
        if (atomic_load(&work->answer->stop))
            work_stop(work);
        else
            ending_of_budget(work);
        return;
    case LLM_UNREACHABLE:
        work_fail(work, "model_unreachable",
                  "I could not reach the model, so I could not answer. Please ask again in a "
                  "moment; if it stays like this, the operator of this service should look at it.");
        return;
    case LLM_BUSY:
        fail_busy(work, error);
        return;
    case LLM_DENIED:
        work_fail(work, "model_denied",
                  "The model's provider did not accept the key of this service. The operator has "
                  "to check it; asking again will not help until then.");
        return;
    case LLM_UNPAID:
        work_fail(work, "model_unpaid",
                  "The account of this service with the model's provider has no quota left. The "
                  "operator has to look at it; asking again will not help until then.");
        return;
    case LLM_TOO_LONG:
        work_fail(work, "model_too_long",
                  "This conversation is too long for the model, even shortened. Please ask in a "
                  "new chat, or with a shorter question.");
        return;
    case LLM_INVALID:
        work_fail(work, "model_invalid",
                  "The model's server did not accept the request, so I could not answer. The "
                  "operator finds the reason in the log and in the trace of this answer.");
        return;
    case LLM_BROKEN:
        break;
    }
    work_fail(work, "model_broken",
              "The model's server sent something that is not an answer. Please ask again; if it "
              "happens again, the operator finds the reason in the log.");
}

void ending_of_fault(struct work *work, const struct fault *fault)
{
    service_log(work->agent->config.service, LOG_LEVEL_WARNING, "mark: answer %s: %s: %s",
                work->answer->message_id, fault->type ? fault->type : "fault", fault->detail);
    if (atomic_load(&work->answer->stop))
        work_stop(work);
    else if (fault->kind == FAULT_TOO_MANY || fault->problem == PROBLEM_EXECUTIONS_MAX)
        work_fail(work, fault->type,
                  "I could not run a program, because too many are running at the moment (%s). "
                  "Please ask again in a moment.",
                  fault->detail);
    else if (fault->kind == FAULT_TOO_LARGE)
        work_fail(work, fault->type, "The files do not fit into the sandbox: %s.", fault->detail);
    else
        work_fail(work, fault->type ? fault->type : "fault",
                  "I could not run a program, because the sandbox failed: %s. Please ask again in "
                  "a moment.",
                  fault->detail);
}

void ending_of_refusal(struct work *work, const json_t *message)
{
    const char *said = json_string_value(json_object_get(message, "content"));

    work_decision(work, "refused");
    if (said && said[strspn(said, " \t\r\n")]) {
        work_fail(work, "refused", "The model declined to answer. It said: %.*s",
                  (int) text_fit(said, strlen(said), REFUSAL_MAX), said);
        work->ending.ours = false; /* its numbers are looked at as those of an answer */
    } else {
        work_fail(work, "refused",
                  "The model declined to answer this question. Try to put it differently.");
    }
}

void ending_of_budget(struct work *work)
{
    const struct gathered *gathered = &work->answer->gathered;
    size_t things = json_array_size(gathered->values) + json_array_size(gathered->tables) +
                    json_array_size(gathered->charts);

    if (atomic_load(&work->answer->stop)) {
        work_stop(work);
        return;
    }
    if (things > 0)
        work_fail(work, "budget",
                  "I ran out of the time or steps that one answer may take before I could write it "
                  "up. What was computed so far is below: it is correct as far as it goes, but it "
                  "may not answer your question. A smaller question may work better.");
    else if (work->steps > 0)
        work_fail(work, "budget",
                  "I did not find an answer within the time or steps that one answer may take. The "
                  "programs that I tried are below. A smaller or more precise question may work "
                  "better.");
    else
        work_fail(work, "budget",
                  "The model did not come up with an answer. Please ask again, or put the question "
                  "differently.");
}
