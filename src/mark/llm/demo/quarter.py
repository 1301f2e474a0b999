chosen = @CHOSEN@
by_quarter = chosen.groupby(chosen["date"].dt.to_period("Q").astype(str))["revenue"].sum()
by_quarter = by_quarter.rename_axis("quarter").reset_index()
by_quarter["change"] = by_quarter["revenue"].pct_change()
best = by_quarter.loc[by_quarter["revenue"].idxmax()]
jump = by_quarter.loc[by_quarter["change"].idxmax()]

mark.value("scope", @SCOPE@)
mark.value("quarters", len(by_quarter))
mark.value("best_quarter", best["quarter"])
mark.value("best_revenue", best["revenue"], unit="EUR", format=",.0f")
mark.value("jump_quarter", jump["quarter"])
mark.value("jump", jump["change"], format="+.1%")
mark.value("last_change", by_quarter["change"].iloc[-1], format="+.1%")
mark.table("Revenue by quarter, EUR", by_quarter.round(3))

# ---- plotly
import plotly.express as px

mark.chart(px.bar(by_quarter, x="quarter", y="revenue",
                  title="Revenue by quarter, EUR: " + @SCOPE@))
# ---- matplotlib
axes = by_quarter.plot.bar(x="quarter", y="revenue", rot=45, legend=False,
                           title="Revenue by quarter, EUR: " + @SCOPE@)
mark.chart(axes.figure)
