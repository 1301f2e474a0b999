mark.value("rows", len(sales))
mark.value("repeated", rows_in_file - len(sales))
mark.value("first_day", sales["date"].min().date())
mark.value("last_day", sales["date"].max().date())
mark.value("products", sales["product"].nunique())
mark.value("regions", sales["region"].nunique())
mark.value("revenue", sales["revenue"].sum(), unit="EUR", format=",.0f")
for column in ("region", "price", "discount"):
    mark.value("missing_" + column, sales[column].isna().sum())

columns = pd.DataFrame({
    "column": sales.columns,
    "type": [str(kind) for kind in sales.dtypes],
    "missing": sales.isna().sum().values,
    "different values": sales.nunique().values,
})
mark.table("Columns", columns)
mark.table("First orders", sales.head(10))
by_category = sales.groupby("category", as_index=False)["revenue"].sum().sort_values("revenue")

# ---- plotly
import plotly.express as px

mark.chart(px.bar(by_category, x="revenue", y="category", title="Revenue by category, EUR"))
# ---- matplotlib
import matplotlib.pyplot as plt

figure, axes = plt.subplots()
axes.barh(by_category["category"], by_category["revenue"])
axes.set_title("Revenue by category, EUR")
mark.chart(figure)
