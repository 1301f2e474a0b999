#!/usr/bin/python3
"""Turns a text file into a C source that holds it as a string.

usage: tools/embed_text.py NAME INPUT OUTPUT
"""
import pathlib
import sys


def main():
    name, source, target = sys.argv[1:]
    data = pathlib.Path(source).read_bytes()
    lines = [", ".join(str(b) for b in data[i : i + 24]) for i in range(0, len(data), 24)]
    pathlib.Path(target).write_text(
        f"extern const char {name}[];\n"
        f"const char {name}[] = {{\n" + "".join(f"    {line},\n" for line in lines) + "    0,\n};\n",
        encoding="ascii",
    )


if __name__ == "__main__":
    main()
