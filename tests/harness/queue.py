"""Jobs in one queue: a free worker takes the longest remaining job that may start."""

import concurrent.futures
import threading

from .processes import stop_running


class Queue:
    """Jobs, some of which are added later: those that wait for something are announced by
    expect(), so that workers stay until they are added."""

    def __init__(self):
        self._jobs = []
        self._expected = 0
        self._stopped = False
        self._changed = threading.Condition()

    def add(self, jobs):
        with self._changed:
            self._jobs += jobs
            self._jobs.sort(key=lambda job: -job.weight)
            self._changed.notify_all()

    def expect(self):
        with self._changed:
            self._expected += 1

    def arrived(self):
        with self._changed:
            self._expected -= 1
            self._changed.notify_all()

    def stop(self):
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def take(self):
        """The next job; None when there will be no more."""
        with self._changed:
            while not self._jobs and self._expected and not self._stopped:
                self._changed.wait()
            return self._jobs.pop(0) if self._jobs and not self._stopped else None


def work(queue, tally):
    while (job := queue.take()) is not None:
        job.run(tally)


def run_all(queue, workers, tally, *others):
    """Works through the queue in @workers threads, and calls @others in separate threads. The
    first exception stops all of it and is raised here."""
    with concurrent.futures.ThreadPoolExecutor(workers + len(others)) as pool:
        running = [pool.submit(other) for other in others]
        running += [pool.submit(work, queue, tally) for _ in range(workers)]
        try:
            for done in concurrent.futures.as_completed(running):
                done.result()
        except BaseException:
            queue.stop()
            stop_running()
            raise
