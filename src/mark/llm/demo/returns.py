sales["is_returned"] = sales["returned"] == "yes"
by_product = sales.groupby("product", as_index=False).agg(
    orders=("order_id", "count"), returned=("is_returned", "sum"), rate=("is_returned", "mean"))
by_product = by_product.sort_values("rate", ascending=False, ignore_index=True)
worst = by_product.iloc[0]
of_worst = sales[sales["product"] == worst["product"]]
by_region = of_worst.groupby("region")["is_returned"].mean().sort_values(ascending=False)

mark.value("returned", sales["is_returned"].sum())
mark.value("rate", sales["is_returned"].mean(), format=".1%")
mark.value("worst", worst["product"])
mark.value("worst_rate", worst["rate"], format=".1%")
mark.value("worst_share", worst["returned"] / sales["is_returned"].sum(), format=".0%")
mark.value("worst_region", by_region.index[0])
mark.value("worst_region_rate", by_region.iloc[0], format=".1%")
mark.value("lost", sales.loc[sales["is_returned"], "revenue"].sum(), unit="EUR", format=",.0f")
mark.table("Returns by product", by_product.round(3))

# ---- plotly
import plotly.express as px

figure = px.bar(by_product, x="product", y="rate", title="Share of orders that were returned")
figure.update_yaxes(tickformat=".0%")
mark.chart(figure)
# ---- matplotlib
axes = by_product.plot.bar(x="product", y="rate", rot=45, legend=False,
                           title="Share of orders that were returned")
mark.chart(axes.figure)
