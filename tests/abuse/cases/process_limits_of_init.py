# tries: read and set limits of PID 1, and raise its own
import resource
must_fail("prlimit get", resource.prlimit, 1, resource.RLIMIT_NOFILE)
must_fail("prlimit set", resource.prlimit, 1, resource.RLIMIT_NOFILE, (1, 1))
for number in range(16):
    must_fail(f"prlimit {number}", resource.prlimit, 1, number, (0, 0))
own = resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE)
if own != resource.getrlimit(resource.RLIMIT_NOFILE):
    escaped(f"sees limits of another process: {own}")
for name in [n for n in dir(resource) if n.startswith("RLIMIT_")]:
    number = getattr(resource, name)
    soft, hard = resource.getrlimit(number)
    if hard != resource.RLIM_INFINITY:
        try:
            resource.setrlimit(number, (hard + 1, hard + 1))
            escaped(f"raised {name} above {hard}")
        except (OSError, ValueError):
            pass
finish()
