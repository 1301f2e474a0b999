# tries: see sockets of the host in /proc/net
# args: {port} {abstract}
for name in ("tcp", "tcp6", "udp", "unix", "raw", "packet", "netlink", "arp", "route"):
    try:
        text = open(f"/proc/net/{name}").read()
    except OSError:
        continue
    if f":{int(sys.argv[1]):04X} " in text or sys.argv[2] in text:
        escaped(f"/proc/net/{name} shows the host's socket")
    if name in ("tcp", "udp", "arp", "route", "raw") and len(text.splitlines()) > 1:
        escaped(f"/proc/net/{name}: {text[:300]}")
finish()
