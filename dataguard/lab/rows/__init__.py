"""Rows that a dataset holds in memory: which of them each value depends on, found by changing them for a moment.

Where to look:

- `origins.py`: the plain data that judges read, for rows in memory and for files.
- `stores.py`: the arrays, tables and lists that a dataset holds; `arrow_rows.py` those of Arrow; `memory.py` makes
  their memory private before it is changed.
- `row_changes.py`: how rows are changed for a moment. `rows_changed.py`: the rows on which each position depends.
- What is asked of rows: `row_axes.py` along which axis they are, `row_groups.py` where groups of them begin (DG526),
  `window_rows.py` those of a window (DG527, DG528), `column_shifts.py` columns that hold those of other columns.
"""
