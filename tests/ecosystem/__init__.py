"""Public libraries, used as their documentation says, on data made on the spot.

By hand or nightly, not with the tests: `python -m tests.ecosystem` scans them all and writes docs/ecosystem.md;
`python -m tests.ecosystem timm kornia` scans some, and keeps the rest of the page.
"""
