# tries: the x32 numbers of system calls, by machine code
# arch: x86_64
import mmap
def call(number):
    code = b"\xb8" + struct.pack("<I", number) + b"\x31\xff\x31\xf6\x31\xd2\x0f\x05\xc3"
    m = mmap.mmap(-1, 4096, prot=7)
    m.write(code)
    f = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
    got = f()
    print(got, flush=True)
for number in (39, 102, 272, 308, 101, 165, 512, 521, 545):
    code, sig, text = in_child(call, 0x40000000 | number)
    if code == 0 and int(text) not in (-errno.ENOSYS, -errno.EPERM):
        escaped(f"x32 call {number}: {text}")
finish()
