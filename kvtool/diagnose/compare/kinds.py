"""Names for what differs between two requests beyond a single value: order, keys, sets, sections, history."""

from __future__ import annotations

from kvtool.diagnose.classify import DifferenceKind

TOOLS_REORDERED = DifferenceKind("tools_reordered", "order of tools", "KV111")
JSON_KEYS = DifferenceKind("json_keys", "order of JSON keys", "KV112")
DOCUMENTS_REORDERED = DifferenceKind("documents_reordered", "order of documents", "KV113")
EXAMPLES_REORDERED = DifferenceKind("examples_reordered", "order of examples", "KV114")
TOOLS_CHANGED = DifferenceKind("tools_changed", "set of tools", "KV115")
OPTIONAL = DifferenceKind("optional", "section that is there or not", "KV107")
WINDOW = DifferenceKind("window", "history cut from the front", "KV141")
HISTORY_EDITED = DifferenceKind("history_edited", "history edited or compacted", "KV142")
