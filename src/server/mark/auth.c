/* Mark's accounts over HTTP. */
#include "server/mark/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

static void not_yet(struct request *rq)
{
    reply_problem(rq, PROBLEM_MARK_OFF, "this service runs without Mark");
}

void mark_signup(struct request *rq)
{
    not_yet(rq);
}

void mark_signin(struct request *rq)
{
    not_yet(rq);
}

void mark_refresh(struct request *rq)
{
    not_yet(rq);
}

void mark_signout(struct request *rq)
{
    not_yet(rq);
}

void mark_me(struct request *rq)
{
    not_yet(rq);
}

void mark_me_change(struct request *rq)
{
    not_yet(rq);
}

void mark_me_delete(struct request *rq)
{
    not_yet(rq);
}
