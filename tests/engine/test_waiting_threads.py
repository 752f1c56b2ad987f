"""How torch's threads wait is said before torch is loaded, by all that computes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys

class Seen:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("OMP_WAIT_POLICY"))
            sys.meta_path.remove(self)

sys.meta_path.insert(0, Seen())
import {module}
"""


@pytest.mark.parametrize(
    "module", ["kvtool.engine.model.model_runner", "kvtool.measure.local", "kvtool.measure.bench.session"]
)
@pytest.mark.parametrize(("given", "expected"), [(None, "passive"), ("active", "active")])
def test_threads_sleep_where_nobody_says_otherwise(module: str, given: str | None, expected: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    if given is not None:
        environment["OMP_WAIT_POLICY"] = given
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [expected]
