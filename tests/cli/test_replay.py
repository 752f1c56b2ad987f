"""`kvtool replay --recorded`: its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtool.cli.app import run

pytest.importorskip("msgspec", reason="needs the extra `live`")

from tests.profiler.made_sessions import made_session


def test_a_gate_of_its_own_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made_session(order=[3, 1, 2, 0, 4, 5, 6, 7, 8, 9, 10, 11]).write(tmp_path / "s")
    replay = ["replay", "--recorded", str(folder)]
    assert run([*replay, "--json"]) == 1
    disagree = len(json.loads(capsys.readouterr().out)["disagree"])
    assert disagree > 1
    codes = [run([*replay, "--max-disagree", str(most)]) for most in (disagree, disagree - 1)]
    assert codes == [0, 1]
