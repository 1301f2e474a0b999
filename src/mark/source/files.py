# The catalogue of a source of files. Runs in a throw-away box after profile.py and the module mark, over files
# that may be hostile, damaged or huge; the host checks what it prints. Each file gets a share of the time that is
# left, so that one that is huge does not hide the others.

CATALOGUE_FILES_MAX = 200
CATALOGUE_FILE_SECONDS = 3.0
CATALOGUE_BYTES_MAX = 700_000
CATALOGUE_TYPES = {"integer": "int", "number": "float", "boolean": "bool", "date": "date", "datetime": "timestamp",
                   "list": "json", "object": "json"}


def catalogue_columns(table, samples):
    for column in table.get("columns", []):
        found = {"name": column["name"], "type": CATALOGUE_TYPES.get(column["type"], "text"),
                 "source_type": column["type"], "nullable": bool(column.get("nulls"))}
        notes = list(column.get("notes", []))
        if column.get("min") is not None and column["type"] != "text":
            notes.insert(0, f"from {column['min']} to {column['max']}")
        if notes:
            found["comment"] = cut("; ".join(notes), 300)
        if samples:
            values = column.get("values") or column.get("examples") or []
            found["samples"] = [cut(value, 100) for value in values][:samples]
        yield found


def catalogue_table(name, sql, kind, size, table, samples, problem=None):
    comment = [f"{kind} file, {sql} in SQL"] + ([problem] if problem else []) + list(table.get("notes", []))
    found = {"name": cut(name, 290), "kind": "file", "comment": cut("; ".join(comment), 500), "rows": table.get("rows"),
             "bytes": size, "columns": list(catalogue_columns(table, samples))}
    if not table.get("rows_exact", True):
        found["comment"] += "; rows are counted in part"
    return found


def catalogue_file(root, path, kind, sql, size, samples, seconds):
    result = profile_of(f"{root}/{path}", kind, seconds)
    inner = result.get("sheets") or result.get("tables")
    if not inner:
        return [catalogue_table(path, sql, kind, size, result, samples, result.get("error"))]
    found = []
    for number, table in enumerate(inner):
        name = re.sub(r"\W+", "_", table.get("name", "").lower()).strip("_")
        own = sql if number == 0 and kind != "sqlite" else f"{sql}_{name}"
        found.append(catalogue_table(f"{path}:{table.get('name', '')}", own, kind, size, table, samples))
    return found


def catalogue_main(root, samples, seconds):
    import mark

    end = time.monotonic() + seconds
    files, more = mark._walk(root)
    views = mark._name_views(files)
    tables, unseen = [], 0
    for number, (path, kind, about) in enumerate(files):
        left = end - time.monotonic()
        if number < CATALOGUE_FILES_MAX and left > 0.2:
            share = min(CATALOGUE_FILE_SECONDS, max(left / 8, left / (min(len(files), CATALOGUE_FILES_MAX) - number)))
            tables += catalogue_file(root, path, kind, views[path], about.st_size, samples, share)
        else:
            unseen += 1
            tables.append(catalogue_table(path, views[path], kind, about.st_size, {}, 0, "it was not looked at"))
    text = json.dumps({"tables": tables, "more": more, "unseen": unseen}, allow_nan=False)
    share = 128
    while len(text) > CATALOGUE_BYTES_MAX and share:
        share //= 2
        for table in tables:
            table["columns"] = table["columns"][:share]
            for column in table["columns"]:
                column.pop("samples", None)
                column.pop("comment", None)
        text = json.dumps({"tables": tables, "more": more, "unseen": unseen}, allow_nan=False)
    sys.stdout.write(text)
    sys.stdout.flush()
