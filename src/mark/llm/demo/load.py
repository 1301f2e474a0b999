import mark
import pandas as pd

sales = pd.read_csv(mark.attachment(@FILE@), parse_dates=["date"])
rows_in_file = len(sales)
sales = sales.drop_duplicates(ignore_index=True)
sales["revenue"] = sales["units"] * sales["price"] * (1 - sales["discount"].fillna(0))
sales["year"] = sales["date"].dt.year

print(rows_in_file - len(sales), "repeated rows dropped; missing values:")
print(sales.isna().sum())
sales.head()
