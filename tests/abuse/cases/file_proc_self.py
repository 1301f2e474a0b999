# tries: change its own limits and identity through writable files in /proc/self
for name, data in (("oom_score_adj", b"-1000"), ("oom_adj", b"-17"), ("uid_map", b"0 0 1"),
                   ("gid_map", b"0 0 1"), ("setgroups", b"allow"), ("projid_map", b"0 0 1"),
                   ("loginuid", b"0"), ("attr/current", b"x"), ("attr/exec", b"x"),
                   ("clear_refs", b"1"), ("make-it-fail", b"1"), ("timens_offsets", b"0 1 1")):
    must_fail(f"write {name}", lambda: os.write(os.open(f"/proc/self/{name}", os.O_WRONLY), data))
finish()
