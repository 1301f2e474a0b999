# tries: break the receipt with error texts that are not text
# exit: 1
forge(packet(2, field(6, b"1") + field(7, b"\xff\x00\"\\") + field(8, b"\xe2\x98" * 9000)
             + field(9, bytes(range(256)) * 100)))
finish()
sys.stdout.flush()
os._exit(1)
