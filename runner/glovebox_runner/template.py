"""The template: a warm interpreter that waits to be cloned. It runs no user code.

It is started by the builder as ``python3 -I`` inside the skeleton, with the large system call
filter already loaded. Descriptor 3 leads to the supervisor: first comes one packet that names the
modules to import; while it imports, the template reports progress; then the extension's serve()
takes over. Where serve() returns a number this process is no longer the template but a clone of it,
sealed in a box, and goes on as a tenant.
"""

import gc
import importlib
import importlib.machinery
import importlib.util
import os
import struct
import sys
import warnings

from . import tenant

# struct template_setup and struct template_event of src/engine/wire.h
SETUP_SIZE = 4096
EVENT = struct.Struct("=iII128s")

# What programs commonly use of the standard library; a module that some version lacks is skipped.
STANDARD = """
    abc argparse array ast asyncio base64 bisect calendar cmath collections collections.abc
    concurrent.futures contextlib copy csv ctypes dataclasses datetime decimal difflib email.message
    enum fnmatch fractions functools glob gzip hashlib heapq hmac html html.parser http.client
    inspect io itertools json keyword locale logging math mimetypes multiprocessing numbers
    operator os.path pathlib pickle platform pprint queue random re secrets select shlex shutil
    signal socket sqlite3 ssl statistics string subprocess tempfile textwrap threading time
    timeit traceback types typing unicodedata unittest urllib.parse urllib.request uuid
    warnings weakref xml.etree.ElementTree zipfile zlib zoneinfo
""".split()


def load_extension(fd):
    """The extension module lives in a memory file; there is no path to import it from."""
    path = f"/proc/self/fd/{fd}"
    loader = importlib.machinery.ExtensionFileLoader("_glovebox", path)
    spec = importlib.util.spec_from_file_location("_glovebox", path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def report(control, error, done, total, text=""):
    os.write(control, EVENT.pack(error, done, total, text.encode("utf-8", "replace")[:127]))


def preload(control, names):
    """Imports each name and says so; what is not installed is simply not warm."""
    total = len(names) + 1
    for done, name in enumerate(names):
        report(control, 0, done, total, name)
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def settle():
    """Makes clones cheap: the collector is not to touch what they share with the template."""
    sys.path_importer_cache.clear()
    gc.collect()
    gc.freeze()


def main(control, ext_fd, zip_fd):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        extension = load_extension(ext_fd)
        os.close(ext_fd)
        names = os.read(control, SETUP_SIZE).rstrip(b"\0").decode("ascii").split()
        standard = [name for name in STANDARD if importlib.util.find_spec(name)] if names else []
        preload(control, names)
        for name in standard:
            importlib.import_module(name)
    os.close(zip_fd)
    tenant.prepare_template()
    settle()
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        report(control, 1, 0, 1, f"{threads} threads after importing: only 1 can be cloned")
        os._exit(1)
    report(control, 0, 1, 1, sys.version.split()[0])
    fd = extension.serve(control)
    if fd is None:
        os._exit(0)
    tenant.main(fd)
