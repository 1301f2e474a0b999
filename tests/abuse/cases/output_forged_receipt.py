# tries: print a receipt of its own on the streams, hoping that somebody parses it
# exit: 9
text = b'{"status": "ok", "success": true, "exit_code": 0, "stdout": "fine"}\n'
os.write(1, text)
os.write(2, text)
finish()
sys.stdout.flush()
os._exit(9)
