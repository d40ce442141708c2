"""What is said of start methods."""

DEFAULT_ELSEWHERE = "the default on macOS and Windows; on Linux, Python 3.14 has forkserver"
"""Where a loader meets `spawn` that leaves the choice to the platform."""
