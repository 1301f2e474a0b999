known = sales.dropna(subset=["discount", "price"])
by_discount = known.groupby("discount", as_index=False).agg(
    orders=("order_id", "count"), units=("units", "mean"), revenue=("revenue", "mean"))
given = (known["units"] * known["price"]).sum() - known["revenue"].sum()
full, reduced = known[known["discount"] == 0], known[known["discount"] > 0]

mark.value("given", given, unit="EUR", format=",.0f")
mark.value("given_share", given / (given + known["revenue"].sum()), format=".1%")
mark.value("reduced_share", len(reduced) / len(known), format=".0%")
mark.value("units_full", full["units"].mean(), format=".2f")
mark.value("units_reduced", reduced["units"].mean(), format=".2f")
mark.value("unknown", sales["discount"].isna().sum())
mark.table("Orders by discount", by_discount.round(2))

# ---- plotly
import plotly.express as px

figure = px.bar(by_discount, x="discount", y="units", title="Units per order by discount")
figure.update_xaxes(tickformat=".0%")
mark.chart(figure)
# ---- matplotlib
axes = by_discount.plot.bar(x="discount", y="units", rot=0, legend=False,
                            title="Units per order by discount")
mark.chart(axes.figure)
