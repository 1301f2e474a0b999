/*
 * Tries what was installed: imports the packages that were asked for in a fresh box with the limits
 * of a one-shot. "Installed" is then more than a claim: a package that was built for another numpy,
 * or that needs a library of the system that boxes do not have, is refused with the error that its
 * user would get.
 *
 * Not every exception is a failure: a module may want a network, a display or a setting when it is
 * imported. Those that say that files do not fit together are. Nothing in the box can be trusted,
 * but what a package says there only concerns those who asked for it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "service/package/installer_internal.h"
#include "service/package/internal.h"

#include "base/banned.h"

#define WALL_US    (20 * USEC_PER_SEC)
#define REPLY      8192
#define DETAIL_MAX 180

/* The input is the names of packages. The output is {} or {"kind", "name", "detail"}. */
static const char trial_code[] =
    "import importlib, importlib.metadata as metadata, inspect, json, os, re, sys, warnings\n"
    "PLACE = '/packages'\n"
    "STRAY = {'test', 'tests', 'doc', 'docs', 'example', 'examples', 'benchmarks', 'scripts'}\n"
    "MOST = 8\n"
    "def tops():\n"
    "    for entry in os.scandir(PLACE):\n"
    "        name = inspect.getmodulename(entry.name)\n"
    "        if entry.is_dir() and os.path.exists(entry.path + '/__init__.py'):\n"
    "            yield entry.name  # without that file it is a namespace, which is shared\n"
    "        elif name and not entry.is_dir():\n"
    "            yield name\n"
    "def hidden():\n"
    "    clashes = []\n"
    "    for name in sorted(tops()):\n"
    "        if name in sys.stdlib_module_names:\n"
    "            return {'kind': 'shadows', 'name': name, 'detail': ''}\n"
    "        file = getattr(sys.modules.get(name), '__file__', None)\n"
    "        if file and not file.startswith(PLACE + '/') and name not in STRAY:\n"
    "            clashes.append(name)\n"
    "    return {'kind': 'hidden', 'name': ', '.join(clashes[:5]), 'detail': ''} if clashes else "
    "{}\n"
    "def modules(package):\n"
    "    about = next(iter(metadata.distributions(name=package, path=[PLACE])), None)\n"
    "    if about is None:\n"
    "        return []\n"
    "    files = [f.parts for f in about.files or [] if inspect.getmodulename(f.name)]\n"
    "    made = {f[:-1] for f in files if f[-1].startswith('__init__.') and len(f) > 1}\n"
    "    made = {d for d in made if not any(d[:i] in made for i in range(1, len(d)))}\n"
    "    made |= {(inspect.getmodulename(f[0]),) for f in files if len(f) == 1}\n"
    "    names = ['.'.join(d) for d in sorted(made) if d[0] not in STRAY\n"
    "             and all(re.fullmatch('[A-Za-z][A-Za-z0-9_]*', part) for part in d)]\n"
    "    plain = re.sub('[-_.]+', '_', package).lower()\n"
    "    same = [n for n in names if n.lower().replace('.', '_') == plain]\n"
    "    return same[:1] or names[:MOST]\n"
    "def broken(error):\n"
    "    text = str(error)\n"
    "    return isinstance(error, (ImportError, SyntaxError, AttributeError, TypeError, "
    "ValueError,\n"
    "                              SystemError)) or isinstance(error, OSError) and (\n"
    "        'shared object' in text or 'undefined symbol' in text)\n"
    "def attempt(package):\n"
    "    worst, names = None, modules(package)\n"
    "    for name in names:\n"
    "        try:\n"
    "            importlib.import_module(name)\n"
    "            return {}\n"
    "        except BaseException as error:\n"
    "            if not broken(error):\n"
    "                return {}\n"
    "            worst = worst or error\n"
    "    if worst is None:\n"
    "        return {}\n"
    "    said = '%s: %s' % (type(worst).__name__, worst)\n"
    "    return {'kind': 'broken', 'name': package, 'detail': ' '.join(said.split())}\n"
    "warnings.simplefilter('ignore')\n"
    "out = os.fdopen(os.dup(1), 'w')\n"
    "null = os.open('/dev/null', os.O_WRONLY)\n"
    "os.dup2(null, 1)\n"
    "os.dup2(null, 2)\n"
    "found = hidden()\n"
    "for package in sys.stdin.read().split():\n"
    "    found = found or attempt(package)\n"
    "json.dump(found, out)\n"
    "out.flush()\n"
    "os._exit(0)\n";

static char *names_of(const struct install_job *job)
{
    size_t size = job->len * (PACKAGE_NAME_MAX + 1) + 1, used = 0;
    char *text = calloc(1, size);

    for (size_t i = 0; text && i < job->len; i++)
        used += (size_t) snprintf(text + used, size - used, "%s\n", job->items[i].normal);
    return text;
}

static int told(const struct stream_cut *out, struct fault *fault)
{
    json_t *said = out->head_len > 0 ? json_loadb(out->head, out->head_len, 0, NULL) : NULL;
    const char *kind = json_string_value(json_object_get(said, "kind"));
    char name[100], detail[DETAIL_MAX];
    int r = 0;

    installer_words(json_object_get(said, "name"), name, sizeof name);
    installer_words(json_object_get(said, "detail"), detail, sizeof detail);
    if (kind && strcmp(kind, "shadows") == 0)
        r = fault_set(fault, PROBLEM_PACKAGE_SHADOWS, "packages",
                      "the package contains a module %s, which would hide the one in the standard "
                      "library",
                      name);
    else if (kind && strcmp(kind, "hidden") == 0)
        r = fault_set(fault, PROBLEM_PACKAGE_PRELOADED, "packages",
                      "the package contains modules that the template has already loaded (%s), "
                      "which it could not replace; use a template that does not preload them",
                      name);
    else if (kind && strcmp(kind, "broken") == 0)
        r = fault_set(fault, PROBLEM_PACKAGE_BROKEN, "packages",
                      "%s was not installed, because it cannot be imported: %s", name, detail);
    json_decref(said);
    return r;
}

static bool crashed(const struct outcome *outcome)
{
    static const int signals[] = { SIGSEGV, SIGILL, SIGABRT, SIGBUS, SIGFPE };

    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (outcome->status == RUN_KILLED && outcome->exit_code == 128 + signals[i])
            return true;
    return false;
}

static int box_try(struct install_job *job, struct box *box, const char *names,
                   const struct limits *limits, struct fault *fault)
{
    struct run_spec spec = { .code = trial_code,
                             .code_len = strlen(trial_code),
                             .filename = "<string>",
                             .limits = *limits,
                             .reply_bytes = REPLY,
                             .input = names,
                             .input_len = strlen(names),
                             .stdin_fd = -1,
                             .cancel_fd = job->service->packages->stop[0] };
    struct outcome outcome = { 0 };
    struct gb_err err;
    int r = oneshot_run(box, &spec, &outcome, &err);

    if (r < 0)
        return fault_from_engine(job->service, "the packages could not be tried", &err, fault);
    if (crashed(&outcome))
        r = fault_set(fault, PROBLEM_PACKAGE_BROKEN, "packages",
                      "%s was not installed, because importing it crashes the interpreter",
                      job->len == 1 ? job->items[0].name : "one of the packages");
    else if (outcome.status == RUN_OK)
        r = told(&outcome.out, fault);
    /* Otherwise it hit a limit of the box: its user may have others. */
    outcome_release(&outcome);
    return r;
}

int trial_run(struct install_job *job, const struct layer *layer, struct fault *fault)
{
    const struct box_options options = { .template = job->template };
    struct limits limits = job->service->config.oneshot;
    autofree char *names = names_of(job);
    struct box *box = NULL;
    struct gb_err err;
    int r;

    if (!names)
        return fault_no_memory(fault);
    limits.wall_us = WALL_US;
    r = job->template ? box_acquire_with(job->service->engine, &limits, &options, &box, &err)
                      : box_acquire(job->service->engine, &limits, &box, &err);
    if (r < 0)
        return fault_from_engine(job->service, "the packages could not be tried", &err, fault);
    r = packages_mount(job->service, box, layer, fault);
    if (r == 0)
        r = box_try(job, box, names, &limits, fault);
    box_release(box);
    return r;
}
