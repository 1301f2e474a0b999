# tries: use memory as page tables: one page here and there in a huge mapping
# options: --memory 128m
# ends: oom
import mmap
maps, used = [], 0
while used < 1 << 30:
    try:
        m = mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
    except OSError:
        break
    try:
        m.madvise(15)  # no huge pages
    except OSError:
        pass
    for k in range(0, 64 << 30, 2 << 20):
        m[k]  # a read: the shared zero page, but a page table of its own
        used += 4096
        if used >= 1 << 30:
            break
    maps.append(m)
rss = [l for l in open("/proc/self/status") if l.startswith("VmPTE")]
if used >= 1 << 30:
    held(f"1 GiB of page tables: {rss}")
finish()
