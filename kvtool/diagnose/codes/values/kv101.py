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
    what="A timestamp, a time or a date comes before text that other requests share.",
    why=(
        "The cache reuses KV blocks up to the first token that differs. A clock differs in each request, and "
        "a date every day. Every block after it is computed again."
    ),
    before="Now: {{ now }}. You are the support agent for Acme.\n<3,000 tokens of rules>",
    after="You are the support agent for Acme.\n<3,000 tokens of rules>\nNow: {{ now }}.",
    remedies=(
        CodeRemedy("move the clock to the end of the prompt, best into the latest turn", "P2"),
        CodeRemedy("use the hour or the date instead of the second, if that is enough", "P3"),
        CodeRemedy("in text that is sent again, write the time of the event instead of its age (`2 min ago`)", "P3"),
        CodeRemedy("remove it, or let the model call a tool for the time", "P3"),
    ),
    ignore="The value is constant (a contract date, a knowledge cutoff), or less than one block follows it.",
    wins=("blocked",),
    varies="value",
)
TIME = DifferenceKind("time", "clock or date", KV101.code)
