"""KV101: clock or date early in the prompt.

Found by its form (`kvtool.diagnose.values.detectors.DETECTORS`), by the name of a variable
(`kvtool.diagnose.values.variable_names.kind_of_name`) or, without traffic, by the call that gives it
(`kvtool.lint.evidence.volatile_calls.called`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV101 = CodeEntry(
    "KV101",
    name="clock or date early in the prompt",
    what="A timestamp, a time or a date stands before text that other requests share.",
    why=(
        "KV blocks are reused only up to the first token that differs. A clock differs from request to request (a "
        "date once a day), so every block from it on is computed again, however equal the text behind it is."
    ),
    before="Now: {{ now }}. You are the support agent for Acme.\n<3,000 tokens of rules>",
    after="You are the support agent for Acme.\n<3,000 tokens of rules>\nNow: {{ now }}.",
    remedies=(
        CodeRemedy("move the clock behind the shared text, best into the latest turn", "P2"),
        CodeRemedy("coarsen it: the hour or the date instead of the second, where that is enough", "P3"),
        CodeRemedy("of what is sent again (`2 min ago`), tell when it was in place of how long ago that is", "P3"),
        CodeRemedy("leave it out, or let the model ask a tool for the time", "P3"),
    ),
    ignore=(
        "The value is constant by design (the date of a contract, a knowledge cutoff), or less than a block follows it."
    ),
    wins=("blocked",),
    varies="value",
)
TIME = DifferenceKind("time", "clock or date", KV101.code)
