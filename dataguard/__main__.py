"""What `dataguard` and `python -m dataguard` run: the command line."""

import os
import sys


def main() -> int:
    """Run the command line and return its exit code, also for Ctrl-C while modules are still being imported."""
    try:
        from dataguard.cli.main import main as command_line
    except KeyboardInterrupt:
        sys.stderr.write("dataguard: interrupted, no report\n")
        return 130
    return command_line()


if __name__ == "__main__":
    # Python imports from the working folder first. A target may be there, but no module that the command line needs.
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib would import from there
    except OSError:  # it was deleted
        here = ""
    if sys.path[:1] == [here]:
        del sys.path[0]
    sys.exit(main())
