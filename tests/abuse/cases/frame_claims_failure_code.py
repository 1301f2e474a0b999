# tries: claim an exit code that is not its own, an error that never was, then end well
# exit: 0
forge(packet(2, field(6, b"124") + field(7, b"TimeoutError") + field(8, b"x") + field(9, b"y")))
finish()
sys.stdout.flush()
os._exit(0)
