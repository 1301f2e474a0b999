for column in ("revenue", "profit"):
    by_supplier[column] = by_supplier[column].astype(float)
by_supplier["margin"] = by_supplier["profit"] / by_supplier["revenue"]
best, last = by_supplier.iloc[0], by_supplier.iloc[-1]

mark.value("supplier", best["supplier"])
mark.value("profit", best["profit"], unit="EUR", format=",.0f")
mark.value("revenue", best["revenue"], unit="EUR", format=",.0f")
mark.value("margin", best["margin"], format=".1%")
mark.value("share", best["profit"] / by_supplier["profit"].sum(), format=".0%")
mark.value("last", last["supplier"])
mark.value("last_profit", last["profit"], unit="EUR", format=",.0f")
mark.value("orders", int(by_supplier["orders"].sum()))
mark.table("Profit by supplier, EUR", by_supplier.round(3))

# ---- plotly
import plotly.express as px

mark.chart(px.bar(by_supplier, x="supplier", y="profit", title="Profit by supplier, EUR"))
# ---- matplotlib
axes = by_supplier.plot.bar(x="supplier", y="profit", rot=0, legend=False, title="Profit by supplier, EUR")
mark.chart(axes.figure)
