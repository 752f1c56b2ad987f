"""The 300 ShareGPT requests by their tokens, where the shared data is at hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kvtool.engine.rules.rule_set import RuleRequest

_FILE = "data/llmservingsim_sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl"
_PATH = Path(__file__).resolve().parents[3] / "shared" / _FILE

needs_sharegpt = pytest.mark.skipif(not _PATH.is_file(), reason=f"needs ../shared/{_FILE}")


def _asked(line: str) -> RuleRequest:
    row = json.loads(line)
    return RuleRequest(np.array(row["input_tok_ids"], np.int32), np.array(row["output_tok_ids"], np.int32))


ASKED = [_asked(line) for line in _PATH.read_text(encoding="utf-8").splitlines()] if _PATH.is_file() else []
