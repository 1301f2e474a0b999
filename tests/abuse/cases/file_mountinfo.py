# tries: learn paths of the host from the mount table and the control groups
# args: {project} {private} {user_home}
import re
for name in ("mountinfo", "mounts", "mountstats", "cgroup", "status", "stat"):
    for pid in ("self", "1"):
        try:
            text = open(f"/proc/{pid}/{name}").read()
        except OSError:
            continue
        # Of locales that are not in /usr it shows where the binary was built; that is accepted.
        text = "".join(line for line in text.splitlines(True) if " /opt/locales " not in line)
        words = re.split(r"[\s,:=]+", text)
        for secret in sys.argv[1:]:
            if any(w == secret or w.startswith(secret + "/") for w in words):
                escaped(f"/proc/{pid}/{name} shows {secret}")
for line in open("/proc/self/mountinfo"):
    words = line.split()
    if "upperdir=" in line or "lowerdir=" in line or "/docker/" in line:
        escaped("mountinfo shows layers of the host: " + line)
    if words[4] in ("/workspace", "/tmp", "/dev/shm") and words[3] != "/":
        escaped(f"{words[4]} is {words[3]} of something larger")
for line in open("/proc/self/cgroup"):
    path = line.rstrip("\n").split(":", 2)[2]
    if path not in ("/", "/.."):
        escaped("cgroup shows " + line.strip())
finish()
