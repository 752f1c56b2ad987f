"""KV113: retrieved documents or memories reordered.

Found in the texts of two requests: the same units in another order (`kvtool.diagnose.compare.order.moved_units`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV113 = CodeEntry(
    "KV113",
    name="retrieved documents or memories reordered",
    what="The same documents, passages or memories come in different orders, for example by similarity score.",
    why="The first document that differs ends the reuse, even if all later documents were computed before.",
    before="request 1: [doc A, doc B, doc C]\nrequest 2: [doc C, doc A, doc B]",
    after="both:      [doc A, doc B, doc C]   (by id, not by score)",
    remedies=(CodeRemedy("order documents by a fixed key such as their id, and append new ones at the end", "P2"),),
    ignore="The prompt says that the order is a ranking.",
    wins=("blocked", "displaced"),
    varies="order",
    between_two="Use one global order for the documents, the most frequent first.",
)
LIST_REORDERED = DifferenceKind("list_reordered", "order of a list", KV113.code)
"""Short items of one line that nothing calls documents: tags, languages, what a set holds."""
DOCUMENTS_REORDERED = DifferenceKind("documents_reordered", "order of documents", KV113.code)
