"""What is known of the processes below this one."""

from __future__ import annotations

import subprocess
import sys

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
