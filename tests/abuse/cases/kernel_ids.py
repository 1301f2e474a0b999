# tries: become somebody else
for call, args in ((os.setuid, (0,)), (os.setgid, (0,)), (os.seteuid, (0,)), (os.setegid, (0,)),
                   (os.setresuid, (0, 0, 0)), (os.setresgid, (0, 0, 0)), (os.setgroups, ([0],)),
                   (os.setgroups, ([],)), (os.setreuid, (0, 1000)), (os.setuid, (1,)),
                   (os.setuid, (65534,))):
    must_fail(f"{call.__name__}{args}", call, *args)
for call in (os.setresuid, os.setresgid):  # one that is not the program's own, in each place
    for place in range(3):
        for bad in (0, 999, 1001, 65534, 1900000000):
            args = [(-1, 1000)[place % 2]] * 3
            args[place] = bad
            must_fail(f"{call.__name__}{args}", call, *args)
for call in (os.setreuid, os.setregid):
    must_fail(f"{call.__name__}(-1, 0)", call, -1, 0)
    must_fail(f"{call.__name__}(0, -1)", call, 0, -1)
# What every user may do, and what it must not change.
os.setuid(1000), os.setgid(1000), os.seteuid(1000), os.setegid(1000)
os.setreuid(-1, 1000), os.setregid(1000, -1), os.setresuid(1000, -1, 1000), os.setresgid(-1, -1, -1)
if os.getresuid() != (1000,) * 3 or os.getresgid() != (1000,) * 3:
    escaped(f"is now {os.getresuid()} {os.getresgid()}")
status = open("/proc/self/status").read()
for line in status.splitlines():
    if line.startswith("Cap") and int(line.split()[1], 16):
        escaped("has capabilities: " + line)
finish()
