#!/usr/bin/python3
"""Draws docs/img/terminal.svg, the picture in README.md: a real session in a terminal.

usage: tools/picture.py [--binary build/glovebox] [--out docs/img/terminal.svg]

The commands below are run and their real output is drawn, so the picture is regenerated with
this script and never edited. A test compares it with a fresh one, except for numbers.
"""
import argparse
import html
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

SESSION = [
    "glovebox run examples/hello.py",
    "glovebox run --timeout 1 -c 'while True: pass'",
    "glovebox run --json -c 'x = bytearray(10**9)' | jq -c '{status, limit, exit_code}'",
    "glovebox run --cell -c 'import pandas as pd\n"
    'pd.DataFrame({"city": ["Oslo", "Rome"], "visits": [3, 5]})\'',
]

COLUMN, ROW, MARGIN, BAR = 8.4, 20, 18, 34  # of a 14 px monospace font, in pixels
NO_BREAK = "\u00a0"  # SVG would collapse several spaces into one
COLOURS = {"ground": "#1e2430", "bar": "#2b3342", "text": "#d8dee9", "command": "#ffffff",
           "prompt": "#8fbf7f", "note": "#ebcb8b"}


def outputs(binary):
    """(command, output) of each command, as a shell in the checkout shows them."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(binary), os.path.join(folder, "glovebox"))
        env = {k: v for k, v in os.environ.items() if not k.startswith("GLOVEBOX")}
        env.update(PATH=f"{folder}:{env['PATH']}", HOME=folder, XDG_CONFIG_HOME=folder)
        for command in SESSION:
            shell = subprocess.run(["bash", "-c", command], cwd=ROOT, env=env, text=True, timeout=300,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, check=False)
            yield command, shell.stdout


def rows(binary):
    """Every line of the screen as a list of (colour, text)."""
    for command, output in outputs(binary):
        first, *more = command.split("\n")
        yield [("prompt", "$ "), ("command", first)]
        yield from ([("command", line)] for line in more)
        for line in output.rstrip("\n").split("\n"):
            yield [("note" if line.startswith("glovebox: ") else "text", line)]
        yield []


def draw(screen):
    width = round(max(sum(len(text) for _, text in row) for row in screen) * COLUMN) + 2 * MARGIN
    height = BAR + len(screen) * ROW + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="Glovebox in a terminal">',
        f'<rect width="{width}" height="{height}" rx="8" fill="{COLOURS["ground"]}"/>',
        f'<path d="M0 {BAR - 8}V8a8 8 0 0 1 8-8H{width - 8}a8 8 0 0 1 8 8v{BAR - 16}z" '
        f'fill="{COLOURS["bar"]}"/>',
        *(f'<circle cx="{MARGIN + 18 * n}" cy="13" r="5" fill="{colour}"/>'
          for n, colour in enumerate(("#e06c75", "#e5c07b", "#98c379"))),
        '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" '
        'font-size="14">',
    ]
    for number, row in enumerate(screen):
        column = 0
        for colour, text in row:
            if text.strip():
                lines.append(
                    f'<text x="{MARGIN + column * COLUMN:.1f}" y="{BAR + 14 + number * ROW}" '
                    f'textLength="{len(text) * COLUMN:.1f}" fill="{COLOURS[colour]}">'
                    f"{html.escape(text, quote=False).replace(' ', NO_BREAK)}</text>")
            column += len(text)
    return "\n".join([*lines, "</g>", "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", default=ROOT / "build" / "glovebox")
    parser.add_argument("--out", default=ROOT / "docs" / "img" / "terminal.svg", type=pathlib.Path)
    args = parser.parse_args()
    screen = list(rows(args.binary))
    while not screen[-1]:
        screen.pop()
    args.out.write_text(draw(screen), encoding="utf-8")


if __name__ == "__main__":
    main()
