# tries: find the seal open: no_new_privs, the filter, the ids, here and in children
import subprocess
for text in (open("/proc/self/status").read(),
             subprocess.check_output(["cat", "/proc/self/status"], text=True)):
    state = dict(line.split(":", 1) for line in text.splitlines())
    if state["NoNewPrivs"].strip() != "1":
        escaped("no_new_privs is off")
    if state["Seccomp"].strip() != "2":
        escaped("no seccomp filter")
    if int(state.get("Seccomp_filters", "2")) < 2:
        escaped("only one filter")
    if set(state["Uid"].split() + state["Gid"].split()) != {"1000"}:
        escaped(f"ids {state['Uid']} {state['Gid']}")
    if "0" in state["Groups"].split():
        escaped("in group 0")
must_fail("clear no_new_privs", lambda: raw(NR["prctl"], 38, 0, 0, 0, 0))
finish()
