/* The demo's programs and stories: demo/NAME.py and demo/NAME.md, embedded. */
#pragma once

extern const char demo_load_py[], demo_failed_md[], demo_help_md[];
extern const char demo_discount_py[], demo_discount_md[];
extern const char demo_growth_py[], demo_growth_md[];
extern const char demo_month_py[], demo_month_md[];
extern const char demo_order_value_py[], demo_order_value_md[];
extern const char demo_other_py[], demo_other_md[];
extern const char demo_overview_py[], demo_overview_md[];
extern const char demo_products_py[], demo_products_md[];
extern const char demo_quarter_py[], demo_quarter_md[];
extern const char demo_returns_py[], demo_returns_md[];
extern const char demo_source_load_py[]; /* in place of load.py, from a data source */
extern const char demo_supplier_py[], demo_supplier_md[];
extern const char demo_supplier_query_py[], demo_supplier_files_py[];
extern const char demo_targets_py[], demo_targets_md[];
extern const char demo_targets_query_py[], demo_targets_files_py[];
