# tries: die of a broken stack, and leave a core file somewhere
# ends: killed
import resource
try:
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except (OSError, ValueError):
    pass
ctypes.string_at(8)
escaped("read address 8")
