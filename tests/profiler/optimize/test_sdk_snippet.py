"""The code that sends an edited request: moved text is a variable of its own, and a text sent in the place of another is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvtool.profiler.optimize.sdk_snippet import _blocks

LINES = st.lists(
    st.text("abcdef ", min_size=4, max_size=30).filter(lambda text: len(text.split()) > 1),
    min_size=2,
    max_size=6,
    unique=True,
)


@given(LINES, st.data())
def test_a_line_that_moves_to_the_end_is_a_variable_of_its_own(lines: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 2))
    moved = [*lines[:at], *lines[at + 1 :], f"{lines[at]} 7"]
    lines[at] += " 7"
    (block,) = _blocks(_system(lines), _system(moved), "instructions")
    assert block.names == ("instructions", "changing_text")


@given(LINES, LINES)
def test_other_instructions_in_the_same_place_contain_no_moved_text(lines: list[str], others: list[str]) -> None:
    """A fork with its parent's instructions, however long these are."""
    parent = [f"{line} parent" for line in others] * 3
    (block,) = _blocks(_system([*lines, "only the fork"]), _system(parent), "instructions")
    assert block.names == ("instructions",)


def _system(lines: list[str]) -> dict[str, str]:
    return {"role": "system", "content": "\n".join(lines)}
