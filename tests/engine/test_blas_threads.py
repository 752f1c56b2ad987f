"""Threads of linear algebra: none beside the first for commands that have no use for them, all of them for torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TASKS = Path("/proc/self/task")
_SET = ("OPENBLAS_NUM_THREADS", "OPENBLAS_DEFAULT_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
_NUMPY = "import os, numpy; print(len(os.listdir('/proc/self/task')))"


def _threads(code: str, **variables: str) -> int:
    env = {name: value for name, value in os.environ.items() if name not in _SET} | variables
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return int(run.stdout)


_CAN_COUNT = _TASKS.exists() and len(os.sched_getaffinity(0)) > 1


@pytest.mark.skipif(not _CAN_COUNT, reason="threads are counted in /proc, on two cores")
class TestThreads:
    def test_numpy_starts_with_one(self) -> None:
        assert (
            _threads(f"from kvtool.engine.blas_threads import start_with_one_thread; start_with_one_thread(); {_NUMPY}")
            == 1
        )

    def test_what_the_user_says_goes_before_it(self) -> None:
        one = "from kvtool.engine.blas_threads import start_with_one_thread; start_with_one_thread()"
        assert _threads(f"{one}; {_NUMPY}", OPENBLAS_NUM_THREADS="2") == 2

    def test_the_engine_takes_it_back_before_torch(self) -> None:
        taken = "from kvtool.engine.blas_threads import start_with_one_thread; start_with_one_thread(); import kvtool.engine.model"
        assert _threads(f"{taken}; {_NUMPY}") > 1


def test_the_command_line_starts_with_one() -> None:
    code = (
        "import os, sys; sys.argv = ['kvtool', '--version']; from kvtool.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: print(os.environ.get('OPENBLAS_DEFAULT_NUM_THREADS'))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "1"
