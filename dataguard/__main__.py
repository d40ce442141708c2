"""What `python -m dataguard` runs: the command line."""

import sys

from dataguard.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
