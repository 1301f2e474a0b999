# tries: claim on the control socket that all went well, then fail
# exit: 9
forge(packet(2, field(6, b"0")))
finish()
sys.stdout.flush()
os._exit(9)
