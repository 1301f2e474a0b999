#!/usr/bin/env python3
"""Uploads a CSV file and has a column of it summed in a box.

    PYTHONPATH=clients/python examples/sum_column.py [FILE COLUMN]

Needs a service: the one that GLOVEBOX_URL names, or the binary that GLOVEBOX names.
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
        # repr() makes a literal of it: never paste a name into code as it is.
        session.run(f"column = {column!r}", check=True)
        try:
            result = session.run(CODE, check=True)
        except glovebox.ExecutionError as error:
            sys.exit(f"it did not work: {error}")
        print(f"sum of {column}: {result.text}")
        print(f"rows: {session.run('len(frame)').text}")


if __name__ == "__main__":
    main()
