import mark
import pandas as pd

path = mark.attachment(@FILE@)
readers = {
    "tsv": lambda p: pd.read_csv(p, sep="\t"), "xlsx": pd.read_excel, "xls": pd.read_excel,
    "json": pd.read_json, "jsonl": lambda p: pd.read_json(p, lines=True), "parquet": pd.read_parquet,
}
frame = readers.get(path.rsplit(".", 1)[-1].lower(), lambda p: pd.read_csv(p, sep=None, engine="python"))(path)
frame.columns = [str(name) for name in frame.columns]
numbers = frame.select_dtypes("number")

mark.value("rows", len(frame))
mark.value("columns", frame.shape[1])
mark.value("numeric", numbers.shape[1])
mark.value("repeated", frame.astype(str).duplicated().sum())
mark.value("missing", frame.isna().sum().sum())
mark.table("Columns", pd.DataFrame({
    "column": frame.columns,
    "type": [str(kind) for kind in frame.dtypes],
    "missing": frame.isna().sum().values,
    "different values": frame.astype(str).nunique().values,
}))
mark.table("First rows", frame.head(10))
if numbers.shape[1] > 0:
    mark.table("Numbers", numbers.describe().T.rename_axis("column").reset_index())
    shown, title = numbers.iloc[:, 0].dropna(), "Values of " + numbers.columns[0]
else:
    shown, title = frame.iloc[:, 0].astype(str), "Values of " + frame.columns[0]

# ---- plotly
import plotly.express as px

mark.chart(px.histogram(x=shown, title=title))
# ---- matplotlib
import matplotlib.pyplot as plt

figure, axes = plt.subplots()
axes.hist(shown)
axes.set_title(title)
mark.chart(figure)
