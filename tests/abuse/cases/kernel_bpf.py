# tries: bpf: maps, programs
attr = ctypes.create_string_buffer(128)
for command in range(0, 37):
    must_fail(f"bpf {command}", syscall, "bpf", command, attr, 128)
struct.pack_into("<IIII", attr, 0, 2, 4, 4, 1)
must_fail("array map", syscall, "bpf", 0, attr, 128)
finish()
