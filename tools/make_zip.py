#!/usr/bin/python3
"""Packs Python files into a reproducible zip: same files, same bytes.

usage: make_zip.py OUT ROOT FILE...     names in the zip are relative to ROOT

Stored, not compressed: it is embedded in the binary and imported from there, and a template should
not spend its startup time on inflating.
"""
import os
import sys
import zipfile


def main():
    out, root, *files = sys.argv[1:]
    members = sorted((os.path.relpath(f, root), f) for f in files)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, path in members:
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o100644 << 16
            with open(path, "rb") as source:
                archive.writestr(info, source.read())


if __name__ == "__main__":
    main()
