"""KV102: random or request id.

Found by its form (`kvtool.diagnose.values.detectors.DETECTORS`), by the name of a variable
(`kvtool.diagnose.values.variable_names.kind_of_name`) or, without traffic, by the call that gives it
(`kvtool.lint.evidence.volatile_calls.called`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV102 = CodeEntry(
    "KV102",
    name="random or request id",
    what="A UUID, ULID, nonce, trace header, digest or token comes before shared text. It is new in every request.",
    why="It never repeats, so nothing after it is ever reused, not even by the next turn.",
    before="Request 9f1c2f5e-6a0b-4d1e-9c57-2f0f3a1f7c11\n<shared instructions>",
    after="<shared instructions>\nRequest 9f1c2f5e-6a0b-4d1e-9c57-2f0f3a1f7c11",
    remedies=(
        CodeRemedy("send the id in metadata or a header: the model rarely needs it", "P3"),
        CodeRemedy("move it to the end of the prompt", "P2"),
    ),
    ignore=(
        "The id separates requests on purpose, against timing attacks on a shared cache. A cache salt does this better."
    ),
    wins=("blocked",),
    varies="value",
)
REQUEST_ID = DifferenceKind("request_id", "request id", KV102.code)
