# tries: list the directories of the host that people keep things in
OURS = (("/home", ["user"]), ("/mnt", ["data"]), ("/opt", ["bin", "locales"]))
for link in ("/home/user", "/mnt/data"):
    if os.path.realpath(link) != "/workspace":
        escaped(f"{link} is {os.path.realpath(link)}")
if os.listdir("/opt/bin") != ["python"]:
    escaped(f"/opt/bin holds {os.listdir('/opt/bin')}")
for path in ("/root", "/home", "/mnt", "/media", "/srv", "/opt", "/var/lib", "/var/log", "/boot",
             "/run", "/work", "/data", "/lost+found", "/var/spool"):
    try:
        names = sorted(os.listdir(path))
    except OSError:
        continue
    if names and (path, names) not in OURS:
        escaped(f"{path} holds {names[:5]}")
finish()
