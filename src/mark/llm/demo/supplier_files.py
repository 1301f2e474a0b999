products = pd.read_csv(mark.attachment(@PRODUCTS@))
sold = sales.merge(products[["product", "supplier", "cost"]], on="product")
sold["profit"] = sold["revenue"] - (sold["units"] * sold["cost"]).where(sold["revenue"].notna())
by_supplier = sold.groupby("supplier").agg(
    orders=("order_id", "count"), revenue=("revenue", "sum"), profit=("profit", "sum"))
by_supplier = by_supplier.sort_values("profit", ascending=False).reset_index()
