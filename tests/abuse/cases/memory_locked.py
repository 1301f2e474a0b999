# tries: lock memory beyond the limit
# options: --memory 128m
# ends: oom
import mmap
m = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.addressof(ctypes.c_char.from_buffer(m))
if libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(1 << 30)) == 0:
    held("locked 1 GiB")
finish()
