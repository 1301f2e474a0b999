"""
Where secrets of data sources could be found: by a program in its box, and by whoever looks into the
processes of boxes and into what a service wrote.
"""

import pathlib

MASK = 0x5A


def box_scan(query, secrets):
    """A program that makes @query and looks for @secrets wherever a program in the box can, its own memory
    included: so it has them only masked, and compares masked. Its output, if all is well: FOUND_NONE."""
    masked = [bytes(b ^ MASK for b in secret.encode()).hex() for secret in secrets]
    return f'''
import numpy, os
masks = [bytes.fromhex(text) for text in {masked}]
decoy = b"decoy" + os.urandom(12)  # is found, or the scan does not work
seen, hits = [], []


def there(data, mask):
    data = numpy.frombuffer(data, numpy.uint8)
    at = numpy.flatnonzero(data[:max(0, len(data) - len(mask) + 1)] == (mask[0] ^ {MASK}))
    for n in range(1, len(mask)):
        at = at[data[at + n] == (mask[n] ^ {MASK})]
        if not len(at):
            return False
    return len(at) > 0


def look(name, data):
    hits.extend(name for mask in masks if there(data, mask))
    if there(data, bytes(b ^ {MASK} for b in decoy)):
        seen.append(name)


def look_at_memory(pid):
    with open("/proc/%s/maps" % pid) as maps, open("/proc/%s/mem" % pid, "rb", 0) as memory:
        for line in maps.readlines():
            low, high = (int(x, 16) for x in line.split()[0].split("-"))
            while low < high and "r" in line.split()[1]:
                size = min(high - low, 1 << 24)
                try:
                    memory.seek(low)
                    look("memory of %s" % pid, memory.read(size))
                except (OSError, ValueError, OverflowError):
                    pass
                low += size - (4096 if size == 1 << 24 else 0)


frame = {query}
for pid in [p for p in os.listdir("/proc") if p.isdigit()]:
    for name in ("environ", "cmdline"):
        try:
            look("%s of %s" % (name, pid), open("/proc/%s/%s" % (pid, name), "rb").read())
        except OSError:
            pass
    try:
        look_at_memory(pid)
    except OSError:
        pass
open("/workspace/decoy", "wb").write(decoy)
for top in ("/workspace", "/tmp", "/home", "/root", "/run", "/etc", "/dev/shm", "/var"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and os.path.getsize(path) < 1 << 24:
                    look(path, open(path, "rb").read())
            except OSError:
                pass
own = "memory of %d" % os.getpid()
print("hits", sorted(set(hits)), "seen", own in seen, "/workspace/decoy" in seen)
'''


FOUND_NONE = "hits [] seen True True\n"


def descendants(pid):
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            for child in (task / "children").read_text().split():
                found += descendants(int(child))
        except OSError:
            pass
    return found


def memory_has(pid, needles):
    """None if nobody may look."""
    longest = max(map(len, needles))
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                low, high = (int(x, 16) for x in line.split()[0].split("-"))
                if "r" not in line.split()[1] or line.rstrip().endswith(("[vvar]", "[vsyscall]")):
                    continue
                try:
                    memory.seek(low)
                    left = high - low
                    tail = b""
                    while left > 0:
                        data = memory.read(min(left, 1 << 24))
                        if not data:
                            break
                        if any(needle in tail + data for needle in needles):
                            return True
                        tail, left = data[-longest:], left - len(data)
                except (OSError, ValueError, OverflowError):
                    continue
    except OSError:
        return None
    return False


def check_boxes(server, secrets):
    """Neither memory nor environment nor command line of a process of boxes has one of @secrets."""
    needles = [secret.encode() for secret in secrets]
    boxes = [pid for pid in descendants(server.process.pid) if pid != server.process.pid]
    found = {pid: memory_has(pid, needles) for pid in boxes}
    assert False in found.values(), "no process of a box could be looked at"
    assert [pid for pid in found if found[pid]] == []
    for pid in boxes:
        for name in ("environ", "cmdline"):
            try:
                text = pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue
            assert not [needle for needle in needles if needle in text]


def check_files(tops, secrets):
    """No file beneath @tops has one of @secrets."""
    needles = [secret.encode() for secret in secrets]
    kept = [path for top in tops for path in pathlib.Path(top).rglob("*")
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 28]
    assert len(kept) > 3
    assert [str(path) for path in kept if any(needle in path.read_bytes() for needle in needles)] == []
