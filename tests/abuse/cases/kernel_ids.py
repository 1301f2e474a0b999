# tries: become somebody else
for call, args in ((os.setuid, (0,)), (os.setgid, (0,)), (os.seteuid, (0,)), (os.setegid, (0,)),
                   (os.setresuid, (0, 0, 0)), (os.setresgid, (0, 0, 0)), (os.setgroups, ([0],)),
                   (os.setgroups, ([],)), (os.setreuid, (0, 1000)), (os.setuid, (1,)),
                   (os.setuid, (65534,))):
    must_fail(f"{call.__name__}{args}", call, *args)
finish()
