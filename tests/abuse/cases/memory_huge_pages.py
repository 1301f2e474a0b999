# tries: take huge pages from the host's pool
import mmap
for flag in (0x40000, 0x40000 | (21 << 26), 0x40000 | (30 << 26)):
    try:
        m = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flag)
        m[0] = 1
        escaped("took a huge page")
    except (OSError, ValueError):
        pass
finish()
