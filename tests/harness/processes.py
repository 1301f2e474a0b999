"""The processes of the suites: each in its own process group, so that all of it can be killed."""

import contextlib
import os
import signal
import subprocess
import threading

SUITE_SECONDS = 5400  # a suite that hangs is a failure, not a reason to wait forever

RUNNING = []
STOPPED = threading.Event()  # no more are started


def run(command, **kwargs):
    """Runs it and returns its exit code; None if it took too long or everything was stopped."""
    if STOPPED.is_set():
        return None
    process = subprocess.Popen(command, start_new_session=True, **kwargs)
    RUNNING.append(process)
    try:
        return process.wait(timeout=SUITE_SECONDS)
    except BaseException as reason:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(reason, subprocess.TimeoutExpired):
            return None
        raise
    finally:
        RUNNING.remove(process)


def stop_running():
    """Kills running processes. Workers wait for them in threads, which no signal reaches."""
    STOPPED.set()
    for process in list(RUNNING):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
