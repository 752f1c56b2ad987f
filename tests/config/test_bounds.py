"""How large and how small a flag may be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.config import bounds
from kvtool.errors import KvtoolError


@pytest.mark.parametrize("value", [2**62 + 1, 2**63, 10**400])
@pytest.mark.parametrize("check", [bounds.at_least_one, bounds.at_least_two])
def test_a_count_is_a_number_of_64_bits(check: Callable[[str, int], None], value: int) -> None:
    check("--flag", 2**62)
    with pytest.raises(KvtoolError, match="--flag must be at most 4,611,686,018,427,387,904"):
        check("--flag", value)


def test_a_block_of_2_63_tokens_is_a_mistake(
    bytes_json: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "l.jsonl").write_text('{"prompt": "hello"}\n')
    flags = ["profile", str(tmp_path / "l.jsonl"), "--dry-run", "-q", "-t", bytes_json, "-b"]
    assert run([*flags, str(2**62)]) == 0
    assert run([*flags, str(2**63)]) == 2
    assert "--block-size must be at most " in capsys.readouterr().err


def test_nothing_is_waited_for_longer_than_a_day() -> None:
    for value in [86_400.1, 1e300, float("nan"), float("inf"), 0.0, -1.0]:
        bounds.some_seconds("--flag", 86_400.0)
        with pytest.raises(KvtoolError, match="--flag is a number of seconds above 0"):
            bounds.some_seconds("--flag", value)
