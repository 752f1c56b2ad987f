"""Blocks of a report: one file and one line make one that the terminal, HTML and Markdown show, each with its own escapes."""

from __future__ import annotations

import sys
from importlib import import_module
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.report import views
from kvtool.report.html import page
from kvtool.report.markdown import comment
from kvtool.report.registry import FORMATS
from kvtool.report.terminal import profile
from kvtool.report.terminal.lines import rate_style
from kvtool.report.terminal.marked_line import put_marked_line
from kvtool.report.terminal.render import folded_names, print_section, print_table
from kvtool.report.views import report_blocks as order
from kvtool.report.views.facts import rate_kind, request_name
from kvtool.report.views.report_blocks import ReportBlock
from kvtool.report.views.section import Missing, Section, Table, TableColumn
from kvtool.report.write_options import WriteOptions
from kvtool.results.report import Report
from kvtool.text.terminal.console import cell_width, make_console
from kvtool.text.terminal.table import Column, table
from tests.made_results import group, report, result

HOSTILE = "<b>|`\x1b[31m"
_LISTS = (order.COST, order.TOKENS, order.ENGINE, (order.CAUSES, order.TURNS, order.CONFIG, order.LOGITS))


def _view(shown: Report) -> Section:
    columns = (
        TableColumn("Thing", "code", cut=True),
        TableColumn("Number of it", "number", "no."),
        TableColumn("For pages", only="pages"),
        TableColumn("For screens", only="terminal"),
    )
    table = Table("Made up", columns, [(HOSTILE, "1,234", "on a page", "on a screen")], more=3)
    lead = (f"{shown.totals.requests} requests.",)
    return Section("made-up", "A block that is new", lead, [table], notes=("A note.",), missing=Missing("Nothing yet."))


@pytest.fixture
def new_block(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("made_up")
    module.__dict__["view"] = _view
    monkeypatch.setitem(sys.modules, "kvtool.report.views.made_up", module)
    for user in (page, comment, profile):
        monkeypatch.setattr(user, "TOKENS", (*order.TOKENS, ReportBlock("made_up")))


@pytest.mark.usefixtures("new_block")
@pytest.mark.parametrize(
    ("name", "escaped", "head", "own", "other"),
    [
        ("text", "<b>|`\\x1b[31m", "no.", "on a screen", "on a page"),
        ("markdown", "``<b>\\|`\\x1b[31m``", "Number of it", "on a page", "on a screen"),
        ("html", "&lt;b&gt;|`\\x1b[31m", "Number of it", "on a page", "on a screen"),
    ],
)
def test_a_new_block_is_shown_by_every_format(name: str, escaped: str, head: str, own: str, other: str) -> None:
    made = report(group())
    if name == "text":
        stream = StringIO()
        profile.print_profile(make_console(file=stream, width=100, color="never"), made)
        shown = stream.getvalue()
    else:
        shown = FORMATS[name].write(result("none", "", made), WriteOptions())
    for text in ("A block that is new", "10 requests.", "A note.", "Nothing yet.", "3 more rows in the JSON", "1,234"):
        assert text in shown
    assert escaped in shown
    assert head in shown
    assert own in shown
    assert other not in shown


def test_every_block_has_a_view_and_every_view_is_listed() -> None:
    names = [block.name for blocks in _LISTS for block in blocks]
    assert len(set(names)) == len(names)
    for name in names:
        assert callable(import_module(f"kvtool.report.views.{name}").view)
    files = {path.stem for path in Path(views.__path__[0]).glob("*.py")}
    with_view = {name for name in files if name != "__init__" and _is_profile_view(name)}
    assert with_view == set(names)


def _is_profile_view(name: str) -> bool:
    view = getattr(import_module(f"kvtool.report.views.{name}"), "view", None)
    return view is not None and view.__annotations__.get("report") == "Report"


def test_a_section_fits_into_any_terminal() -> None:
    for width in [20, 40, 60, 80, 200]:
        stream = StringIO()
        rows = [("a/long/path/to/some/file/of/prompts.j2:1234", f"{number:,}", "", "") for number in (5, 123_456)]
        section = _view(report(group()))
        table = Table("Made up", section.tables[0].columns, rows)
        console = make_console(file=stream, width=width, color="never")
        print_section(console, section)
        print_table(console, table)
        assert max(map(cell_width, stream.getvalue().splitlines())) <= width
        assert stream.getvalue().count(":1234") == 2


@given(rate=st.floats(0, 1))
def test_only_a_good_rate_is_green(rate: float) -> None:
    """Terminal and pages take their colours from one rule, which does not ask what the prompts allow."""
    assert (rate_style(rate) == "green") == (rate_kind(rate) == "good") == (rate >= 0.8)


@given(record=st.integers(1, 10**6), request=st.integers(0, 99), session=st.integers(0, 10**6))
def test_request_ids_are_shown_as_names(record: int, request: int, session: int) -> None:
    """Pages say `record 46`, not `46:0`; a name that a log gives is kept."""
    assert request_name(f"{record}:0") == f"record {record:,}"
    assert request_name(f"{record}:{request + 1}") == f"record {record:,}, request {request + 2:,}"
    assert request_name(f"a.jsonl:{record}:0") == f"a.jsonl:{record}"
    assert request_name(f"{record}:0", "b.jsonl") == f"b.jsonl:{record}"
    assert request_name(f"a.jsonl:{record}:0", "b.jsonl") == f"a.jsonl:{record}"
    assert request_name(f"chat/{session}.{request}") == f"chat, session {session}"
    assert request_name(f"chat/{session}") == f"chat, request {session}"
    assert request_name("chatcmpl-7f") == "chatcmpl-7f"


@given(text=st.text("abc ", min_size=1, max_size=200), start=st.integers(0, 199), room=st.integers(12, 60))
def test_a_line_that_is_cut_ends_in_an_ellipsis(text: str, start: int, room: int) -> None:
    at = min(start, len(text) - 1)
    first = max(at - room // 3, 0) if len(text) > room else 0
    stream = StringIO()
    put_marked_line(make_console(file=stream, width=200), "1", text, at, 1, first=first, room=room)
    shown = stream.getvalue().splitlines()[0].removeprefix("1 | ")
    assert shown.startswith("…") == bool(first)
    assert shown.endswith("…") == (len(shown.strip("…")) + first < len(text))
    assert cell_width(shown) <= room


@given(
    names=st.lists(st.text("abcdef ", min_size=1, max_size=60).map(str.strip).filter(bool), min_size=1, max_size=5),
    width=st.integers(40, 90),
)
def test_names_that_have_no_room_take_several_lines(names: list[str], width: int) -> None:
    columns = [Column("change", "<"), Column("hit rate"), Column("computed", keep=0), Column("basis", "<", keep=1)]
    shown, rows = folded_names(columns, [[name, "93.0%", "100.0%", "upper bound"] for name in names], width)
    assert "".join("".join(row[0].split()) for row in rows) == "".join("".join(name.split()) for name in names)
    lines = table(shown, rows, width)
    assert len(lines) == len(rows) + 1
    assert max(map(cell_width, lines)) <= width
