"""Two requests compared: which parts of the later one are not what the earlier one had there."""

from __future__ import annotations

from kvtool.diagnose.compare.change import Change, RequestPart
from kvtool.diagnose.compare.compare_texts import TextWhere, compare_texts
from kvtool.diagnose.compare.history import history_start
from kvtool.diagnose.compare.messages import compare_messages
from kvtool.diagnose.compare.tools import compare_tools
from kvtool.workload.turn import Turn


def compare_turns(before: Turn, after: Turn) -> list[Change]:
    """The differences of two requests in order of position: tools, then messages or text.

    There are none where the later one only goes on from the earlier one or is its beginning, and none behind the last text that
    they share: another last question is the request's own. Requests that are not of one form have none that can be told.
    """
    return compare_requests(before, after, None)


def compare_structure(before: Turn, after: Turn) -> list[Change]:
    """`compare_turns`, but a text that differs in nothing but values has one change for all of them (see `in_full`)."""
    return compare_requests(before, after, None, later=True)


def compare_requests(before: Turn, after: Turn, history: int | None, *, later: bool = False) -> list[Change]:
    """`compare_turns`, told at which character of a request's text its conversation begins to grow (None: look for marks).

    `later` leaves open which values differ where nothing else does.
    """
    found = compare_tools(before.tools, after.tools)
    if before.messages is not None and after.messages is not None:
        return found + compare_messages(before.messages, after.messages, later=later)
    if before.text is None or after.text is None:
        return found
    a, b = str.__str__(before.text), str.__str__(after.text)
    if b.startswith(a) or a.startswith(b):
        return found
    start = history_start(a) if history is None else history
    where = TextWhere(RequestPart("text"), history=start, tail=True, conversation=True, later=later)
    return found + compare_texts(a, b, where)
