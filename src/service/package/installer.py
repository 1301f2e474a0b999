"""The program that runs in an installer box: runs pip and interprets the result.

It is run as a script in a clone of the template, so sys.modules shows what every box of that
template has already loaded. Its input is one JSON object, its output the file RESULT. Two phases:

resolve  which wheels would be installed, and which requested packages are already installed
fetch    downloads exactly those wheels, by hash, inspects them, and unpacks them into TREE

No code of a package runs here, unless the operator allows packages to be built. The service
trusts this program as little as possible: it checks names, versions and hashes again.
"""

import functools
import hashlib
import importlib.metadata as metadata
import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile

PLACE = "/workspace"
RESULT = PLACE + "/result.json"
TREE = PLACE + "/tree"
WHEELS = PLACE + "/wheels"
REPORT = PLACE + "/report.json"
LOADED = PLACE + "/loaded.txt"
LOG = PLACE + "/pip.log"
ERRORS = PLACE + "/pip.err"
CERT = PLACE + "/cert.pem"
SYSTEM_PIP = "/usr/lib/python3/dist-packages/pip"
PIP_PLACE = PLACE + "/pip"
DETAIL_MAX = 400
VERSIONS_MAX = 100
STANDARD = sys.stdlib_module_names

# Messages of pip and what they mean; the first match counts.
SIGNS = (
    ("too-large", r"No space left on device|Disk quota exceeded|File too large"),
    ("hash", r"DO NOT MATCH THE HASHES"),
    ("bad-wheel", r"outside the target directory|is invalid|bad wheel|BadZipFile|has invalid"
                  r"|not a supported wheel|Wheel .* located at"),
    ("conflict", r"conflicting dependencies|The conflict is caused by"),
    ("refused", r"Tunnel connection failed: 403|Could not fetch URL \S+: 403"),
    ("unreachable", r"connection broken by|Could not fetch URL \S+: (?!404)|ProxyError|ConnectTimeout"
                    r"|ReadTimeout|Max retries exceeded|NewConnectionError|SSLError"
                    r"|Tunnel connection failed"),
    ("not-found", r"No matching distribution found|Could not find a version"),
    ("build", r"metadata-generation-failed|Failed building wheel|subprocess-exited-with-error"),
)


class Failed(Exception):
    def __init__(self, kind, detail=""):
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


# ---- pip ----


# pip, imported once for all commands of a phase, because the import takes longer than most of them.
# Each command runs in a separate child, so that none sees what another left in memory. Each input
# line is a command, each output line its status.
PIP = """
import json, os, sys
sys.path[:0] = json.loads(sys.argv[1])
from pip._internal.cli.main import main
try:
    import pip._internal.commands.download, pip._internal.commands.install
except ImportError:
    pass  # another version of pip has them elsewhere, and imports them when needed
for line in sys.stdin:
    command = json.loads(line)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            null, log = os.open("/dev/null", os.O_RDONLY), os.open(command["log"], os.O_WRONLY)
            os.dup2(null, 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.argv = ["pip", *command["args"]]
            status = main(command["args"])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status if isinstance(status, int) else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
os._exit(0)
"""


def pip_path():
    """The directories that pip's Python needs in sys.path, in addition to its own."""
    if sys.prefix != sys.base_prefix and os.path.isdir(SYSTEM_PIP):
        # Only pip, because it takes every other package that it finds for installed.
        os.makedirs(PIP_PLACE, exist_ok=True)
        if not os.path.lexists(PIP_PLACE + "/pip"):
            os.symlink(SYSTEM_PIP, PIP_PLACE + "/pip")
        return [PIP_PLACE]
    for place in (SYSTEM_PIP, sysconfig.get_path("purelib") + "/pip"):
        if os.path.isdir(place):
            return []
    try:
        import ensurepip

        bundled = os.path.join(os.path.dirname(ensurepip.__file__), "_bundled")
        places = [bundled, sysconfig.get_config_var("WHEEL_PKG_DIR"), "/usr/share/python-wheels"]
    except ImportError:
        places = ["/usr/share/python-wheels"]
    for place in places:
        if place and os.path.isdir(place):
            for name in sorted(os.listdir(place), reverse=True):
                if name.startswith("pip-") and name.endswith(".whl"):
                    return [os.path.join(place, name)]
    try:
        metadata.version("pip")
        return []
    except metadata.PackageNotFoundError:
        raise Failed("no-pip") from None


@functools.lru_cache(maxsize=None)
def pip_process():
    return subprocess.Popen([sys.executable, "-I", "-c", PIP, json.dumps(pip_path())],
                            env=environment(), text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=open(ERRORS, "w"))


def pip_end():
    if pip_process.cache_info().currsize:
        pip_process().stdin.close()
        pip_process().wait()


def environment():
    keep = ("PATH", "HOME", "TMPDIR", "LANG", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy",
            "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy")
    env = {name: os.environ[name] for name in keep if name in os.environ}
    env.update(PIP_CONFIG_FILE="/dev/null", PYTHONDONTWRITEBYTECODE="1", GIT_TERMINAL_PROMPT="0",
               TMPDIR=PLACE)
    return env


def sources(wish):
    args = []
    if wish["index_url"]:
        args += ["--index-url", wish["index_url"]]
        for url in wish["extra_indexes"]:
            args += ["--extra-index-url", url]
    else:
        args.append("--no-index")
    for place in wish["find_links"]:
        args += ["--find-links", place]
    for host in wish["trusted_hosts"]:
        args += ["--trusted-host", host]
    if wish["cert"]:
        args += ["--cert", CERT]
    return args


def pip(wish, command, *args, check=True):
    # Very verbose; otherwise pip does not say which pages it could not get.
    line = [command, "-vv", "--no-input", "--disable-pip-version-check", "--no-color",
            "--cache-dir", PLACE + "/cache", "--timeout", str(wish["timeout"]), "--retries", "1",
            *args, *sources(wish)]
    with open(LOG, "w+", encoding="utf-8", errors="replace") as log:
        process = pip_process()
        try:
            process.stdin.write(json.dumps({"log": LOG, "args": line}) + "\n")
            process.stdin.flush()
            status = process.stdout.readline()
        except BrokenPipeError:
            status = ""
        if not status:
            with open(ERRORS, encoding="utf-8", errors="replace") as errors:
                said = errors.read().splitlines()
            raise Failed("other", said[-1][-DETAIL_MAX:] if said else "the process was killed")
        if check and int(status) != 0:
            raise explain(wish, log.read())
    return int(status) == 0


def explain(wish, text):
    for kind, sign in SIGNS:
        if re.search(sign, text):
            break
    else:
        kind = "other"
    lines = [line.strip() for line in text.splitlines()]
    errors = [line[7:] for line in lines if line.startswith("ERROR: ")]
    detail = errors[0] if errors else (lines[-1] if lines else "pip printed nothing")
    if kind == "conflict":
        at = next((i for i, line in enumerate(lines) if "conflict is caused by" in line), None)
        if at is not None:
            because = [line for line in lines[at + 1:] if line][:6]
            detail = "; ".join(because)
    if kind in ("unreachable", "refused"):
        broken = [line for line in lines if re.search(dict(SIGNS)[kind], line)]
        detail = broken[-1] if broken else detail
    if kind == "not-found":
        found = re.search(r"satisfies the requirement (.+?) \(from versions: (.*?)\)", text)
        if found:
            detail, versions = found.groups()
            if versions != "none":
                kind = "no-version"
                if len(versions) > VERSIONS_MAX:  # the last are the newest
                    versions = "..., " + versions[-VERSIONS_MAX:].partition(", ")[2]
                detail += "; the index has " + versions
            elif not wish["builds"] and has_sources(wish, found.group(1)):
                kind = "no-wheel"
    return Failed(kind, detail[-DETAIL_MAX:])


def has_sources(wish, requirement):
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    return name is not None and pip(wish, "index", "versions", name.group(), check=False)


def formats(wish):
    return [] if wish["builds"] else ["--only-binary", ":all:"]


# ---- what is installed ----


def loaded_packages():
    """The packages, and versions, of the modules that every box has in memory."""
    tops = {name.partition(".")[0] for name in list(sys.modules)}
    found = {}
    for top, names in metadata.packages_distributions().items():
        if top in tops and top not in STANDARD:
            for name in names:
                found[normal(name)] = metadata.version(name)
    return found


def constraints(loaded):
    """Options that pin the loaded packages. A version that pip could not parse is left out."""
    with open(LOADED, "w", encoding="utf-8") as file:
        for name, version in sorted(loaded.items()):
            if re.fullmatch(r"[0-9]+(\.[0-9]+)*[0-9A-Za-z.+]*", version):
                file.write("%s==%s\n" % (name, version))
    return ["--constraint", LOADED]


def is_namespace(module):
    return getattr(module, "__file__", None) is None


# ---- the phases ----


def resolve(wish):
    loaded = loaded_packages()
    present, ask = {}, []
    for item in wish["requirements"]:
        name = normal(item["name"])
        if name in loaded and not item["versioned"]:
            present[name] = loaded[name]
        else:
            ask.append(item["text"])
    items = pick(wish, ask, loaded) if ask else []
    chosen = {item["name"] for item in items}
    for item in wish["requirements"]:
        name = normal(item["name"])
        if name not in chosen and name not in present:
            try:
                present[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                pass  # excluded by a marker
    clashes = [{"name": item["name"], "loaded": loaded[item["name"]], "wanted": item["version"]}
               for item in items
               if item["name"] in loaded and loaded[item["name"]] != item["version"]]
    items = [item for item in items if item["name"] not in loaded]
    abi = "-".join((sys.implementation.cache_tag, sysconfig.get_config_var("SOABI") or "",
                    sysconfig.get_platform()))
    return {"abi": abi, "install": items, "present": present, "clashes": clashes}


def pick(wish, ask, loaded):
    """The set that is compatible with the loaded packages. If there is none, resolves without that
    constraint, which shows the conflicts."""
    try:
        return dry_run(wish, ask, constraints(loaded))
    except Failed as error:
        if error.kind not in ("conflict", "build"):
            raise
    return dry_run(wish, ask, [])


def dry_run(wish, ask, limits):
    upgrade = ["--upgrade", "--upgrade-strategy", "only-if-needed"] if wish["newest"] else []
    pip(wish, "install", "--dry-run", "--report", REPORT, "--break-system-packages", *upgrade,
        *formats(wish), *limits, *wish["pins"], *ask)
    with open(REPORT, encoding="utf-8") as file:
        return [resolved(entry) for entry in json.load(file)["install"]]


def resolved(entry):
    info = entry["download_info"]
    archive = info.get("archive_info") or {}
    sha256 = (archive.get("hashes") or {}).get("sha256") or ""
    if not sha256 and (archive.get("hash") or "").startswith("sha256="):
        sha256 = archive["hash"][7:]
    about = entry["metadata"]
    file = info["url"].partition("#")[0].rpartition("/")[2]
    return {"name": normal(about["name"]), "version": about["version"], "sha256": sha256,
            "file": file, "url": info["url"], "direct": entry.get("is_direct", False),
            "wheel": file.endswith(".whl")}


def fetch(wish):
    os.makedirs(WHEELS, exist_ok=True)
    wanted = PLACE + "/wanted.txt"
    with open(wanted, "w", encoding="utf-8") as file:
        for item in wish["install"]:
            what = "%s @ %s" % (item["name"], item["url"]) if item["direct"] else "%s==%s" % (
                item["name"], item["version"])
            file.write("%s --hash=sha256:%s\n" % (what, item["sha256"]))
    if wish["builds"]:
        pip(wish, "wheel", "--no-deps", "--require-hashes", "--wheel-dir", WHEELS, "-r", wanted)
    else:
        pip(wish, "download", "--no-deps", "--require-hashes", "--only-binary", ":all:",
            "--dest", WHEELS, "-r", wanted)
    wheels = sorted(os.path.join(WHEELS, name) for name in os.listdir(WHEELS)
                    if name.endswith(".whl"))
    if len(wheels) != len(wish["install"]):
        raise Failed("other", "pip delivered %d wheels instead of %d" % (len(wheels), len(wish["install"])))
    known = {item["sha256"] for item in wish["install"] if item["wheel"]}
    size = 0
    for wheel in wheels:
        size += look_into(wheel, wish["bytes"] - size)
        if not wish["builds"] and digest(wheel) not in known:
            raise Failed("hash", os.path.basename(wheel))
    unpack(wish, wheels)
    free_scripts()
    check_tops()
    subprocess.run([sys.executable, "-I", "-m", "compileall", "-q", "--invalidation-mode",
                    "unchecked-hash", "-s", TREE, "-p", "/packages", TREE],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return {}


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(
            hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()


def look_into(wheel, room):
    """Rejects members that lead elsewhere, are not regular files, or are too large."""
    total = 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                name = member.filename.replace("\\", "/")
                parts = name.split("/")
                kind = member.external_attr >> 28
                if name.startswith("/") or ".." in parts or "\0" in name or kind not in (0, 4, 8):
                    raise Failed("bad-wheel", "%s contains %r" % (os.path.basename(wheel),
                                                                     member.filename[:100]))
                total += member.file_size
                if total > room:
                    raise Failed("too-large", os.path.basename(wheel))
    except zipfile.BadZipFile as error:
        raise Failed("bad-wheel", "%s: %s" % (os.path.basename(wheel), error)) from None
    return total


def unpack(wish, wheels):
    uv = next((path for path in ("/usr/local/bin/uv", "/usr/bin/uv") if os.access(path, os.X_OK)),
              None)
    if uv is not None:
        line = [uv, "pip", "install", "--offline", "--no-index", "--no-deps", "--no-config",
                "--python", sys.executable, "--target", TREE, "--link-mode", "copy", "--cache-dir",
                PLACE + "/uv", *wheels]
        done = subprocess.run(line, env=environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            return
    # If uv failed, pip may succeed, or give the reason.
    import shutil

    shutil.rmtree(TREE, ignore_errors=True)
    pip(dict(wish, index_url=None, find_links=[], cert=False), "install", "--no-deps",
        "--no-compile", "--no-warn-script-location", "--target", TREE, *wheels)


def free_scripts():
    """Scripts run with the first python3 in PATH: a layer is used with several interpreters, the
    system's and that of a virtual environment."""
    ours = ("#!" + sys.executable).encode()
    if not os.path.isdir(TREE + "/bin"):
        return
    for entry in os.scandir(TREE + "/bin"):
        if entry.is_file(follow_symlinks=False):
            with open(entry.path, "rb") as file:
                first, rest = file.readline(1024), file.read()
            if first.rstrip() == ours:
                with open(entry.path, "wb") as file:
                    file.write(b"#!/usr/bin/env python3\n" + rest)


def check_tops():
    """Rejects modules of the layer that would be hidden, or would hide others."""
    clashes = []
    for entry in os.scandir(TREE):
        name = entry.name.partition(".")[0]
        if entry.is_dir():
            if "." in entry.name or entry.name in ("bin", "__pycache__"):
                continue
            if not os.path.exists(os.path.join(entry.path, "__init__.py")):
                continue  # a namespace is shared
        elif not entry.name.endswith((".py", ".so")):
            continue
        if name in STANDARD:
            raise Failed("shadows", name)
        module = sys.modules.get(name)
        if module is not None and not is_namespace(module):
            clashes.append(name)
    if clashes:
        raise Failed("hidden", ", ".join(sorted(clashes)[:5]))


def main():
    wish = json.load(sys.stdin)
    try:
        answer = {"resolve": resolve, "fetch": fetch}[wish["phase"]](wish)
        answer["ok"] = True
    except Failed as error:
        answer = {"ok": False, "kind": error.kind, "detail": error.detail}
    except OSError as error:
        kind = "too-large" if error.errno in (27, 28, 122) else "other"
        answer = {"ok": False, "kind": kind, "detail": str(error)}
    except Exception as error:
        answer = {"ok": False, "kind": "other", "detail": "%s: %s" % (type(error).__name__, error)}
    pip_end()
    try:
        write(answer)
    except OSError:
        import shutil

        for place in (TREE, WHEELS, PLACE + "/cache"):  # the disk is full: discard everything
            shutil.rmtree(place, ignore_errors=True)
        write({"ok": False, "kind": "too-large", "detail": ""})


def write(answer):
    with open(RESULT + ".new", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.replace(RESULT + ".new", RESULT)


main()
