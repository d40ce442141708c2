"""What `python -m dataguard` runs: the command line."""

import os
import sys

if __name__ == "__main__":
    # Python imports from the working folder first. A target may be there, but no module that the command line needs.
    if sys.path[:1] == [os.getcwd()]:  # noqa: PTH109 - pathlib would import from there
        del sys.path[0]
    from dataguard.cli.main import main

    sys.exit(main())
