#!/usr/bin/python3
"""Packs a directory of files, each gzipped, into one blob, and writes a table of them in C.

usage: tools/embed_files.py DIRECTORY OUT.bin OUT.h DEPFILE

The page is embedded this way: web/dist is what Vite built. Names with a hash are the build's own, so
the list of files is found here and not in a meson.build; the dependency file makes ninja notice when
one of them changes. The digests in the table are the ETags, and make the compiler notice, too: it does
not report .incbin files as dependencies.
"""
import gzip
import hashlib
import os
import sys

MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
}


def main():
    root, blob_path, table_path, dep_path = sys.argv[1:]
    names, folders = [], [root]
    for folder, children, files in os.walk(root):
        children.sort()
        folders += [os.path.join(folder, child) for child in children]
        names += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    rows, offset = [], 0
    with open(blob_path, "wb") as blob:
        for name in sorted(names):
            with open(os.path.join(root, name), "rb") as f:
                data = f.read()
            media = MEDIA.get(os.path.splitext(name)[1])
            if media is None:
                sys.exit(f"tools/embed_files.py: {name}: no media type is known for this file")
            packed = gzip.compress(data, 9, mtime=0)
            blob.write(packed)
            etag = hashlib.sha256(data).hexdigest()[:32]
            rows.append(f'    {{ "{name}", "{media}", "\\"{etag}\\"", {offset}, {len(packed)}, {len(data)} }},\n')
            offset += len(packed)
    with open(table_path, "w", encoding="ascii") as table:
        table.write("static const struct page_file files[] = {\n" + "".join(rows) + "};\n")
    inputs = [os.path.join(root, name) for name in sorted(names)] + folders
    with open(dep_path, "w", encoding="utf-8") as dep:
        dep.write(f"{blob_path} {table_path}: " + " ".join(inputs) + "\n")


if __name__ == "__main__":
    main()
