"""llama.cpp's own server, recorded, against its rules here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.engine.replay import compare, main

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "llamacpp"
CASES = sorted(RECORDED.glob("[0-9]*.json"))


@pytest.mark.skipif(not CASES, reason="no recorded runs of llama.cpp beside this checkout")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_recorded_run_agrees(path: Path) -> None:
    assert list(compare(path)) == [(False, None)]


@pytest.mark.skipif(not CASES, reason="no recorded runs of llama.cpp beside this checkout")
def test_the_recorded_runs_are_all_there() -> None:
    assert len(CASES) >= 20
    assert sum(sum(json.loads(path.read_text())["expected"]["cached_tokens"]) for path in CASES) == 44_789


def small_case() -> dict[str, Any]:
    """Two requests that share two tokens; the third is too long for a slot of 256."""
    ask = {"n_predict": 3, "force": 7}
    return {
        "engine": {
            "slots": 1,
            "n_ctx_slot": 256,
            "kv_unified": False,
            "cache_ram_mib": 0,
            "slot_prompt_similarity": 0.1,
            "cache_idle_slots": True,
            "n_cache_reuse": 0,
        },
        "requests": [{"prompt": [1, 2, 3], **ask}, {"prompt": [1, 2, 4], **ask}, {"prompt": [1] * 256, **ask}],
        "expected": {"cached_tokens": [0, 2, None]},
    }


def test_the_first_difference_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for index, value, difference in [
        (0, 0, None),
        (1, 1, "requests[1]: cached tokens are 2, llama.cpp has 1"),
        (2, 3, "requests[2]: cached tokens are None, llama.cpp has 3"),
    ]:
        case, path = small_case(), tmp_path / "case.json"
        case["expected"]["cached_tokens"][index] = value
        path.write_text(json.dumps(case))
        assert main([str(path)]) == (difference is not None)
        verdict = f"differ  {path}: {difference}" if difference else f"agree   {path}"
        assert capsys.readouterr().out.splitlines()[0] == verdict


def test_a_malformed_run_is_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for broken in [
        {"engine": {"n_ctx_slot": 256}},
        {"expected": {}},
        {"requests": [{"prompt": "text"}], "expected": {"cached_tokens": [0]}},
    ]:
        path = tmp_path / "case.json"
        path.write_text(json.dumps({**small_case(), **broken}))
        assert main([str(path)]) == 2
        assert f"refused {path}: malformed case" in capsys.readouterr().out
