#!/usr/bin/python3
"""CPU time of print() in a box, compared with python3 that prints into a pipe.

Both read nothing back but count the time that the program itself has used; its output goes to a pipe
that is emptied. In a box every line is streamed.

usage: printing.py GLOVEBOX OUT.JSON
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

TARGET = 2.0
ROUNDS = 5

PROGRAM = """
import sys, time
start = time.process_time()
for i in range(500000): print(i)
print(time.process_time() - start, file=sys.stderr)
"""


def measure(command):
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, check=True, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert done.stdout.count("\n") == 500000
    return float(done.stderr)


def main():
    binary, out = sys.argv[1:3]
    times = {"python3": [], "box": []}
    with tempfile.TemporaryDirectory(prefix="glovebox-test-bench.") as directory:
        program = os.path.join(directory, "program.py")
        with open(program, "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        for _ in range(ROUNDS):
            times["python3"].append(measure(["/usr/bin/python3", program]))
            times["box"].append(measure([binary, "run", program]))
    p50 = {how: statistics.median(found) for how, found in times.items()}
    ratio = p50["box"] / p50["python3"]
    print(f"printing 500,000 lines: python3 {p50['python3']:.3f} s, box {p50['box']:.3f} s of CPU time")
    print(f"  {'times as much as python3':<44} {ratio:10.2f}   goal ≤ {TARGET:.2f}   "
          f"{'yes' if ratio <= TARGET else 'NO'}")
    with open(out, "w", encoding="utf-8") as f:
        json.dump({"printing": {**{how + "_s": value for how, value in p50.items()}, "ratio": ratio},
                   "target": TARGET}, f, indent=2)
    print(f"saved as {out}")


if __name__ == "__main__":
    main()
