priced = sales.dropna(subset=["revenue"])
by_year = priced.groupby("year")["revenue"].agg(["mean", "median", "count"])
first, last = by_year.index.min(), by_year.index.max()
large = priced["revenue"] >= priced["revenue"].quantile(0.9)

mark.value("mean", priced["revenue"].mean(), unit="EUR", format=",.2f")
mark.value("median", priced["revenue"].median(), unit="EUR", format=",.2f")
mark.value("first_year", first, format="d")
mark.value("last_year", last, format="d")
mark.value("mean_first", by_year.loc[first, "mean"], unit="EUR", format=",.2f")
mark.value("mean_last", by_year.loc[last, "mean"], unit="EUR", format=",.2f")
mark.value("large_from", priced.loc[large, "revenue"].min(), unit="EUR", format=",.2f")
mark.value("large_part", large.mean(), format=".0%")
mark.value("large_share", priced.loc[large, "revenue"].sum() / priced["revenue"].sum(), format=".0%")
mark.value("without_price", len(sales) - len(priced))
mark.table("Order value by year, EUR", by_year.round(2).reset_index())

# ---- plotly
import plotly.express as px

mark.chart(px.histogram(priced, x="revenue", nbins=40, title="Order value, EUR"))
# ---- matplotlib
axes = priced["revenue"].plot.hist(bins=40, title="Order value, EUR")
mark.chart(axes.figure)
