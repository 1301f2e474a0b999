# tries: find a secret of the host's environment in every environment it can read
import glob
PATTERN = b"gbsecret" + b"-"
if any("gbsecret" in v or "SECRET_TOKEN" in k for k, v in os.environ.items()):
    escaped("in os.environ")
for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/task/*/environ"):
    try:
        if PATTERN in open(path, "rb").read():
            escaped(f"in {path}")
    except OSError:
        pass
for name in os.environ:
    if name.startswith(("GLOVEBOX", "GB_", "SSH_", "SUDO_", "DBUS_", "AWS_")):
        escaped(f"host variable {name}")
finish()
