# tries: take more than its share by priority, real-time classes and I/O class
for call in (lambda: os.setpriority(os.PRIO_PROCESS, 0, -20), lambda: os.nice(-5),
             lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
             lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)),
             lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)),
             lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
             lambda: syscall("ioprio_set", 1, 0, 1 << 13)):
    must_fail("priority", call)
finish()
