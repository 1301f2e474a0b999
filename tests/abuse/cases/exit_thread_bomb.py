# tries: start threads without end
# options: --pids 32
import threading
gate = threading.Event()
made = 0
try:
    while made < 5000:
        threading.Thread(target=gate.wait, daemon=True).start()
        made += 1
except RuntimeError:
    pass
if made > 32:
    escaped(f"{made} threads")
finish()
