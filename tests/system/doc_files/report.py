import sys
import pandas as pd

frame = pd.read_csv(sys.argv[1])
print(frame["visits"].mean())
frame.describe().to_csv("summary.csv")
