#!/usr/bin/env python3
"""Draws a chart with matplotlib in a box and saves it locally.

    PYTHONPATH=clients/python examples/chart.py [FILE]        FILE defaults to chart.png

Uses the server at GLOVEBOX_URL. If that is not set, it starts one from the binary in GLOVEBOX, or
from `glovebox` on the PATH.
"""

import sys

import glovebox

CODE = """
import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 4 * np.pi, 400)
plt.plot(x, np.sin(x), label="sin")
plt.plot(x, np.exp(-x / 6) * np.sin(x), label="damped")
plt.legend()
plt.title("Two waves")
"""


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "chart.png"
    result = glovebox.local.connect().run(CODE, check=True)
    figure = result.figures[0]
    figure.save(path)
    print(f"{path}: {figure.mime}, {len(figure.data)} bytes")


if __name__ == "__main__":
    main()
