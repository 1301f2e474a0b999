# tries: gain ids from every setuid or setgid program in the box
import stat, subprocess
for top in ("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec"):
    for directory, _, names in os.walk(top):
        for name in names:
            path = os.path.join(directory, name)
            info = os.lstat(path)
            if not (stat.S_ISREG(info.st_mode) and info.st_mode & 0o6000):
                continue
            try:
                p = subprocess.Popen([path], stdin=-3, stdout=-3, stderr=-3)
            except OSError:
                continue
            try:
                ids = [line.split()[1:] for line in open(f"/proc/{p.pid}/status")
                       if line.startswith(("Uid", "Gid"))]
                if any(i != "1000" for row in ids for i in row):
                    escaped(f"{path} runs as {ids}")
            except OSError:
                pass
            p.kill()
            p.wait()
for command in (["su", "-c", "id"], ["mount", "-t", "tmpfs", "x", "/tmp"], ["sudo", "-n", "id"]):
    try:
        done = subprocess.run(command, stdin=-3, capture_output=True, timeout=10)
        if done.returncode == 0:
            escaped(f"{command}: {done.stdout}")
    except OSError:
        pass
finish()
