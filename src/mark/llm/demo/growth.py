by_region = sales.pivot_table(index="region", columns="year", values="revenue", aggfunc="sum")
first, last = by_region.columns.min(), by_region.columns.max()
by_region["growth"] = by_region[last] / by_region[first] - 1
by_region = by_region.sort_values("growth", ascending=False)
by_region.columns = [str(name) for name in by_region.columns]
totals = sales.groupby("year")["revenue"].sum()

mark.value("first_year", first, format="d")
mark.value("last_year", last, format="d")
mark.value("fastest", by_region.index[0])
mark.value("fastest_growth", by_region["growth"].iloc[0], format=".1%")
mark.value("fastest_before", by_region[str(first)].iloc[0], unit="EUR", format=",.0f")
mark.value("fastest_after", by_region[str(last)].iloc[0], unit="EUR", format=",.0f")
mark.value("slowest", by_region.index[-1])
mark.value("slowest_growth", by_region["growth"].iloc[-1], format="+.1%")
mark.value("all_growth", totals[last] / totals[first] - 1, format="+.1%")
mark.value("without_region", sales["region"].isna().sum())
mark.table("Revenue by region and year, EUR", by_region.round(3).reset_index())

# ---- plotly
import plotly.express as px

long = by_region.drop(columns="growth").reset_index().melt(
    id_vars="region", var_name="year", value_name="revenue")
mark.chart(px.bar(long, x="region", y="revenue", color="year", barmode="group",
                  title="Revenue by region, EUR"))
# ---- matplotlib
axes = by_region.drop(columns="growth").plot.bar(rot=0, title="Revenue by region, EUR")
mark.chart(axes.figure)
