"""The console: colour rules, width, safe text, bars and tables."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from kvtool.errors import KvtoolError
from kvtool.report.terminal.errors import print_error
from kvtool.text.terminal.console import (
    ascii_only,
    bar,
    cell_width,
    find_width,
    fold,
    make_console,
    pack,
    put,
    sanitize,
    shorten,
    wants_color,
)
from kvtool.text.terminal.table import Column, table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


COLOR_CASES = [
    # flag, environment, on a terminal, wanted
    ("auto", {}, True, True),
    ("auto", {}, False, False),
    ("auto", {"TERM": "dumb"}, True, False),
    ("auto", {"FORCE_COLOR": "1"}, False, True),
    ("auto", {"CLICOLOR_FORCE": "1"}, False, True),
    ("auto", {"CLICOLOR_FORCE": "1", "TERM": "dumb"}, False, True),
    ("auto", {"FORCE_COLOR": "0"}, True, False),
    ("auto", {"CLICOLOR_FORCE": "0"}, True, False),
    ("auto", {"FORCE_COLOR": ""}, False, False),
    ("auto", {"FORCE_COLOR": ""}, True, True),
    ("auto", {"NO_COLOR": "1"}, True, False),
    ("auto", {"NO_COLOR": ""}, True, True),
    ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
    ("always", {"NO_COLOR": "1"}, False, True),
    ("never", {"FORCE_COLOR": "1"}, True, False),
]


def test_errors_fold_on_a_terminal_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    error = KvtoolError(
        "there is no file of this name in the folder", hint="give the name of a file that is there, or --force"
    )
    lines = {}
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stderr", stream)
        print_error(error)
        lines[stream.isatty()] = stream.getvalue().splitlines()
    assert max(map(len, lines[True])) <= 40
    assert len(lines[False]) == 2
    assert " ".join(" ".join(lines[True]).split()) == " ".join(" ".join(lines[False]).split())


@pytest.mark.parametrize(("flag", "env", "terminal", "wanted"), COLOR_CASES)
def test_color_precedence(flag, env, terminal, wanted, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    stream = Terminal() if terminal else io.StringIO()
    assert wants_color(flag, stream, env) is wanted
    console = make_console(color=flag, file=stream)
    put(console, Text("bold and linked", "bold red link https://example.org"))
    assert ("\x1b" in stream.getvalue()) is wanted
    assert "bold and linked" in stream.getvalue()


def test_markup_emoji_and_long_lines_are_left_alone():
    stream = io.StringIO()
    console = make_console(file=stream, width=20)
    line = "[/INST] [bold]x[/bold] :smile: 127.0.0.1 " + "y" * 60
    put(console, line)
    put(console, Text(line))
    assert stream.getvalue() == f"{line}\n{line}\n"


def test_width_comes_from_columns_then_80(monkeypatch):
    for name in ("COLUMNS", "LINES"):
        monkeypatch.setenv(name, "9" * 5_000)
    assert make_console(file=io.StringIO()).size == (80, 24)
    assert find_width(io.StringIO(), {"COLUMNS": "97"}) == 97
    assert find_width(io.StringIO(), {"COLUMNS": "0"}) == 80
    assert find_width(io.StringIO(), {"COLUMNS": "wide"}) == 80
    assert find_width(Terminal(), {}) == 80  # a terminal that cannot tell its size
    assert make_console(file=io.StringIO(), width=61).width == 61


def test_an_ascii_stream_never_fails():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    console = make_console(file=stream)
    assert ascii_only(console)
    put(console, "größe ·█ \ud800 \U0001f600")
    stream.flush()
    assert raw.getvalue() == rb"gr\xf6\xdfe \xb7\u2588 \ud800 \U0001f600" + b"\n"


def test_a_utf8_stream_takes_lone_surrogates():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8", errors="strict")
    console = make_console(file=stream)
    assert not ascii_only(console)
    put(console, "█ \ud800")
    stream.flush()
    assert raw.getvalue().decode() == "█ \\ud800\n"


def test_sanitize_shows_what_a_terminal_would_obey():
    hostile = "a\x1b[31m\x00\x9b\x7f\u202e\u200b\ufeff\ud800\r\n\té会🙂"
    assert sanitize(hostile) == r"a\x1b[31m\x00\x9b\x7f\u202e\u200b\ufeff\ud800\r\n\té会🙂"
    assert sanitize("a\nb\x1b", newlines=False) == "a\nb\\x1b"
    assert sanitize("é", ascii_only=True) == r"\xe9"
    assert sanitize("a\u00a0b") == "a\u00a0b"  # only takes room
    assert sanitize("\u2028\u0085\U000e0001") == r"\u2028\x85\U000e0001"


@given(st.text())
def test_sanitized_text_is_printable_and_stays_so(text):
    shown = sanitize(text)
    assert all(char.isprintable() or char.isspace() for char in shown)
    assert not set(shown) & {"\x1b", "\n", "\r", "\x85", "\u2028"}
    assert sanitize(shown) == shown
    assert sanitize(text, ascii_only=True).isascii()


@given(st.floats(allow_nan=True, allow_infinity=True), st.integers(0, 60), st.booleans(), st.booleans())
def test_bars_have_exactly_their_width(fraction, width, plain, track):
    drawn = bar(fraction, width, plain, track=track)
    assert cell_width(drawn) == width
    assert drawn.isascii() or not plain


def test_bars_tell_eighths_and_do_not_round_to_all_or_nothing():
    assert bar(0.5, 4) == "██  "
    assert bar(0.55, 10) == "█████▌    "
    assert bar(0.0001, 4) == "▏   "
    assert bar(0.9999, 4) == "███▉"
    assert bar(1, 4, track=True) == "████"
    assert bar(0.5, 4, True, track=True) == "##.."
    assert bar(0.25, 4, track=True) == "█···"


def test_shorten_counts_cells():
    assert shorten("short", 5) == "short"
    assert shorten("rather long", 7) == "rather…"
    assert cell_width(shorten("会社の規則", 6)) <= 6
    assert shorten("rather long", 7, ascii_only=True) == "rath..."
    assert shorten("abc", 0) == ""


@given(st.text(alphabet="ab 会é", max_size=60), st.integers(2, 30), st.integers(0, 40))
def test_fold_keeps_every_character_and_the_width(text, width, indent):
    lines = fold(text, width, indent=indent)
    assert all(cell_width(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_pack_breaks_between_parts_and_folds_long_paths():
    assert pack(["one", "two", "three"], 11) == ["one · two", "three"]
    path = "/" + "deep/" * 10
    lines = pack(["read", path], 20, indent=2)
    assert "".join(line.strip() for line in lines) == "read" + path
    assert all(len(line) <= 20 for line in lines)


COLUMNS = [
    Column("Group", "<", prose=True),
    Column("reqs"),
    Column("hit"),
    Column("evicted", keep=1),
    Column("cold", keep=2),
]
ROWS = [["support of the northern region", "1,078,400", "39.4%", "12,345", "7"], ["rag", "200", "87.9%", "0", "99"]]


def test_tables_drop_columns_then_shorten_prose_and_keep_numbers():
    wide = table(COLUMNS, ROWS, 80)
    assert wide[0].split() == ["Group", "reqs", "hit", "evicted", "cold"]
    assert wide[1].endswith("1,078,400  39.4%   12,345     7")
    narrower = table(COLUMNS, ROWS, 60)
    assert narrower[0].split() == ["Group", "reqs", "hit", "cold"]
    narrow = table(COLUMNS, ROWS, 36)
    assert narrow[1].split() == ["support", "of", "the…", "1,078,400", "39.4%"]
    assert all(len(line) <= 36 for line in narrow)


def test_a_last_column_of_prose_goes_on_below_its_row() -> None:
    """It stands under its own title, and other columns go only where it has too little room for words."""
    for width in range(44, 120, 7):
        text = "host changed: the first of two hosts before, the second of them now, and both of one provider"
        columns = [Column("Largest misses", "<"), Column("tokens", keep=1), Column("cause", "<", prose=True)]
        head, first, *more = table(columns, [["a.jsonl:7", "13,340", text]], width)
        begin = head.index("cause")
        assert ("tokens" in head) is (width >= 2 + 14 + 2 + 6 + 2 + 24)
        assert len(more) <= 4
        assert all(len(line) <= width for line in (head, first, *more))
        assert all(not line[:begin].strip() for line in more)
        assert " ".join(line[begin:].strip() for line in (first, *more)) == text


def test_a_stacked_cell_goes_close_to_its_title_then_below_it():
    columns = [Column("router", "<"), Column("TTFT p99"), Column("break-even, tokens")]
    rows = [["a", "41.6 ms", "1,024"]]
    assert table(columns, rows, 29) == ["  a", "    TTFT p99 41.6 ms", "    break-even, tokens  1,024"]
    assert table(columns, rows, 20) == ["  a", "    TTFT p99 41.6 ms", "    break-even,", "    tokens", "      1,024"]


def test_tables_stack_when_numbers_do_not_fit_side_by_side():
    stacked = table(COLUMNS, ROWS, 20)
    values = [line.split() for line in stacked if line.split()[0] in ("reqs", "hit")]
    assert values[:2] == [["reqs", "1,078,400"], ["hit", "39.4%"]]


def test_a_figure_that_heads_its_stack_says_of_what():
    stacked = table([Column("host blocks"), Column("hit rate")], [["4,096", "73.4%"], ["8,192", "80.0%"]], 20)
    assert [line.strip() for line in stacked[::2]] == ["host blocks 4,096", "host blocks 8,192"]
