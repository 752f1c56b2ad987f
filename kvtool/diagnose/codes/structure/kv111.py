"""KV111: tool order shuffled.

Found in the tools of two requests (`kvtool.diagnose.compare.tools.compare_tools`), in their texts
(`kvtool.diagnose.compare.order.order_kind`) or, without traffic, in what has no order
(`kvtool.lint.evidence.volatile_calls.unordered`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV111 = CodeEntry(
    "KV111",
    name="tool order shuffled",
    what="Requests offer the same tools in different orders.",
    why="Tool descriptions are long and come early in the prompt. The first tool that differs ends the reuse. "
    "A set has one order within a process and another after a restart or in another worker.",
    before="request 1: tools = [search, read, write]\nrequest 2: tools = [write, search, read]",
    after="both:      tools = [read, search, write]",
    remedies=(CodeRemedy("sort the tools by name where the request is built", "P1"),),
    ignore="The order is intended: some models prefer the first tool.",
    wins=("cosmetic", "displaced"),
    varies="order",
)
TOOLS_REORDERED = DifferenceKind("tools_reordered", "order of tools", KV111.code)
