# tries: find or make an interface, an address or a route
import fcntl
if [name for _, name in socket.if_nameindex()] != ["lo"]:
    escaped(f"interfaces {socket.if_nameindex()}")
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
request = struct.pack("16sH22s", b"lo", 0, b"")
must_fail("take lo down", fcntl.ioctl, s, 0x8914, request)
address = struct.pack("16sHH4s16s", b"lo", 2, 0, b"\n\0\0\1", b"")
must_fail("set an address", fcntl.ioctl, s, 0x8916, address)
n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
kind = struct.pack("<HH", 10, 1) + b"dummy\0\0\0"
info = struct.pack("<HH", 4 + len(kind), 18) + kind
body = struct.pack("<BxHiII", 0, 0, 0, 0, 0) + info
n.send(struct.pack("<IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)  # RTM_NEWLINK, a dummy
n.settimeout(5)
answer = n.recv(4096)
if struct.unpack_from("<i", answer, 16)[0] == 0:
    escaped("made an interface")
finish()
