# tries: become root in a user namespace inside the box, with the tools of the box
import subprocess
for command in (["unshare", "-Ur", "id", "-u"], ["unshare", "-Urmpf", "id", "-u"],
                ["unshare", "-rn", "id", "-u"], ["bwrap", "--dev-bind", "/", "/", "id", "-u"],
                ["newuidmap", "1", "0", "0", "1"], ["nsenter", "-t", "1", "-a", "id", "-u"]):
    try:
        done = subprocess.run(command, capture_output=True, timeout=10)
    except OSError:
        continue
    if done.returncode == 0:
        escaped(f"{command}: {done.stdout}")
must_fail("setgroups", os.setgroups, [0])
finish()
