"""KV112: JSON key order.

Found where values are equal with their keys sorted (`kvtool.diagnose.compare.json_forms.canonical`), or where
`json.dumps` stands without `sort_keys` (`kvtool.lint.evidence.volatile_calls.JSON_KEYS`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV112 = CodeEntry(
    "KV112",
    name="JSON key order",
    what="The same JSON object has its keys in different orders.",
    why="A parser ignores the order of keys. The cache compares text, so it does not.",
    before='json.dumps(schema)\n{"type": "object", "name": "search"}\n{"name": "search", "type": "object"}',
    after='json.dumps(schema, sort_keys=True)\n{"name": "search", "type": "object"}',
    remedies=(
        CodeRemedy("write keys in sorted order", "P1"),
        CodeRemedy("send tool calls back as the model wrote them", "P1"),
    ),
    ignore="One place builds the object, always in one order.",
    wins=("cosmetic", "displaced"),
    varies="order",
)
JSON_KEYS = DifferenceKind("json_keys", "order of JSON keys", KV112.code)
