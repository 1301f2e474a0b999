/*
 * The web page. All of its views are one HTML file, the shell, which loads the rest; which view it
 * shows is decided in the browser (web/src). Nothing here depends on who asks: the page signs in
 * and uses the API like every other client.
 *
 * Two rules keep it safe although it shows what models and programs wrote.
 *
 * The shell may run its own scripts and styles and nothing else, and may talk to this server and
 * to nobody else: its policy has neither 'unsafe-inline' nor 'unsafe-eval', and demands Trusted
 * Types, so that text does not become markup by accident.
 *
 * Whatever was not written by us is drawn in frames: HTML of programs, charts, PDF, terminals. A
 * frame is sent with "sandbox allow-scripts": its origin is opaque, so it has no storage, no token
 * and no way to read the shell, and its own policy leaves it no network. It gets what it shows in a
 * message from the shell, and answers with messages, which the shell treats as hostile. The shell's
 * frame-src keeps a frame from navigating elsewhere.
 *
 * Files are embedded gzipped and sent so to whoever accepts that, which all browsers do; for others
 * they are inflated on the way (plain.c).
 *
 * Frames load scripts from /assets with the origin "null", hence ROUTE_ASSET: those files are the
 * same for everyone and any site may read them.
 */
#include <stdio.h>
#include <string.h>

#include "server/page/files.h"
#include "server/page/internal.h"
#include "server/server_internal.h"

#include "base/banned.h"

const char page_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; frame-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types dompurify";

/* What all frames have in common. A frame that is opened by itself is sandboxed, too. */
#define FRAME_POLICY(scripts)                                                                      \
    "sandbox allow-scripts; default-src 'none'; script-src 'self'" scripts                         \
    "; style-src 'self' 'unsafe-inline'; img-src data: blob:; font-src 'self' data: blob:; "       \
    "media-src data: blob:; worker-src blob:; base-uri 'none'; form-action 'none'; "               \
    "frame-ancestors 'self'"

static const struct frame {
    const char *name, *policy;
} frames[] = {
    { "html", FRAME_POLICY("") }, /* its own scripts do not run */
    /* HTML whose scripts somebody wants to run, after a click: there is nothing to steal in the
     * frame, but no policy keeps a script from WebRTC, so it could tell others what it shows. */
    { "live", FRAME_POLICY(" 'unsafe-inline' 'unsafe-eval' data: blob:") },
    { "chart", FRAME_POLICY("") },
    { "pdf", FRAME_POLICY(" 'wasm-unsafe-eval'") },
    { "terminal", FRAME_POLICY("") },
};

/* Of a document; @policy is its Content-Security-Policy. */
static void add_document_headers(struct MHD_Response *response, const char *policy)
{
    reply_header(response, "Content-Security-Policy", policy);
    reply_header(response, "Cross-Origin-Opener-Policy", "same-origin");
    reply_header(response, "X-DNS-Prefetch-Control", "off");
    reply_header(response, "Permissions-Policy",
                 "camera=(), microphone=(), geolocation=(), usb=(), serial=(), payment=()");
}

void page_reply(struct request *rq, const struct page_reply *reply)
{
    const char *match = rq->headers.if_none_match;
    bool known = match && negotiate_etag(match, reply->etag);
    bool gzip = negotiate_gzip(rq->headers.accept_encoding);
    struct MHD_Response *response =
        known ? MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT)
              : reply->make(reply->what, gzip);
    char etag[80];

    if (!response)
        return;
    /* Weak: it names the content, whichever way it is encoded. */
    snprintf(etag, sizeof etag, "W/%s", reply->etag);
    reply_header(response, "ETag", etag);
    reply_header(response, "Vary", reply->policy ? "Accept, Accept-Encoding" : "Accept-Encoding");
    reply_header(response, "Cache-Control", reply->caching);
    reply_header(response, "Referrer-Policy", "no-referrer");
    if (reply->policy) {
        add_document_headers(response, reply->policy);
    } else {
        reply_header(response, "Access-Control-Allow-Origin", "*");
        reply_header(response, "Cross-Origin-Resource-Policy", "cross-origin");
    }
    if (!known) {
        reply_header(response, "Content-Type", reply->media);
        if (gzip)
            reply_header(response, "Content-Encoding", "gzip");
    }
    reply_send(rq, known ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, response);
}

static struct MHD_Response *make(const void *what, bool gzip)
{
    const struct page_file *file = what;

    return gzip ? MHD_create_response_from_buffer(file->len, (void *) page_file_data(file),
                                                  MHD_RESPMEM_PERSISTENT)
                : page_file_plain(file);
}

static void send_file(struct request *rq, const struct page_file *file, const char *policy,
                      const char *caching)
{
    struct page_reply reply = { file->etag, file->media, policy, caching, make, file };

    page_reply(rq, &reply);
}

void page_shell(struct request *rq)
{
    const struct page_file *file = page_file_find("index.html");

    if (file)
        send_file(rq, file, page_policy, "no-cache");
    else
        reply_problem(rq, PROBLEM_NO_SUCH_ROUTE, "this build of Glovebox has no web page");
}

void page_root(struct request *rq)
{
    if (negotiate_html(rq->headers.accept))
        page_shell(rq);
    else
        reply_json(rq, MHD_HTTP_OK,
                   json_pack("{s:s,s:s}", "message", "Code execution sandbox is running", "status",
                             "healthy"));
}

void page_asset(struct request *rq)
{
    char name[160];
    const struct page_file *file;

    snprintf(name, sizeof name, "assets/%s", request_param(rq, "file"));
    file = page_file_find(name);
    if (file)
        send_file(rq, file, NULL, "public, max-age=31536000, immutable");
    else
        reply_problem(rq, PROBLEM_NO_SUCH_ROUTE,
                      "the web page has no such file; after an update of the server, reload the "
                      "page");
}

void page_frame(struct request *rq)
{
    const char *wanted = request_param(rq, "name");
    const struct page_file *file;
    char name[64];

    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        if (strcmp(frames[i].name, wanted) != 0)
            continue;
        snprintf(name, sizeof name, "frames/%s.html", wanted);
        file = page_file_find(name);
        if (file) {
            send_file(rq, file, frames[i].policy, "no-cache");
            return;
        }
    }
    reply_problem(rq, PROBLEM_NO_SUCH_ROUTE, "the web page has no such frame");
}
