#!/usr/bin/python3
"""Prints which installed Debian packages the packages on standard input need, themselves included:
`NAME VERSION`, one per line.

`apt-cache depends --recurse` would also follow every alternative that happens to be installed, and
every package that provides a name: on a machine with many packages that is most of them. Here, of
`a | b`, only the first that is installed counts. All providers of a virtual name count, since a
link in /etc/alternatives may point to any of them.
"""

import collections
import re
import subprocess
import sys

FIELDS = "${db:Status-Status}\t${Package}\t${binary:Package}\t${Version}\t${Pre-Depends}, ${Depends}\t${Provides}\n"


def names(field):
    """[[alternative, ...], ...] of a field such as `a (>= 1), b:any | c`."""
    groups = [[re.split(r"[\s(:\[]", word.strip(), maxsplit=1)[0] for word in group.split("|")]
              for group in field.split(",")]
    return [[name for name in group if name] for group in groups if group != [""]]


def main():
    said = subprocess.run(["dpkg-query", "-W", "-f", FIELDS], stdout=subprocess.PIPE, text=True,
                          check=True)
    rows, providers = {}, collections.defaultdict(list)
    for line in said.stdout.splitlines():
        status, name, full, version, needs, provides = line.split("\t")
        # Of two architectures the machine's own is listed without one, or first.
        if status == "installed" and name not in rows:
            rows[name] = (full, version, names(needs))
            for group in names(provides):
                providers[group[0]].append(name)

    wanted, seen = sys.stdin.read().split(), set()
    while wanted:
        name = wanted.pop()
        if name in seen or name not in rows:
            continue
        seen.add(name)
        for group in rows[name][2]:
            met = next(([one] if one in rows else providers[one] for one in group
                        if one in rows or providers[one]), [])
            wanted += met
    for name in sorted(seen):
        print(*rows[name][:2])


if __name__ == "__main__":
    main()
