"""A first program: looks around in the box, works a little, saves a file."""
import os
import socket

import numpy as np
import pandas as pd

print(f"Hello from process {os.getpid()}, user {os.getuid()}, on host {socket.gethostname()!r}.")
print("I can see", ", ".join(sorted(os.listdir("/"))), "and in here", os.listdir(".") or "nothing.")
try:
    socket.create_connection(("192.0.2.1", 80), timeout=2)
except OSError as refused:
    print("The network?", refused)

days = pd.DataFrame({"day": range(1, 8), "visits": np.random.default_rng().poisson(100, 7)})
print(days.describe().loc[["mean", "min", "max"], "visits"].to_string())
days.to_csv("visits.csv", index=False)
print("Saved visits.csv,", os.path.getsize("visits.csv"), "bytes; gone with the box.")
