"""Provenance: which file, row and frame every value of a sample comes from. Rows in memory have a room of their own.

Where to look:

- `provenance.py`: the observations, `lab.provenance`. `held_rows.py`: those of rows in memory, in one process for all.
- Reads: `reads_seen.py` records and exchanges what is read, `readers.py` lists the known functions, `open_sources.py`
  knows the files of open objects and of bytes, `altered_values.py` makes the values that are exchanged.
- Streams: `source_records.py` records the reads of each sample in the workers (DG201, DG202, DG204).
- The factory: `refitting.py` changes what it loads (DG521), and so do `target_cells.py`, `early_columns.py` (DG528) and
  `paired_columns.py` (DG527).
- What checks ask: `paired_files.py` (DG524) and `frame_runs.py` (DG525) on `file_names.py`, `boundaries.py` (DG526),
  `unread.py` (DG212), `own_order.py` (DG206, DG207); `shown.py` for `dataguard show`.
"""
