from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.text.traced import Mark, Origin, Traced, TracedPlaces, concat, line_around, marks_of

texts = st.text(alphabet="ab \n\r\t,xßİé🎉\u2028", max_size=12)


@st.composite
def traced(draw: st.DrawFn) -> Traced:
    """A text of a few pieces, each with an origin of its own or none."""
    pieces: list[str] = []
    for number, piece in enumerate(draw(st.lists(texts, max_size=4))):
        pieces.append(Traced.of(piece, Origin(f"f{number}", text=piece)) if draw(st.booleans()) else piece)
    return concat(pieces)


def assert_sound(text: str) -> None:
    """Marks cover the text, and what is verbatim reads the same in its origin."""
    assert sum(mark.length for mark in marks_of(text)) == len(text)
    at = 0
    for length, origin, offset in marks_of(text):
        assert length > 0
        if origin is not None:
            assert origin.text[offset : offset + length] == str.__getitem__(text, slice(at, at + length))
        at += length


@given(traced(), traced(), st.integers(-15, 15), st.integers(-15, 15))
def test_concatenation_and_slices_agree_with_str(a: Traced, b: Traced, start: int, stop: int) -> None:
    plain = str.__str__(a)
    for mine, theirs in [
        (a + b, plain + str.__str__(b)),
        (plain + b, plain + str.__str__(b)),
        (a[start:stop], plain[start:stop]),
        (a[start:], plain[start:]),
        (a * (start % 4), plain * (start % 4)),
        (concat([a, "x", b, a]), f"{plain}x{str.__str__(b)}{plain}"),
    ]:
        assert type(mine) is Traced
        assert mine == theirs
        assert_sound(mine)
    backwards = a[::-1]
    assert backwards == plain[::-1]
    assert sum(mark.length for mark in backwards.marks) == len(a)
    if -len(a) <= start < len(a):
        assert a[start] == plain[start]
        assert_sound(a[start])
    else:
        with pytest.raises(IndexError):
            a[start]


@given(traced(), texts.filter(bool), texts, st.integers(-1, 3))
def test_methods_agree_with_str(a: Traced, sep: str, other: str, count: int) -> None:
    plain = str.__str__(a)
    sep = sep[:2]
    singles: list[tuple[str, str]] = [
        (a.strip(), plain.strip()),
        (a.lstrip(sep), plain.lstrip(sep)),
        (a.rstrip("\n"), plain.rstrip("\n")),
        (a.removeprefix(sep), plain.removeprefix(sep)),
        (a.removesuffix(sep), plain.removesuffix(sep)),
        (a.replace(sep, other, count), plain.replace(sep, other, count)),
        (a.join([other, sep, a]), plain.join([other, sep, plain])),
    ]
    for mine, theirs in singles:
        assert mine == theirs
        assert_sound(mine)
    lists: list[tuple[list[str], list[str]]] = [
        (a.split(), plain.split()),
        (a.split(sep, count), plain.split(sep, count)),
        (a.rsplit(sep, count), plain.rsplit(sep, count)),
        (a.rsplit(None, count), plain.rsplit(None, count)),
        (a.splitlines(), plain.splitlines()),
        (a.splitlines(keepends=True), plain.splitlines(keepends=True)),
        (list(a.partition(sep)), list(plain.partition(sep))),
        (list(a.rpartition(sep)), list(plain.rpartition(sep))),
    ]
    for mine_list, their_list in lists:
        assert mine_list == their_list
        for piece in mine_list:
            assert_sound(piece)
    for name in ("upper", "lower", "title", "capitalize"):
        changed = getattr(a, name)()
        assert changed == getattr(plain, name)()
        assert sum(mark.length for mark in changed.marks) == len(changed)
    assert a.replace("", sep) == plain.replace("", sep)
    assert hash(a) == hash(plain)
    assert f"{a}" == plain
    with pytest.raises(ValueError, match="empty separator"):
        a.split("")


def test_at_leads_to_the_origin_of_each_character() -> None:
    one = Origin("one", text="hello")
    text = "<" + Traced.of("hello", one)[1:] + ">"
    assert text.at(0) == (None, 0)
    assert text.at(1) == (one, 1)
    assert text.at(4) == (one, 4)
    assert text.at(5)[0] is None
    with pytest.raises(IndexError):
        text.at(6)


def test_neighbouring_marks_of_one_origin_become_one() -> None:
    origin = Origin("f", text="abcdef")
    text = Traced.of("abcdef", origin)
    assert (text[:2] + text[2:]).marks == (Mark(6, origin, 0),)
    assert len((text[:2] + text[3:]).marks) == 2


def test_positions_follow_the_indent_of_a_block() -> None:
    origin = Origin("w.yaml", line=5, column=7, indent=5, text="one\ntwo\nthree")
    assert origin.position(0) == (5, 7)
    assert origin.position(2) == (5, 9)
    assert origin.position(4) == (6, 5)
    assert origin.position(10) == (7, 7)
    assert Origin("a.jsonl", line=3, column=9, verbatim=False, text="x\ny").position(2) == (3, 9)


def test_foreign_operands_are_refused_as_str_refuses_them() -> None:
    with pytest.raises(TypeError):
        Traced("a") + 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        Traced("a")["key"]  # type: ignore[index]


def test_line_around() -> None:
    for index, expected in [(0, (0, 3)), (2, (0, 3)), (3, (3, 6)), (6, (6, 7)), (7, (6, 7))]:
        assert line_around("ab\ncd\ne", index) == expected


def test_many_pieces_keep_their_marks() -> None:
    origins = [Origin(str(number), text="ab,") for number in range(20_000)]
    text = concat(Traced.of("ab,", origin) for origin in origins)
    assert len(text.marks) == 20_000
    fields = text.split(",")
    assert [marks_of(field)[0].origin for field in fields[:-1]] == origins
    assert len(marks_of(text.replace(",", ";"))) == 40_000


@given(traced(), st.integers(0, 60), st.integers(0, 60))
def test_a_part_that_is_found_by_its_marks_is_the_slice(text: Traced, one: int, other: int) -> None:
    start, stop = sorted((min(one, len(text)), min(other, len(text))))
    found = TracedPlaces(text).part(start, stop)
    assert found == text[start:stop]
    assert found.marks == text[start:stop].marks


edges = st.one_of(st.none(), st.integers(-12, 12))


@given(st.text("ab\né", max_size=8), edges, edges, st.sampled_from([None, 1, -1, 2]))
def test_a_slice_of_one_stretch_is_that_of_the_stretch(
    text: str, start: int | None, stop: int | None, step: int | None
) -> None:
    found = Traced.of(text, Origin("p"))[start:stop:step]
    assert type(found) is Traced
    assert str.__str__(found) == text[start:stop:step]
    if step not in (None, 1):
        assert all(origin is None for _, origin, _ in found.marks)
    elif found:
        assert found.marks == (Mark(len(found), Origin("p"), slice(start, stop).indices(len(text))[0]),)
    else:
        assert found.marks == ()
