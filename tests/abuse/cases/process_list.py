# tries: see processes of the host
# args: {host_mark}
for pid in [p for p in os.listdir("/proc") if p.isdigit()]:
    try:
        line = open(f"/proc/{pid}/cmdline", "rb").read()
        name = open(f"/proc/{pid}/comm").read().strip()
    except OSError:
        continue
    if int(pid) != os.getpid() and sys.argv[1].encode() in line:
        escaped(f"sees {pid} {name}")
    if int(pid) > 50:
        escaped(f"a high pid, {pid} {name}: is this a namespace of its own?")
if len([p for p in os.listdir("/proc") if p.isdigit()]) > 5:
    escaped("sees many processes")
finish()
