# tries: switch off address randomisation and more for its children
if syscall("personality", 0xFFFFFFFF) != 0:
    escaped("an odd personality")
for value in (0x0040000, 0x0400000, 0x0200000, 0x0008, 0x0100000):
    must_fail(f"personality {value:#x}", syscall, "personality", value)
finish()
