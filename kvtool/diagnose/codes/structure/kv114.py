"""KV114: few-shot examples reordered.

Found in the texts and messages of two requests: the same units in another order
(`kvtool.diagnose.compare.order.moved_units`), beside words that speak of examples
(`kvtool.diagnose.compare.order.order_kind`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV114 = CodeEntry(
    "KV114",
    name="few-shot examples reordered",
    what="The same examples come in different orders.",
    why="Examples are long and come early in the prompt. With each new order, requests share no prefix.",
    before="random.shuffle(examples)",
    after="examples.sort(key=lambda example: example.id)",
    remedies=(CodeRemedy("use one fixed order; evaluate before, because the order can change answers", "P2"),),
    ignore="Shuffling is intended, as in an evaluation that averages over orders.",
    wins=("blocked", "displaced"),
    varies="order",
    between_two="Use one fixed order for the examples. Evaluate first: the order can change answers.",
)
EXAMPLES_REORDERED = DifferenceKind("examples_reordered", "order of examples", KV114.code)
