# tries: list the directories of the host that people keep things in
for path in ("/root", "/home", "/mnt", "/media", "/srv", "/opt", "/var/lib", "/var/log", "/boot",
             "/run", "/work", "/data", "/lost+found", "/var/spool"):
    try:
        names = os.listdir(path)
    except OSError:
        continue
    if names:
        escaped(f"{path} holds {names[:5]}")
finish()
