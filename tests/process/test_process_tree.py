"""What is known of the processes below this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from dataguard.process.process_tree import has_only

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no list of children")


def test_a_child_is_seen_until_it_is_reaped() -> None:
    others = {child.pid for child in psutil.Process().children()}
    assert has_only(others)
    with subprocess.Popen(["sleep", "60"]) as child:
        assert not has_only(others)
        assert has_only({*others, child.pid})
        child.kill()
    assert has_only(others)


_DISTURBED = """
import os, time
from dataguard.process.process_tree import undisturbed_seconds
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
child = os.fork()
while not child:
    pass
started, undisturbed, used = time.monotonic(), undisturbed_seconds(), time.process_time()
while time.process_time() - used < 0.3:
    pass
os.kill(child, 9)
print(time.monotonic() - started, undisturbed_seconds() - undisturbed)
"""


@pytest.mark.scan
@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="the system does not count waiting")
def test_a_clock_stands_still_while_another_process_has_the_core() -> None:
    done = subprocess.run([sys.executable, "-c", _DISTURBED], capture_output=True, text=True, check=True, timeout=60)
    elapsed, undisturbed = map(float, done.stdout.split())
    assert undisturbed < 0.75 * elapsed
