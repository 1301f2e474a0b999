import matplotlib.pyplot as plt
import pandas as pd

plt.plot([1, 4, 9])
pd.DataFrame({"city": ["Oslo", "Rome"], "visits": [3, 5]})
