"""The template: a warm interpreter that waits to be cloned. It runs no user code.

It is started by the builder as ``python3 -I`` inside the skeleton, with the large system call
filter already loaded. Descriptor 3 is the socket to the supervisor: the first packet names the
modules to import; while it imports, the template reports progress; then the extension's serve()
takes over. If serve() returns a number this process is no longer the template but a clone of it,
sealed in a box, and continues as a tenant.

A module that leaves something behind that clones cannot have (leftovers.py) cannot be taken back:
the template names it and waits for its end, and the supervisor starts another one without it.
"""

import gc
import importlib
import importlib.machinery
import importlib.util
import io
import os
import struct
import sys
import time
import warnings

from . import calls, fonts, machine, plotly_images, tenant

# struct template_setup and struct template_event of src/engine/shared/wire.h
SETUP_SIZE = 4096
EVENT = struct.Struct("=iII128s")
GOES_ON, UNFIT, MISSING, LEFT_OUT, CULPRIT, USES = range(6)

# Commonly used modules of the standard library; a module that some version lacks is skipped.
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
    """The extension module is in a memory file; there is no path to import it from."""
    path = f"/proc/self/fd/{fd}"
    loader = importlib.machinery.ExtensionFileLoader("_glovebox", path)
    spec = importlib.util.spec_from_file_location("_glovebox", path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def report(control, error, done, total, text=""):
    text = text.encode("utf-8", "replace")[:127].decode("utf-8", "ignore")
    os.write(control, EVENT.pack(error, done, total, text.encode()))


def give_up(control, index, why):
    """The supervisor ends this process, with everything that a module has started."""
    report(control, CULPRIT, index, 0, why)
    while True:
        time.sleep(3600)


def preload(control, names, left):
    """Imports each name and reports it. A module that cannot be imported is reported and
    simply not preloaded: a program that imports it will see why. Returns for each module that is
    exercised the index of the name that brought it."""
    total = len(names) + 1
    owners = {}
    for done, name in enumerate(names):
        report(control, GOES_ON, done, total, name)
        try:
            if name == "IPython":
                tenant.make_shell()
            else:
                importlib.import_module(name)
        except Exception as error:
            why = str(error).partition("\n")[0] or "it failed"
            report(control, MISSING, done, total, f"{name}: {type(error).__name__}: {why}")
        except BaseException as error:  # such as sys.exit()
            report(control, LEFT_OUT, done, total, f"it raised {type(error).__name__}")
        for module in EXERCISES:
            if module in sys.modules:
                owners.setdefault(module, done)
        why = left.find()
        if why:
            give_up(control, done, why)
    return owners


def exercise(control, owners, left):
    """Uses common functions once. Libraries defer a good part of their initialization until then;
    done here, no clone has to do it again. Only what needs no pool of threads."""
    for name, owner in owners.items():
        report(control, USES, owner, 0, name)
        try:
            EXERCISES[name](sys.modules[name])
        except Exception:  # an unknown version of a library is merely less warm
            pass
        why = left.find()
        if why:
            give_up(control, owner, why)


def use_numpy(numpy):
    values = numpy.arange(12.0).reshape(3, 4)
    (values @ values.T).sum(axis=0).tolist()
    numpy.random.default_rng(0).normal(size=3)
    repr(values)


def use_pandas(pandas):
    frame = pandas.DataFrame({"a": range(4), "b": list("wxyz"), "c": [0.5, 1.5, None, 2.5]})
    frame.groupby("b")["a"].sum().to_dict()
    frame.describe()
    repr(frame)


def use_pyplot(pyplot):
    fonts.install(sys.modules["matplotlib.font_manager"])
    figure, axes = pyplot.subplots()
    axes.plot([1, 2], [3, 4])
    axes.set_title("x")
    figure.savefig(io.BytesIO(), format="png")
    pyplot.close(figure)
    # Fonts stay open in a cache, and a clone has only its own descriptors.
    sys.modules["matplotlib.font_manager"]._get_font.cache_clear()


def use_plotly(plotly):
    plotly_images.adapt_kaleido(importlib.import_module("kaleido.scopes.base"))
    plotly_images.adapt_plotly(importlib.import_module("plotly.io._kaleido"))


EXERCISES = {
    "numpy": use_numpy,
    "pandas": use_pandas,
    "matplotlib.pyplot": use_pyplot,
    "plotly": use_plotly,
}


def settle():
    """Makes clones cheap: the garbage collector must not touch memory that they share with
    the template."""
    sys.path_importer_cache.clear()
    gc.collect()
    gc.freeze()


def unfit(control):
    """Why this process cannot be cloned, or None. What modules leave is found before."""
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        return f"{threads} threads are running after the imports; only one can be cloned"
    for name in os.listdir("/proc/self/fd"):
        if int(name) > control:
            try:
                return f"{os.readlink('/proc/self/fd/' + name)} is open after the imports"
            except OSError:
                continue  # the directory that was just listed
    return None


def warm(control, extension, names):
    """Imports everything that programs are likely to use."""
    from . import leftovers

    left = leftovers.Leftovers(extension.end_thread)
    leftovers.begin()
    standard = [name for name in STANDARD if importlib.util.find_spec(name)]
    owners = preload(control, names, left)
    for name in standard:
        importlib.import_module(name)
    exercise(control, owners, left)
    leftovers.end()
    tenant.load_cells()
    tenant.load_names()
    tenant.keep_late()


def main(control, ext_fd, zip_fd):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        extension = load_extension(ext_fd)
        os.close(ext_fd)
        calls.use(extension)
        names = os.read(control, SETUP_SIZE).rstrip(b"\0").decode("ascii").split()
        machine.install()
        tenant.has_ipython = importlib.util.find_spec("IPython") is not None
        if names:
            warm(control, extension, names)
        else:
            tenant.keep_cells()
    os.close(zip_fd)
    os.dup2(0, 2)  # nobody reads it any more: the supervisor only wanted the output of the start
    tenant.prepare_template(control)
    settle()
    problem = unfit(control)
    if problem:
        report(control, UNFIT, 0, 1, problem)
        os._exit(1)
    report(control, GOES_ON, 1, 1, sys.version.split()[0])
    fd = extension.serve(control)
    if fd is None:
        os._exit(0)
    tenant.main(fd)
