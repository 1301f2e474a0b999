"""The program that runs in an installer box: finds out which wheels are wanted, fetches and unpacks
them.

It is run as a script in a clone of the template, so sys.modules shows what every box of that
template has already loaded. Its input is one JSON object, its output the file RESULT; lines on
standard output report progress. Phases:

resolve  which wheels the set consists of, and which requested packages are already installed.
         uv does it where there is one; pip where there is none, where packages may be built, and
         where uv finds no answer, because it explains failures better
fetch    downloads some of those wheels, checks their hashes, inspects them, and writes each as a
         pack (see Pack), from which the service makes a directory. What is left is for the next
         run of this phase
tool     fetches the wheel of uv and writes the program as a pack
lock     writes a lock file: the newest versions of a set, for several Pythons and machines

No code of a package runs here, unless the operator allows packages to be built. The service
trusts this program as little as possible: it checks names, versions and hashes again.
"""

import functools
import hashlib
import importlib.metadata as metadata
import io
import json
import os
import re
import struct
import subprocess
import sys
import sysconfig
import warnings
import zipfile
import zlib

PLACE = "/workspace"
RESULT = PLACE + "/result.json"
PACKS = PLACE + "/packs"
WHEELS = PLACE + "/wheels"
STUBS = PLACE + "/stubs"
REPORT = PLACE + "/report.json"
LOADED = PLACE + "/loaded.txt"
WANTED = PLACE + "/wanted.txt"
LOCK = PLACE + "/lock.txt"
LOG = PLACE + "/pip.log"
ERRORS = PLACE + "/pip.err"
CERT = PLACE + "/cert.pem"
SYSTEM_PIP = "/usr/lib/python3/dist-packages/pip"
PIP_PLACE = PLACE + "/pip"
DETAIL_MAX = 400
VERSIONS_MAX = 100
BATCH_FILES, BATCH_BYTES = 64, 256 << 20  # of wheels in one run of the phase fetch
CONNECTIONS = 8
WORKERS = 2
CHUNK = 1 << 18
STANDARD = sys.stdlib_module_names

# Messages of pip and uv and what they mean; the first match counts.
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
UV_UNREACHABLE = r"timed out|[Tt]imeout|client error \(Connect\)|dns error"


class Failed(Exception):
    def __init__(self, kind, detail=""):
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def tell(stage, **more):
    print(json.dumps({"stage": stage, **more}), flush=True)


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
    own = sysconfig.get_path("purelib") + "/pip"
    if sys.prefix != sys.base_prefix and os.path.isdir(SYSTEM_PIP) and not os.path.isdir(own):
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


def indexes(wish):
    if not wish["index_url"]:
        return ["--no-index"]
    args = ["--index-url", wish["index_url"]]
    for url in wish["extra_indexes"]:
        args += ["--extra-index-url", url]
    return args


def sources(wish):
    args = indexes(wish)
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


def installed_packages():
    """{name: (version, directory)} of what this interpreter can import, by the names of the
    directories: reading all of their metadata takes longer than everything else."""
    found = {}
    for place in sys.path:
        if not place.endswith(("/dist-packages", "/site-packages")):
            continue
        try:
            entries = sorted(os.listdir(place))
        except OSError:
            continue
        for entry in entries:
            stem, _, kind = entry.rpartition(".")
            name, _, version = stem.partition("-")
            if kind in ("dist-info", "egg-info") and version:
                version = re.sub(r"-py[0-9.]+$", "", version)
                found.setdefault(normal(name), (version, os.path.join(place, entry)))
    return found


def loaded_packages(installed):
    """The packages, and versions, of the modules that every box has in memory."""
    tops = {name.partition(".")[0] for name, module in list(sys.modules.items())
            if re.search("/(dist|site)-packages/", getattr(module, "__file__", None) or "")}
    tops -= STANDARD
    found = {}
    for name, (version, place) in installed.items():
        mine = tops_of(name, place)
        if mine & tops:
            found[name] = version
    return found


def tops_of(name, place):
    try:
        with open(place + "/top_level.txt", encoding="utf-8", errors="replace") as file:
            return set(file.read().split())
    except OSError:
        pass
    try:
        with open(place + "/RECORD", encoding="utf-8", errors="replace") as file:
            return {re.split(r"[/.,]", line, maxsplit=1)[0] for line in file}
    except OSError:
        return {name.replace("-", "_")}


def plain(version):
    return re.fullmatch(r"[0-9]+(\.[0-9]+)*[0-9A-Za-z.+]*", version) is not None


def constraints(pins):
    """Options that pin packages. A version that pip could not parse is left out."""
    with open(LOADED, "w", encoding="utf-8") as file:
        for name, version in sorted(pins.items()):
            if plain(version):
                file.write("%s==%s\n" % (name, version))
    return ["--constraint", LOADED]


# ---- resolving ----


def resolve(wish):
    tell("resolving")
    abi = "-".join((sys.implementation.cache_tag, sysconfig.get_config_var("SOABI") or "",
                    sysconfig.get_platform()))
    if wish["lock"] is not None:
        return {"abi": abi, "install": locked(wish), "present": {}, "clashes": [], "older": []}
    alone = wish["isolated"]
    installed = {} if alone else installed_packages()
    loaded = {} if alone else loaded_packages(installed)
    present, ask = {}, []
    for item in wish["requirements"]:
        name = normal(item["name"])
        if name in loaded and not item["versioned"]:
            present[name] = loaded[name]
        else:
            ask.append(item)
    items = pick(wish, ask, installed, loaded) if ask or wish["kept"] else []
    chosen = {item["name"]: item["version"] for item in items}
    items = [item for item in items if installed.get(item["name"], ("",))[0] != item["version"]
             or item["name"] in wish["pins"]]
    for item in wish["requirements"]:
        name = normal(item["name"])
        if name in installed and chosen.get(name, installed[name][0]) == installed[name][0]:
            present[name] = installed[name][0]
    clashes = [{"name": item["name"], "loaded": loaded[item["name"]], "wanted": item["version"]}
               for item in items
               if item["name"] in loaded and loaded[item["name"]] != item["version"]]
    items = [item for item in items if item["name"] not in loaded]
    return {"abi": abi, "install": items, "present": present, "clashes": clashes,
            "older": older(wish, {**present, **chosen})}


def pick(wish, ask, installed, loaded):
    """The set that is compatible with the loaded packages. If there is none, resolves without that
    constraint, which shows the conflicts."""
    texts = [item["text"] for item in ask] + wish["kept"]
    if wish["uv"] and not wish["builds"] and not any("@" in text for text in texts):
        found = uv_pick(wish, texts, ask, installed, loaded)
        if found is not None:
            return found
    asked = {normal(item["name"]) for item in ask}
    pins = {name: version for name, version in wish["pins"].items() if name not in asked}
    for limits in ({**pins, **loaded}, loaded, {}):
        if limits is loaded:
            if not pins:
                continue
            pins = {}
        try:
            return dry_run(wish, texts, constraints(limits))
        except Failed as error:
            fixed = limits and error.kind in ("conflict", "build")
            if not fixed and not (pins and error.kind in ("not-found", "no-version")):
                raise
            problem = error
    raise problem


def dry_run(wish, texts, limits):
    upgrade = ["--upgrade", "--upgrade-strategy", "only-if-needed"] if wish["newest"] else []
    alone = ["--ignore-installed"] if wish["isolated"] else []
    pip(wish, "install", "--dry-run", "--report", REPORT, "--break-system-packages", *upgrade,
        *alone, *formats(wish), *limits, *texts)
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
            "wheel": file.endswith(".whl"), "size": -1}


# ---- uv ----


def uv(wish, name, texts, *args, links=()):
    """A process that writes pylock.NAME.toml."""
    wanted, out = "%s/uv-%s.txt" % (PLACE, name), "%s/pylock.%s.toml" % (PLACE, name)
    with open(wanted, "w", encoding="utf-8") as file:
        file.write("".join(text + "\n" for text in texts))
    line = [wish["uv"], "pip", "compile", wanted, "--format", "pylock.toml", "-o", out,
            "--no-cache", "--no-config", "--no-header", "--no-annotate", "--quiet",
            "--python", sys.executable, "--no-python-downloads", "--only-binary", ":all:",
            "--index-strategy", "unsafe-best-match", *args, *indexes(wish)]
    for place in (*wish["find_links"], *links):
        line += ["--find-links", place]
    for host in wish["trusted_hosts"]:
        line += ["--allow-insecure-host", host]
    env = environment()
    env.update(UV_HTTP_TIMEOUT=str(wish["timeout"]), UV_HTTP_RETRIES="1", UV_NO_PROGRESS="1",
               NO_COLOR="1", XDG_CACHE_HOME=PLACE + "/cache", XDG_CONFIG_HOME=PLACE,
               XDG_DATA_HOME=PLACE)
    if wish["cert"]:
        env["SSL_CERT_FILE"] = CERT
    return subprocess.Popen(line, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=open("%s/uv-%s.err" % (PLACE, name), "w+"))


def uv_result(name):
    import tomllib

    with open("%s/pylock.%s.toml" % (PLACE, name), "rb") as file:
        return [uv_resolved(entry) for entry in tomllib.load(file)["packages"]]


def uv_resolved(entry):
    wheel = max(entry["wheels"], key=wheel_rank)
    url = wheel.get("url")
    if not url:
        url = "file://" + os.path.normpath(os.path.join(PLACE, wheel["path"]))
    file = wheel.get("name") or url.partition("#")[0].rpartition("/")[2]
    sha256 = (wheel.get("hashes") or {}).get("sha256") or ""
    if not sha256 and url.startswith("file://"):
        sha256 = digest(url[7:])
    return {"name": normal(entry["name"]), "version": str(entry["version"]), "sha256": sha256,
            "file": file, "url": url, "direct": False, "wheel": True,
            "size": wheel.get("size") or -1}


def wheel_rank(wheel):
    """uv lists all wheels that this interpreter can use: the one that is made for it is better than
    one for any machine, which may lack the compiled part."""
    *_, python, abi, platform = ("-" + wheel_name(wheel)[:-4]).rsplit("-", 3)
    return platform != "any", abi.startswith("cp"), abi == "abi3", python, platform


def uv_pick(wish, texts, ask, installed, loaded):
    """None: it found no answer."""
    try:
        import tomllib  # noqa: F401  from Python 3.11 on
    except ImportError:
        return None
    again = {normal(item["name"]) for item in ask if wish["newest"] and not item["versioned"]}
    liked = {name: version for name, (version, _) in installed.items()}
    liked.update(wish["pins"])
    liked = {name: version for name, version in liked.items() if name not in again}
    prefer("main", liked)
    links = [stubs(installed, loaded, again)] if installed else []
    news = newest_start(wish, again)
    process = uv(wish, "main", texts, *constraints(loaded), links=links)
    good = process.wait() == 0
    if news is not None:
        news.wait()
    if good:
        return uv_result("main")
    with open(PLACE + "/uv-main.err", encoding="utf-8", errors="replace") as file:
        said = file.read()
    if re.search(UV_UNREACHABLE, said):
        lines = [line.strip(" │╰─▶×├") for line in said.splitlines() if line.strip()]
        raise Failed("unreachable", (lines[-1] if lines else "no answer")[-DETAIL_MAX:])
    if not loaded:
        return None
    # Without the loaded packages, to show which of them is in the way.
    prefer("free", liked)
    return uv_result("free") if uv(wish, "free", texts, links=links).wait() == 0 else None


def prefer(name, versions):
    """uv keeps the versions of an earlier result where they fit."""
    with open("%s/pylock.%s.toml" % (PLACE, name), "w", encoding="utf-8") as file:
        file.write('lock-version = "1.0"\ncreated-by = "glovebox"\npackages = []\n'
                   if not versions else 'lock-version = "1.0"\ncreated-by = "glovebox"\n')
        for package, version in sorted(versions.items()):
            if plain(version):
                file.write('[[packages]]\nname = "%s"\nversion = "%s"\n' % (package, version))


def stubs(installed, loaded, again):
    """Wheels without content of what is installed: uv takes them for satisfied, even if the index
    does not have them."""
    os.makedirs(STUBS, exist_ok=True)
    for name, (version, _) in installed.items():
        if not plain(version) or (name in again and name not in loaded):
            continue
        stem = "%s-%s" % (name.replace("-", "_"), version)
        with zipfile.ZipFile("%s/%s-py3-none-any.whl" % (STUBS, stem), "w") as file:
            file.writestr(stem + ".dist-info/METADATA",
                          "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version))
            file.writestr(stem + ".dist-info/WHEEL",
                          "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            file.writestr(stem + ".dist-info/RECORD", "")
    return STUBS


def newest_start(wish, names):
    """The newest versions of these, whatever they need: to tell when an older one was taken."""
    names = names or {normal(item["name"]) for item in wish["requirements"]
                      if wish["newest"] and not item["versioned"]}
    return uv(wish, "newest", sorted(names), "--no-deps") if names else None


def older(wish, chosen):
    try:
        found = {item["name"]: item["version"] for item in uv_result("newest")}
    except (OSError, ImportError, KeyError, ValueError):
        return []
    return [{"name": name, "version": chosen[name], "newest": version}
            for name, version in found.items() if chosen.get(name, version) != version]


def locked(wish):
    """The wheels for this interpreter out of a list with hashes."""
    with open(LOCK, "w", encoding="utf-8") as file:
        file.write(wish["lock"])
    if wish["uv"]:
        with open(LOCK, encoding="utf-8") as file:
            process = uv(wish, "lock", file.read().splitlines(), "--no-deps")
        if process.wait() == 0:
            return uv_result("lock")
    pip(wish, "install", "--dry-run", "--report", REPORT, "--break-system-packages",
        "--ignore-installed", "--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", LOCK)
    with open(REPORT, encoding="utf-8") as file:
        return [resolved(entry) for entry in json.load(file)["install"]]


# ---- a lock file ----

# What the presets are for: CPython of these versions, on Linux with glibc.
MINORS = range(11, 15)
MACHINES = ("x86_64", "aarch64")


def lock(wish):
    tell("resolving")
    process = uv(wish, "new", wish["wanted"], "--universal", "--python-version", "3.%d" % MINORS[0])
    if process.wait() != 0:
        raise uv_explain("new")
    import tomllib

    with open(PLACE + "/pylock.new.toml", "rb") as file:
        packages = tomllib.load(file)["packages"]
    lines, wheels = [], []
    for package in packages:
        marker = marker_for_all(package.get("marker"))
        chosen = [wheel for wheel in package["wheels"] if wheel_fits(wheel_name(wheel), MINORS, MACHINES)]
        if marker is None:
            continue
        if not chosen:
            raise Failed("no-wheel", "%s %s" % (package["name"], package["version"]))
        wheels += chosen
        lines.append("%s==%s%s" % (package["name"], package["version"], " ; " + marker if marker else "")
                     + "".join(" \\\n    --hash=sha256:" + wheel_hash(wheel)
                               for wheel in sorted(chosen, key=wheel_name)) + "\n")
    return {"lock": lock_head(wish, packages, wheels) + "".join(lines)}


def uv_explain(name):
    with open("%s/uv-%s.err" % (PLACE, name), encoding="utf-8", errors="replace") as file:
        said = file.read()
    words = " ".join(line.strip(" │╰─▶×├") for line in said.splitlines() if line.strip())
    return Failed("unreachable" if re.search(UV_UNREACHABLE, said) else "conflict", words[-DETAIL_MAX:])


def wheel_url(wheel):
    return wheel.get("url") or "file://" + os.path.normpath(os.path.join(PLACE, wheel["path"]))


def wheel_name(wheel):
    return wheel.get("name") or wheel_url(wheel).partition("#")[0].rpartition("/")[2]


def wheel_hash(wheel):
    return (wheel.get("hashes") or {}).get("sha256") or digest(path_of(wheel_url(wheel)))


def wheel_fits(file, minors, machines):
    """Whether it is for one of these Pythons on one of these machines."""
    parts = file[:-4].split("-")
    if not file.endswith(".whl") or len(parts) < 5:
        return False
    pythons, abis, platforms = (part.split(".") for part in parts[-3:])
    if "any" not in platforms and not any(re.fullmatch("(many)?linux.*_" + machine, platform)
                                          for platform in platforms for machine in machines):
        return False
    return any(tag_fits(python, abi, minor) for minor in minors for python in pythons for abi in abis)


def tag_fits(python, abi, minor):
    found = re.fullmatch(r"(py|cp)3(\d*)", python)
    if found is None:
        return False
    number = int(found.group(2) or 0)
    if abi == "abi3":
        return number <= minor
    if abi == "none" and found.group(1) == "py":
        return number <= minor
    return number == minor and abi in ("none", "cp3%d" % minor)


def marker_for_all(text):
    """The marker, or "" if it is true everywhere, or None if it is true nowhere."""
    if not text:
        return ""
    sys.path[:0] = pip_path()
    from pip._vendor.packaging.markers import Marker

    results = set()
    for minor in MINORS:
        for micro in (0, 99):
            for machine in MACHINES:
                version = "3.%d.%d" % (minor, micro)
                results.add(Marker(text).evaluate({
                    "python_version": "3.%d" % minor, "python_full_version": version,
                    "implementation_version": version, "implementation_name": "cpython",
                    "platform_python_implementation": "CPython", "os_name": "posix",
                    "sys_platform": "linux", "platform_system": "Linux", "platform_machine": machine,
                    "platform_release": "", "platform_version": "", "extra": ""}))
    return text if len(results) == 2 else "" if results.pop() else None


def lock_head(wish, packages, wheels):
    """How much it is, for this Python and this machine."""
    minor, machine = sys.version_info[1], os.uname().machine
    best = {}
    for wheel in wheels:
        if wheel_fits(wheel_name(wheel), (minor,), (machine,)):
            best[wheel_name(wheel).partition("-")[0]] = {"url": wheel_url(wheel), "size": wheel.get("size") or -1}
    items = list(best.values())
    sizes_find(wish, items)
    return ("# Made by glovebox template update; not to be edited. %d packages, about %.0f MB to fetch.\n"
            "# CPython 3.%d to 3.%d on Linux with glibc, %s.\n" % (
                len(best), sum(max(item["size"], 0) for item in items) / 1e6, MINORS[0], MINORS[-1],
                " and ".join(MACHINES)))


# ---- fetching ----


class Fetcher:
    """Downloads over a few connections at a time, each kept open for the next file."""

    def __init__(self, wish):
        import http.client
        import urllib.parse
        import urllib.request

        self.wish, self.http, self.parse = wish, http.client, urllib.parse
        self.proxies = urllib.request.getproxies_environment()
        self.open = {}

    def context(self, host, port):
        import ssl

        if {host, "%s:%d" % (host, port)} & set(self.wish["trusted_hosts"]):
            return ssl._create_unverified_context()
        return ssl.create_default_context(cafile=CERT if self.wish["cert"] else None)

    def connect(self, url):
        """A connection and the target for it."""
        host, secure = url.hostname, url.scheme == "https"
        port = url.port or (443 if secure else 80)
        path = (url.path or "/") + ("?" + url.query if url.query else "")
        target = path if secure else "%s://%s%s" % (url.scheme, url.netloc.rpartition("@")[2], path)
        key = (secure, host, port)
        if key not in self.open:
            proxy = self.parse.urlsplit(self.proxies.get(url.scheme, ""))
            if not proxy.hostname:
                raise Failed("unreachable", "there is no way to " + host)
            timeout = self.wish["timeout"]
            if secure:
                made = self.http.HTTPSConnection(proxy.hostname, proxy.port, timeout=timeout,
                                                 context=self.context(host, port))
                made.set_tunnel(host, port)
            else:
                made = self.http.HTTPConnection(proxy.hostname, proxy.port, timeout=timeout)
            self.open[key] = made
        return self.open[key], target, key

    def ask(self, method, address):
        for _ in range(5):  # redirects
            for attempt in (0, 1):
                url = self.parse.urlsplit(address)
                if url.scheme not in ("http", "https") or not url.hostname:
                    raise Failed("refused", "not a web address: " + address[:100])
                connection, target, key = self.connect(url)
                fresh = connection.sock is None
                try:
                    connection.request(method, target, headers={"Accept-Encoding": "identity",
                                                                "User-Agent": "glovebox"})
                    reply = connection.getresponse()
                    break
                except (OSError, self.http.HTTPException) as error:
                    connection.close()
                    self.open.pop(key, None)
                    if fresh or attempt:  # one that was kept open may have been closed by the server
                        kind = "refused" if "403" in str(error) else "unreachable"
                        raise Failed(kind, "%s: %s" % (url.hostname, error)) from None
            if reply.status not in (301, 302, 303, 307, 308):
                return reply
            reply.read()
            address = self.parse.urljoin(address, reply.headers.get("Location") or "")
        raise Failed("unreachable", "too many redirects")

    def size(self, item):
        """-1: unknown."""
        if item["url"].startswith("file://"):
            return os.stat(path_of(item["url"])).st_size
        reply = self.ask("HEAD", item["url"])
        reply.read()
        length = reply.headers.get("Content-Length") or ""
        return int(length) if reply.status == 200 and length.isdigit() else -1

    def fetch(self, item, to, room, got):
        """Writes the file; returns its hash. @got is told of each piece."""
        hash_, left = hashlib.sha256(), room
        if item["url"].startswith("file://"):
            stream = open(path_of(item["url"]), "rb")
        else:
            stream = self.ask("GET", item["url"])
            if stream.status != 200:
                stream.read()
                raise Failed("refused" if stream.status == 403 else "unreachable",
                             "%s: %d %s" % (item["file"], stream.status, stream.reason))
        try:
            with open(to, "wb") as file:
                while True:
                    chunk = stream.read(CHUNK)
                    if not chunk:
                        break
                    left -= len(chunk)
                    if left < 0:
                        raise Failed("too-large", item["file"])
                    hash_.update(chunk)
                    file.write(chunk)
                    got(len(chunk))
            if getattr(stream, "length", 0):
                raise Failed("unreachable", item["file"] + ": the connection was closed in the middle")
        except self.http.HTTPException as error:
            raise Failed("unreachable", "%s: %s" % (item["file"], type(error).__name__)) from None
        except OSError as error:
            if error.errno in (27, 28, 122):
                raise
            self.open.clear()
            raise Failed("unreachable", "%s: %s" % (item["file"], error)) from None
        return hash_.hexdigest()


def path_of(url):
    import urllib.parse

    return urllib.parse.unquote(url[7:].partition("#")[0])


def digest(path):
    hash_ = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(CHUNK), b""):
            hash_.update(chunk)
    return hash_.hexdigest()


def side_by_side(wish, items, work):
    """Calls work(fetcher, item) for all, on several threads; raises the first failure."""
    import threading

    queue, failures, lock = list(reversed(items)), [], threading.Lock()

    def loop():
        fetcher = Fetcher(wish)
        while True:
            with lock:
                if not queue or failures:
                    return
                item = queue.pop()
            try:
                work(fetcher, item)
            except BaseException as error:
                with lock:
                    failures.append(error)

    threads = [threading.Thread(target=loop) for _ in range(min(CONNECTIONS, len(items)) - 1)]
    for thread in threads:
        thread.start()
    loop()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def sizes_find(wish, items):
    def find(fetcher, item):
        item["size"] = fetcher.size(item)

    unknown = [item for item in items if item["size"] < 0]
    if unknown:
        side_by_side(wish, unknown, find)


def batch(items):
    """The first of them: as many as fit."""
    taken, total = [], 0
    for item in items:
        if taken and (len(taken) == BATCH_FILES or total + max(item["size"], 0) > BATCH_BYTES):
            break
        taken.append(item)
        total += max(item["size"], 0)
    return taken


def download(wish, items, done, total, total_bytes):
    import threading
    import time

    state, lock = {"bytes": done["bytes"], "files": done["files"], "told": 0.0}, threading.Lock()

    def got(count, files=0, name=""):
        with lock:
            state["bytes"] += count
            state["files"] += files
            now = time.monotonic()
            if files or now - state["told"] >= 0.2:
                state["told"] = now
                tell("fetching", done=state["files"], total=total, bytes=state["bytes"],
                     bytes_total=total_bytes, name=name)

    def fetch_one(fetcher, item):
        room = item["size"] if item["size"] >= 0 else wish["bytes"]
        sha256 = fetcher.fetch(item, wheel_of(item), room, got)
        if sha256 != item["sha256"]:
            os.unlink(wheel_of(item))
            raise Failed("hash", item["file"])
        item["complete"] = True
        got(0, 1, item["name"])

    try:
        side_by_side(wish, items, fetch_one)
    except Failed as error:
        return error
    return None


def wheel_of(item):
    return "%s/%s.whl" % (WHEELS, item["sha256"])


def too_large(wish, size):
    return Failed("too-large", "%.0f MB, where at most %.0f MB are allowed" % (
        size / 1e6, wish["bytes"] / 1e6))


def fetch(wish):
    clear(PACKS, WHEELS)
    items = wish["install"]
    if wish["builds"] and not all(item["wheel"] for item in items):
        return {"trees": build(wish, items), "fetched": 0}
    sizes_find(wish, items)
    todo = sum(max(item["size"], 0) for item in items)
    if todo > wish["bytes"]:
        raise too_large(wish, todo)
    done = wish["done"]
    taken = batch(items)
    tell("fetching", done=done["files"], total=done["files"] + len(items), bytes=done["bytes"],
         bytes_total=done["bytes"] + todo, name="")
    error = download(wish, taken, done, done["files"] + len(items), done["bytes"] + todo)
    taken = [item for item in taken if item.get("complete")]
    if error is not None and not taken:
        raise error
    tell("unpacking", done=done["files"], total=done["files"] + len(items))
    trees = pack_all(wish, [(item, wheel_of(item)) for item in taken])
    answer = {"trees": trees, "fetched": sum(max(item["size"], 0) for item in taken)}
    if error is not None:  # what is complete is kept for the next time
        answer["failed"] = {"kind": error.kind, "detail": error.detail}
    return answer


def build(wish, items):
    with open(WANTED, "w", encoding="utf-8") as file:
        for item in items:
            what = "%s @ %s" % (item["name"], item["url"]) if item["direct"] else "%s==%s" % (
                item["name"], item["version"])
            file.write("%s --hash=sha256:%s\n" % (what, item["sha256"]))
    pip(wish, "wheel", "--no-deps", "--require-hashes", "--wheel-dir", WHEELS, "-r", WANTED)
    found = {}
    for name in os.listdir(WHEELS):
        if name.endswith(".whl"):
            found[normal(name.partition("-")[0])] = os.path.join(WHEELS, name)
    missing = [item["name"] for item in items if item["name"] not in found]
    if missing:
        raise Failed("other", "pip delivered no wheel of " + ", ".join(missing[:5]))
    return pack_all(wish, [(item, found[item["name"]]) for item in items])


def clear(*places):
    import shutil

    for place in places:
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)


def tool(wish):
    """uv itself, by its known hash."""
    clear(PACKS, WHEELS)
    with open(WANTED, "w", encoding="utf-8") as file:
        file.write(wish["tool"])
    tell("fetching", done=0, total=1, name="uv")
    pip(wish, "download", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest",
        WHEELS, "-r", WANTED)
    wheel = os.path.join(WHEELS, os.listdir(WHEELS)[0])
    with zipfile.ZipFile(wheel) as archive, Pack(PACKS + "/tool.pack", wish["bytes"]) as pack:
        member = next(m for m in archive.infolist() if m.filename.endswith(".data/scripts/uv"))
        with archive.open(member) as stream:
            pack.add("uv", stream, member.file_size, True)
    return {"sha256": digest(wheel)}


# ---- unpacking ----


class Pack:
    """A directory in one file: for each file a header, its path and its bytes. The service makes
    the directory of it, and checks everything again."""

    HEADER = struct.Struct("<4sBHQ")

    def __init__(self, path, room):
        self.file, self.room, self.paths, self.bytes = open(path, "wb"), room, {}, 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.write(self.HEADER.pack(b"GBTE", 0, 0, 0))
        self.file.close()

    def add(self, path, stream, size, executable=False):
        name = path.encode()
        if path in self.paths:
            raise Failed("bad-wheel", "two files with the name %r" % path[:100])
        self.paths[path] = size
        self.bytes += size
        if self.bytes > self.room:
            raise Failed("too-large", "")
        self.file.write(self.HEADER.pack(b"GBTF", executable, len(name), size))
        self.file.write(name)
        left = size
        while left > 0:
            chunk = stream.read(min(left, CHUNK))
            if not chunk:
                raise Failed("bad-wheel", "%r ends too early" % path[:100])
            self.file.write(chunk)
            left -= len(chunk)

    def add_bytes(self, path, data, executable=False):
        self.add(path, io.BytesIO(data), len(data), executable)


def pack_all(wish, jobs):
    """Packs each wheel; large sets in several processes, because it is work for the processor."""
    parts = [jobs]
    if sum(os.stat(wheel).st_size for _, wheel in jobs) > 4 << 20 and len(jobs) > 1:
        parts = [[] for _ in range(WORKERS)]
        loads = [0] * WORKERS
        for job in sorted(jobs, key=lambda job: -os.stat(job[1]).st_size):
            least = loads.index(min(loads))
            parts[least].append(job)
            loads[least] += os.stat(job[1]).st_size
    children = {os.fork() or pack_child(wish, part, number): part
                for number, part in enumerate(parts[1:])} if len(parts) > 1 else {}
    trees = [pack_one(wish, *job) for job in parts[0]]
    for number, (pid, part) in enumerate(children.items()):
        status = os.waitpid(pid, 0)[1]
        try:
            with open("%s/%d.json" % (PACKS, number), encoding="utf-8") as file:
                said = json.load(file)
        except (OSError, ValueError):
            raise Failed("bad-wheel", "unpacking ended with status %d" % status) from None
        if isinstance(said, dict):
            raise Failed(said["kind"], said["detail"])
        trees += said
    return trees


def pack_child(wish, part, number):
    try:
        answer = [pack_one(wish, *job) for job in part]
    except Failed as error:
        answer = {"kind": error.kind, "detail": error.detail}
    except OSError as error:
        answer = {"kind": "too-large" if error.errno in (27, 28, 122) else "other",
                  "detail": str(error)}
    except BaseException as error:
        answer = {"kind": "other", "detail": "%s: %s" % (type(error).__name__, error)}
    try:
        with open("%s/%d.json" % (PACKS, number), "w", encoding="utf-8") as file:
            json.dump(answer, file)
    finally:
        os._exit(0)


def pack_one(wish, item, wheel):
    name = item["sha256"] + ".pack"
    try:
        with zipfile.ZipFile(wheel) as archive, Pack("%s/%s" % (PACKS, name), wish["bytes"]) as pack:
            unpack(archive, item, pack)
    except (zipfile.BadZipFile, zlib.error, EOFError, UnicodeError, NotImplementedError,
            RuntimeError) as error:
        raise Failed("bad-wheel", "%s: %s" % (item["file"], error)) from None
    except Failed as error:
        if error.kind == "too-large":
            raise too_large(wish, pack.bytes) from None
        raise
    os.unlink(wheel)
    return {"sha256": item["sha256"], "pack": name, "bytes": pack.bytes, "files": len(pack.paths)}


def look_into(archive, item, room):
    """The members that are files. Rejects those that lead elsewhere, are not regular files, or are
    too large."""
    members, total = [], 0
    for member in archive.infolist():
        name = member.filename
        kind = member.external_attr >> 28
        parts = name.split("/")
        if kind not in (0, 4, 8) or "\\" in name or "\0" in name or any(
                part in ("", ".", "..") for part in parts[:-1]) or parts[-1] in (".", ".."):
            raise Failed("bad-wheel", "%s contains %r" % (item["file"], name[:100]))
        if parts[-1]:
            members.append(member)
        total += member.file_size
        if total > room:
            raise Failed("too-large", item["file"])
    return members


def unpack(archive, item, pack):
    """As pip's --target would: modules and metadata at the top, programs in bin."""
    members = look_into(archive, item, pack.room)
    info = next((member.filename.partition("/")[0] for member in members
                 if re.fullmatch(r"[^/]+\.dist-info/WHEEL", member.filename)), None)
    if info is None:
        raise Failed("bad-wheel", "%s has no file WHEEL" % item["file"])
    data, sources_, entries = info[:-10] + ".data/", [], ""
    for member in members:
        name = member.filename
        executable = bool(member.external_attr >> 16 & 0o100)
        if name == info + "/RECORD":
            continue
        if name == info + "/entry_points.txt":
            entries = archive.read(member).decode("utf-8", "replace")
        if name.startswith(data):
            kind, _, name = name[len(data):].partition("/")
            if kind == "scripts" and name:
                pack.add_bytes("bin/" + name, script(archive.read(member)), True)
                continue
            if kind == "headers":
                name = "include/%s/%s" % (item["name"], name)
            elif kind not in ("purelib", "platlib", "data"):
                continue
        if not name:
            continue
        with archive.open(member) as stream:
            pack.add(name, stream, member.file_size, executable)
        # Tests of packages are a quarter of all sources, and hardly anyone imports them.
        if name.endswith(".py") and not {"test", "tests"} & set(name.split("/")[:-1]):
            sources_.append((name, member))
    programs(entries, pack)
    pack.add_bytes(info + "/INSTALLER", b"glovebox\n")
    record = "".join('"%s",,%d\n' % (path.replace('"', '""'), size) if re.search('[,"]', path)
                     else "%s,,%d\n" % (path, size) for path, size in pack.paths.items())
    pack.add_bytes(info + "/RECORD", (record + info + "/RECORD,,\n").encode())
    for name, member in sources_:
        bytecode(archive, name, member, pack)


SHEBANG = b"#!/usr/bin/env python3\n"


def script(text):
    first, newline, rest = text.partition(b"\n")
    return SHEBANG + rest if first.startswith(b"#!python") and newline else text


def programs(text, pack):
    """What entry_points.txt says. A file that is no INI file has none."""
    import configparser

    parser = configparser.ConfigParser(delimiters=("=",), strict=False, interpolation=None)
    parser.optionxform = str
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    for section in ("console_scripts", "gui_scripts"):
        for name, target in parser.items(section) if parser.has_section(section) else ():
            found = re.fullmatch(r"([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_][\w.]*)\s*(\[.*\])?", target)
            if found and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+-]*", name) and (
                    "bin/" + name not in pack.paths):
                module, function = found.group(1), found.group(2)
                pack.add_bytes("bin/" + name, SHEBANG + (
                    "import sys\nfrom %s import %s\nsys.exit(%s())\n" % (
                        module, function.partition(".")[0], function)).encode(), True)


def bytecode(archive, name, member, pack):
    """Never checked against the source, which never changes. A file that cannot be compiled has
    none."""
    import importlib.util
    import marshal

    place, _, file = name.rpartition("/")
    cached = "%s__pycache__/%s.%s.pyc" % (place + "/" if place else "", file[:-3],
                                          sys.implementation.cache_tag)
    if cached in pack.paths:
        return
    source = archive.read(member)
    try:
        code = marshal.dumps(compile(source, "/packages/" + name, "exec", dont_inherit=True))
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return
    pack.add_bytes(cached, importlib.util.MAGIC_NUMBER + struct.pack("<L", 1)
                   + importlib.util.source_hash(source) + code)


def main():
    wish = json.load(sys.stdin)
    warnings.simplefilter("ignore")  # of sources that are compiled
    try:
        answer = {"resolve": resolve, "fetch": fetch, "tool": tool, "lock": lock}[wish["phase"]](wish)
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
        clear(PACKS, WHEELS, PLACE + "/cache")  # the disk is full: discard everything
        write({"ok": False, "kind": "too-large", "detail": ""})


def write(answer):
    with open(RESULT + ".new", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.replace(RESULT + ".new", RESULT)


main()
