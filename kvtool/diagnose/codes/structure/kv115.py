"""KV115: tools added or removed within a session.

Found in the tools of two requests (`kvtool.diagnose.compare.tools.compare_tools`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV115 = CodeEntry(
    "KV115",
    name="tools added or removed within a session",
    what="The set of tools changes from one turn of a conversation to the next.",
    why=(
        "Most chat templates write tools before the conversation. A change means that the whole history is "
        "computed again."
    ),
    before="turn 1: tools = [search]\nturn 2: tools = [browse, search]",
    after="both turns: tools = [search, browse]   (and say which may be used)",
    remedies=(
        CodeRemedy("append new tools at the end of the list", "P3"),
        CodeRemedy("offer all tools from the start, or load descriptions late through a search tool", "P3"),
    ),
    ignore="It happens once in a long session.",
    wins=("blocked",),
    varies="session",
    between_two="Keep the set of tools for the session, or append to it.",
)
TOOLS_CHANGED = DifferenceKind("tools_changed", "set of tools", KV115.code)
