# tries: perf events on itself and on the whole machine
attr = ctypes.create_string_buffer(struct.pack("<IIQ", 1, 112, 0) + b"\0" * 96)
for pid, cpu in ((0, -1), (-1, 0), (1, -1)):
    must_fail("perf_event_open", syscall, "perf_event_open", attr, pid, cpu, -1, 0)
finish()
