"""Columns of the report's tables with their meanings: each column of the code has one, and no other does."""

from __future__ import annotations

from docs.generators.tables import table
from kvtool.report.views.causes import COLUMNS as CAUSES
from kvtool.report.views.groups import COLUMNS as GROUPS
from kvtool.report.views.section import TableColumn

_MEANINGS = {
    "causes": {
        "Place": "file and line, or the part of a logged request and the line in it; the lines of its edit, if they are several",
        "Code": "code of the cause",
        "Values": "different values",
        "Requests": "requests in which it blocks tokens",
        "First": "tokens that this cause blocks before any other cause",
        "Share": "its fair share: each blocked token, divided by the causes before it",
        "Alone": "hit rate with the fix of this cause only",
        "So far": "hit rate with this fix and those above",
        "Value": "what the value is",
        "Proof": "order and proof tier of the fix",
    },
    "groups": {
        "Group": "group of a workload; in a log, requests of one model, service or file",
        "Requests": "requests of the group",
        "Tokens per request": "mean length of the prompts",
        "Hit rate": "prompt tokens that are reused, divided by all",
        "Maximum": "the best hit rate that the prompts reach as written, with an unlimited cache",
        "Over time": "hit rate from the first request to the last",
        "Lost per request": "prompt tokens that are not reused, per request",
        "Blocked": "share of the prompt tokens that repeat earlier text after a change",
        "Evicted": "share that was evicted before its reuse",
        "New": "share of first uses and unique text",
        "TTFT p50, predicted": "median time to first token",
        "Gate": "verdict of the gate",
        "Worst finding": "code and severity of the costliest finding",
    },
}
_COLUMNS = {"causes": CAUSES, "groups": GROUPS}
_WHERE = {"all": "terminal and pages", "terminal": "terminal", "pages": "HTML and Markdown"}


def report_columns(name: str) -> str:
    """The columns of a table of the report."""
    meanings, columns = _MEANINGS[name], _COLUMNS[name]
    heads = [column.head for column in columns]
    if heads != list(meanings):
        raise SystemExit(f"{__file__}: the columns of {name} are {heads}")
    return table(("column", "meaning", "in"), [_row(column, meanings[column.head]) for column in columns])


def _row(column: TableColumn, meaning: str) -> tuple[str, str, str]:
    name = f"{column.head} (`{column.short}`)" if column.short else column.head
    return name, meaning, _WHERE[column.only]
