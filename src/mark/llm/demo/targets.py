for column in ("target", "revenue"):
    by_region[column] = by_region[column].astype(float)
by_region["gap"] = by_region["revenue"] - by_region["target"]
by_region["part"] = by_region["revenue"] / by_region["target"]
by_region = by_region.sort_values("part", ascending=False, ignore_index=True)
first, last = by_region.iloc[0], by_region.iloc[-1]

mark.value("regions", len(by_region))
mark.value("reached", int((by_region["gap"] >= 0).sum()))
mark.value("first", first["region"])
mark.value("first_revenue", first["revenue"], unit="EUR", format=",.0f")
mark.value("first_part", first["part"], format=".1%")
mark.value("last", last["region"])
mark.value("last_gap", abs(last["gap"]), unit="EUR", format=",.0f")
mark.value("last_part", last["part"], format=".1%")
mark.value("last_manager", last["manager"])
mark.table("Revenue and target of the regions, EUR",
           by_region[["region", "manager", "target", "revenue", "gap", "part"]].round(3))

# ---- plotly
import plotly.express as px

long = by_region.melt(id_vars="region", value_vars=["target", "revenue"], var_name="what", value_name="EUR")
mark.chart(px.bar(long, x="region", y="EUR", color="what", barmode="group", title="Revenue and target, EUR"))
# ---- matplotlib
axes = by_region.plot.bar(x="region", y=["target", "revenue"], rot=0, title="Revenue and target, EUR")
mark.chart(axes.figure)
