regions = pd.read_csv(mark.attachment(@REGIONS@))
by_region = sales[sales["year"] == 2025].groupby("region")["revenue"].sum().reset_index()
by_region = by_region.merge(regions.rename(columns={"target_2025": "target"}), on="region")
