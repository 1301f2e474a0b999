# tries: put another program in the place of the runner
# exit: 5
finish()
sys.stdout.flush()
os.execv("/bin/sh", ["sh", "-c", "exit 5"])
