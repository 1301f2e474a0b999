"""The floor of the benchmark: the same cell in the same warm interpreter with no isolation at all.

A fork, the cell, a pipe, _exit, wait: nothing that runs Python in a fresh process can be faster. It
reads one request per line from standard input and answers each with one line, in microseconds:

  one            one fork: "first end"
  burst N        N forks at once, until the last has ended: "end"
  loop SECONDS   forks one after the other: "count"
  memory         a fork that waits: "KiB of private memory"
  self CODE      the cell's own stopwatch (it prints a number), here without a fork: "value"
"""

import contextlib
import gc
import importlib
import io
import os
import sys
import time

CELL = compile(sys.argv[1], "<cell>", "exec")


def child(out):
    os.dup2(out, 1)
    sys.stdout = open(1, "w", buffering=1, closefd=False)
    exec(CELL, {"__name__": "__main__"})
    sys.stdout.flush()
    os._exit(0)


def one():
    start = time.monotonic_ns()
    inner, outer = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(outer)
    os.close(outer)
    os.read(inner, 4096)
    first = time.monotonic_ns()
    os.waitpid(pid, 0)
    end = time.monotonic_ns()
    os.close(inner)
    return (first - start) // 1000, (end - start) // 1000


def burst(count):
    start = time.monotonic_ns()
    inner, outer = os.pipe()
    pids = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            child(outer)
        pids.append(pid)
    os.close(outer)
    while os.read(inner, 65536):
        pass
    for pid in pids:
        os.waitpid(pid, 0)
    os.close(inner)
    return ((time.monotonic_ns() - start) // 1000,)


def loop(seconds):
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        one()
        count += 1
    return (count,)


def memory():
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    time.sleep(0.2)
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        own = sum(int(line.split()[1]) for line in f if line.startswith("Private_"))
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return (own,)


def own_stopwatch(code):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "<cell>", "exec"), {"__name__": "__main__"})
    return (out.getvalue().strip(),)


def main():
    for name in sys.argv[2].split():
        importlib.import_module(name)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(CELL, {"__name__": "__main__"})
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        answer = {
            "one": one,
            "burst": lambda: burst(int(rest)),
            "loop": lambda: loop(float(rest)),
            "memory": memory,
            "self": lambda: own_stopwatch(rest.replace("\\n", "\n")),
        }[word]()
        print(*answer, flush=True)


main()
