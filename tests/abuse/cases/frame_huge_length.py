# tries: announce four gigabytes
# exit: 9
for length, total in ((0xFFFFFFFF, 0xFFFFFFFF), (0, 0xFFFFFFFF), (0xFFFFFFFF, 0), (12, 1 << 25)):
    forge(packet(2, b"x" * 12, length=length, total=total, flags=1))
finish()
sys.stdout.flush()
os._exit(9)
