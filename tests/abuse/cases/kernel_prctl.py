# tries: prctl options that undo the seal
SECUREBITS, CAPBSET_DROP, MM, NO_NEW_PRIVS, SECCOMP = 28, 24, 35, 38, 22
for option, args in ((SECUREBITS, (1,)), (CAPBSET_DROP, (0,)), (MM, (8, 4096)),
                     (NO_NEW_PRIVS, (0,)), (SECCOMP, (2, 0)), (SECCOMP, (7, 0))):
    must_fail(f"prctl {option}", raw, NR["prctl"], option, *args, *[0] * (4 - len(args)))
finish()
