# tries: learn who the host is
# args: {hostname}
# options: --preload all
seen = {platform.node(), socket.gethostname(), os.uname().nodename}
seen.add(open("/proc/sys/kernel/hostname").read().strip())
if seen != {"glovebox"}:
    escaped(f"host name {seen}")
for path in ("/etc/hostname", "/etc/hosts", "/etc/passwd", "/etc/group", "/etc/resolv.conf"):
    try:
        text = open(path).read()
    except OSError:
        continue
    if len(sys.argv[1]) > 3 and sys.argv[1] in text.split():
        escaped(f"{path} has the host's name")
users = {line.split(":")[0] for line in open("/etc/passwd")}
if len(users) > 4:
    escaped(f"users of the host: {sorted(users)}")
try:
    escaped("host id " + open("/etc/machine-id").read())
except OSError:
    pass
finish()
