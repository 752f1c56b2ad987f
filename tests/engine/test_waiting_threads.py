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
            print(os.environ.get("OMP_WAIT_POLICY"), os.environ.get("GOMP_SPINCOUNT"), flush=True)
            os._exit(0)  # torch itself takes seconds to load

sys.meta_path.insert(0, Seen())
import {module}
"""


@pytest.mark.engine
@pytest.mark.parametrize(
    "module", ["kvtool.engine.model.model_runner", "kvtool.measure.local", "kvtool.measure.bench.session"]
)
@pytest.mark.parametrize(("given", "expected"), [(None, ["passive", "1000"]), ("active", ["active", "None"])])
def test_threads_sleep_where_nobody_says_otherwise(module: str, given: str | None, expected: list[str]) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    }
    if given is not None:
        environment["OMP_WAIT_POLICY"] = given
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == expected
