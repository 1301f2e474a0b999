# tries: find a capability in any set, here or in a program it starts; or set one
import subprocess
for text in (open("/proc/self/status").read(),
             subprocess.check_output(["cat", "/proc/self/status"], text=True)):
    state = dict(line.split(":", 1) for line in text.splitlines())
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        if int(state[name], 16):
            escaped(f"{name} is {state[name].strip()}")
header = struct.pack("<Ii", 0x20080522, 0)
must_fail("capset", syscall, "capset", header, struct.pack("<6I", *[0xFFFFFFFF] * 6))
for number in (0, 7, 12, 21):
    must_fail("ambient", lambda: raw(NR["prctl"], 47, 2, number, 0, 0))
finish()
