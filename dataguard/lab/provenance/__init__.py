"""Provenance: which file, row and frame every value of a sample comes from.

Where to look:

- `origins.py`: the plain data that judges read. `provenance.py`: the observations, `lab.provenance`.
- Reads: `reads_seen.py` records and exchanges what is read, `readers.py` lists the known functions, `open_sources.py`
  knows the files of open objects and of bytes, `altered_values.py` makes the values that are exchanged.
- Streams: `source_records.py` records the reads of each sample in the workers (DG201, DG202, DG204).
- Rows in memory: `rows_changed.py` finds the rows of each position, `stores.py` what a dataset holds, `row_changes.py`
  how rows change for a moment, `arrow_rows.py` those of Arrow, `memory.py` makes memory private before.
- The factory: `refitting.py` changes what it loads.
- What checks ask: `paired_files.py` (DG524) and `frame_runs.py` (DG525) on `file_names.py`, `boundaries.py` on
  `row_groups.py` (DG526), `window_rows.py` (DG527, DG528), `unread.py` (DG212),
  `own_order.py` (DG206, DG207); `shown.py` for `dataguard show`.
"""
