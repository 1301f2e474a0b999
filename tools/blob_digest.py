#!/usr/bin/python3
"""Writes a header with the digests of files that are embedded with .incbin.

usage: blob_digest.py OUT.h FILE...

The compiler does not report .incbin files as dependencies. It does report a header, so the source
that embeds them is compiled with this one included, and compiled again when a blob changes.
"""
import hashlib
import os
import sys


def main():
    out, *files = sys.argv[1:]
    with open(out, "w", encoding="ascii") as header:
        for path in files:
            with open(path, "rb") as blob:
                digest = hashlib.sha256(blob.read()).hexdigest()
            header.write(f"/* {digest} {os.path.basename(path)} */\n")


if __name__ == "__main__":
    main()
