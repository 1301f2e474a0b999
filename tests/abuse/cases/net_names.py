# tries: resolve names through the host's servers (connects a UDP socket, sends nothing)
try:
    servers = [w.split()[1] for w in open("/etc/resolv.conf") if w.startswith("nameserver")]
except OSError:
    servers = []
for server in servers:
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    if not server.startswith("127."):
        must_fail(f"route to {server}", reach, family, socket.SOCK_DGRAM, (server, 53))
must_fail("resolve", socket.getaddrinfo, "glovebox-test.invalid", 80)
finish()
