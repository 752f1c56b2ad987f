"""A server with rules of its own, with a real llama.cpp: where $XLLAMACPP_PYTHON names the Python of an environment that has
xllamacpp and gguf."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

if not os.environ.get("XLLAMACPP_PYTHON"):
    pytest.skip("a llama.cpp is needed: $XLLAMACPP_PYTHON", allow_module_level=True)
pytest.importorskip("httpx", reason="needs the extra `live`")
pytest.importorskip("zmq", reason="needs the extra `live`")

from kvtool.cli.app import run
from tests.measure.servers.real_llama import real_llama

pytestmark = pytest.mark.llama

_SHARED = "You are kind, and answer all that is asked of you in short words. "


def requests() -> list[dict[str, Any]]:
    """Of chat, completions and responses; each but the first begins as one before it."""
    lines: list[dict[str, Any]] = []
    for number in range(4):
        text = f"{_SHARED}Question {number}?"
        lines += [{"messages": [{"role": "user", "content": text}]}, {"prompt": text}]
        lines.append({"input": [{"role": "user", "content": text}]})
    return lines


@pytest.mark.parametrize("switches", [(), ("metrics",)])
def test_what_it_reports_is_told_and_no_blocks_are_claimed(
    switches: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, kept = tmp_path / "w.jsonl", tmp_path / "kept"
    path.write_text("".join(json.dumps(each) + "\n" for each in requests()))
    with real_llama(tmp_path, *switches) as url:
        asked = [str(path), "--server", url, "--yes", "--max-tokens", "2", "--record", str(kept)]
        code = run(["replay", "--json", "-q", *asked])
    out, err = capsys.readouterr()
    assert out, err
    document = json.loads(out)
    assert (code, document["answered"], document["failed"], document["unreported"]) == (0, 12, 0, 0)
    assert document["not_predicted"].startswith("llama.cpp keeps one prompt in each slot")
    assert document["predicted_cached_tokens"] is None
    assert document["disagree"] == []
    assert 8 * len(_SHARED) < document["reported_cached_tokens"] < document["prompt_tokens"]
    assert document["counters_agree"] is (True if switches else None)
    assert "block_size" not in document["config"]
    assert run(["replay", "--json", "--recorded", str(kept)]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["reported_cached_tokens"] == document["reported_cached_tokens"]
    assert sys.modules.get("xllamacpp") is None
