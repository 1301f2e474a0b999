chosen = @CHOSEN@
by_month = chosen.groupby(chosen["date"].dt.strftime("%Y-%m"))["revenue"].sum()
by_month = by_month.rename_axis("month").reset_index()
best = by_month.loc[by_month["revenue"].idxmax()]
worst = by_month.loc[by_month["revenue"].idxmin()]

mark.value("scope", @SCOPE@)
mark.value("total", by_month["revenue"].sum(), unit="EUR", format=",.0f")
mark.value("months", len(by_month))
mark.value("mean", by_month["revenue"].mean(), unit="EUR", format=",.0f")
mark.value("best_month", best["month"])
mark.value("best_revenue", best["revenue"], unit="EUR", format=",.0f")
mark.value("worst_month", worst["month"])
mark.value("worst_revenue", worst["revenue"], unit="EUR", format=",.0f")
mark.value("ratio", best["revenue"] / worst["revenue"], format=".1f")
mark.table("Revenue by month, EUR", by_month.round(2))

# ---- plotly
import plotly.express as px

mark.chart(px.line(by_month, x="month", y="revenue", markers=True,
                   title="Revenue by month, EUR: " + @SCOPE@))
# ---- matplotlib
axes = by_month.plot(x="month", y="revenue", marker="o", rot=45, legend=False,
                     title="Revenue by month, EUR: " + @SCOPE@)
mark.chart(axes.figure)
