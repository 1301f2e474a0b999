#!/usr/bin/env python3
"""Uploads a CSV file and sums one of its columns in a box.

    PYTHONPATH=clients/python examples/sum_column.py [FILE COLUMN]

Uses the server at GLOVEBOX_URL. If that is not set, it starts one from the binary in GLOVEBOX, or
from `glovebox` on the PATH.
"""

import os
import sys
import tempfile

import glovebox

SALES = "city,visits\nOslo,3\nRome,5\nLima,34\n"

CODE = """
import pandas as pd

frame = pd.read_csv("data.csv")
frame[column].sum()
"""


def main():
    client = glovebox.local.connect()
    with client.session() as session, tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) == 3:
            path, column = sys.argv[1:]
        else:
            path, column = os.path.join(folder, "sales.csv"), "visits"
            with open(path, "w", encoding="utf-8") as f:
                f.write(SALES)
        session.upload(path, "data.csv")
        # repr() creates a literal: never insert a string into code unquoted.
        session.run(f"column = {column!r}", check=True)
        try:
            result = session.run(CODE, check=True)
        except glovebox.ExecutionError as error:
            sys.exit(f"failed: {error}")
        print(f"sum of {column}: {result.text}")
        print(f"rows: {session.run('len(frame)').text}")


if __name__ == "__main__":
    main()
