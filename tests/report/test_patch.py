"""A patch in the terminal: whole, and no wider than that."""

from __future__ import annotations

import io

from hypothesis import example, given
from hypothesis import strategies as st

from kvtool.report.terminal.patch import put_patch
from kvtool.text.terminal.console import cell_width, make_console


@example("-", "short", 40)
@given(st.sampled_from("+- "), st.text("ab 漢é", min_size=1, max_size=80), st.integers(9, 40))
def test_a_line_of_a_patch_is_shown_whole_behind_its_sign(sign: str, line: str, width: int) -> None:
    file = io.StringIO()
    put_patch(make_console(file=file, width=width, color="never"), f"{sign}{line}\n", plain=False)
    first, *rest = file.getvalue().splitlines()
    assert {piece[0] for piece in (first, *rest)} == {sign}
    assert first[1:] + "".join(piece[1:].removeprefix("… ") for piece in rest) == line
    assert all(piece[1:].startswith("… ") for piece in rest)
    assert max(map(cell_width, (first, *rest))) <= width
