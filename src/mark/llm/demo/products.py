by_product = sales.groupby("product", as_index=False).agg(
    revenue=("revenue", "sum"), units=("units", "sum"), orders=("order_id", "count"))
by_product["share"] = by_product["revenue"] / by_product["revenue"].sum()
by_product = by_product.sort_values("@MEASURE@", ascending=False, ignore_index=True)
most_units = by_product.loc[by_product["units"].idxmax()]
top = by_product.head(3)

mark.value("measure", "@MEASURE@")
mark.value("first", top["product"].iloc[0])
mark.value("second", top["product"].iloc[1])
mark.value("third", top["product"].iloc[2])
mark.value("first_revenue", top["revenue"].iloc[0], unit="EUR", format=",.0f")
mark.value("first_units", top["units"].iloc[0])
mark.value("top_share", top["share"].sum(), format=".1%")
mark.value("most_units_product", most_units["product"])
mark.value("most_units", most_units["units"])
mark.value("most_units_share", most_units["share"], format=".1%")
mark.table("Products by @MEASURE@", by_product.round(3))

# ---- plotly
import plotly.express as px

mark.chart(px.bar(by_product, x="product", y="@MEASURE@", title="Products by @MEASURE@"))
# ---- matplotlib
axes = by_product.plot.bar(x="product", y="@MEASURE@", rot=45, legend=False,
                           title="Products by @MEASURE@")
mark.chart(axes.figure)
