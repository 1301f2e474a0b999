import mark
import pandas as pd

sales = mark.query(@SOURCE@, '''
    SELECT o.order_id, o.date, o.region, o.product, p.category, o.units, o.price, o.discount, o.returned
    FROM @ORDERS@ AS o JOIN @PRODUCTS@ AS p ON p.product = o.product
''')
rows_in_file = len(sales)
sales["date"] = pd.to_datetime(sales["date"])
sales["units"] = sales["units"].astype(int)
for column in ("price", "discount"):
    sales[column] = sales[column].astype(float)
sales["returned"] = sales["returned"].astype(str).str.lower().isin(["true", "yes"]).map({True: "yes", False: "no"})
sales["revenue"] = sales["units"] * sales["price"] * (1 - sales["discount"].fillna(0))
sales["year"] = sales["date"].dt.year

print(len(sales), "orders that this account can see; missing values:")
print(sales.isna().sum())
