"""The lines of a file are looked for as often as it is read, not once for each prompt in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kvtool.text.line_index import LineIndex
from tests.files import write
from tests.fuzz.lint_growth import FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_more_prompts_need_no_more_indexes(
    name: str, in_folder: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    begin = LineIndex.__init__

    def counted(self: LineIndex, text: str, *rest: object) -> None:
        made.append(len(text))
        begin(self, text, *rest)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(LineIndex, "__init__", counted)
    counts = []
    for size in (3_000, 12_000):
        ((path, data),) = FORMATS[name](size).items()
        made.clear()
        _, _, err = in_folder("lint", write(path, data), "--no-config", "--no-cache")
        assert "a bug in kvtool" not in err
        counts.append(sum(2 * length > len(data.decode()) for length in made))
    assert counts[1] <= max(counts[0], 1), "of the whole file"
    assert Path(path).read_bytes() == data
