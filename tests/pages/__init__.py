"""What is generated in `docs/`: the pages of the checks, the reference, and the report that the README shows.

`python -m tests.pages` writes all of it, and needs a scan of some seconds; tests compare the files with the code.
"""
