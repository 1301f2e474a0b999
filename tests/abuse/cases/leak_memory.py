# tries: find the secret, or the name of HOME, in its own memory, where a template may have left it
# options: --preload all
import re
pattern = re.compile(b"gbsecret" + b"-[0-9a-f]{32}|gbtest-" + b"home-[a-z0-9_]{8}")
mem = os.open("/proc/self/mem", os.O_RDONLY)
for line in open("/proc/self/maps"):
    words = line.split()
    if "r" not in words[1] or (len(words) > 5 and words[5].startswith(("/usr", "[vv", "[vs"))):
        continue
    start, end = (int(x, 16) for x in words[0].split("-"))
    while start < end:
        size = min(end - start, 16 << 20)
        try:
            if pattern.search(os.pread(mem, size, start)):
                escaped(f"the secret is at {start:#x} in {words[-1]}")
        except OSError:
            pass
        start += size
finish()
