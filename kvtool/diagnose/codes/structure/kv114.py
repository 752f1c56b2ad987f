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
    what="The same examples stand in different orders.",
    why="Examples are long and stand near the front; shuffling them gives each request a prefix of its own.",
    before="random.shuffle(examples)",
    after="examples.sort(key=lambda example: example.id)",
    remedies=(CodeRemedy("fix one order; measure the answers first, as their quality depends on it", "P2"),),
    ignore="Shuffling is the point, as in an evaluation that averages over orders.",
    wins=("blocked", "displaced"),
    varies="order",
    between_two="A fixed order of the examples makes them shared; the order of examples can change answers.",
)
EXAMPLES_REORDERED = DifferenceKind("examples_reordered", "order of examples", KV114.code)
