"""Names for what differs between two requests beyond a single value: order, keys, sets, sections, history."""

from __future__ import annotations

from kvtool.diagnose.classify import Kind

TOOLS_REORDERED = Kind("tools_reordered", "order of tools", "KV111")
JSON_KEYS = Kind("json_keys", "order of JSON keys", "KV112")
DOCUMENTS_REORDERED = Kind("documents_reordered", "order of documents", "KV113")
EXAMPLES_REORDERED = Kind("examples_reordered", "order of examples", "KV114")
TOOLS_CHANGED = Kind("tools_changed", "set of tools", "KV115")
OPTIONAL = Kind("optional", "section that is there or not", "KV107")
WINDOW = Kind("window", "history cut from the front", "KV141")
HISTORY_EDITED = Kind("history_edited", "history edited or compacted", "KV142")
