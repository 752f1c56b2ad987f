"""What records of agents' sessions and of evaluations look like: which fields they are known by."""

from __future__ import annotations

import re
from typing import Any

Fields = dict[str, Any]

_CLAUDE_KIND = re.compile(r"[a-z][a-z-]{2,40}")
_CLAUDE_IDS = ("uuid", "parentUuid", "leafUuid", "isSnapshotUpdate")
_PROMPTS = frozenset(("messages", "prompt", "input", "inputs", "request", "body", "params", "request_body"))
_CODEX_LINES = frozenset(("session_meta", "response_item", "compacted", "turn_context", "event_msg"))
_CODEX_ITEMS = frozenset(
    (
        *("message", "reasoning", "function_call", "function_call_output", "local_shell_call", "custom_tool_call"),
        *("custom_tool_call_output", "web_search_call", "ghost_snapshot", "compaction"),
    )
)


def is_claude_code(fields: Fields) -> bool:
    """A line of a session of Claude Code."""
    kind = fields.get("type")
    if not isinstance(kind, str) or not _PROMPTS.isdisjoint(fields) or not _CLAUDE_KIND.fullmatch(kind):
        return False
    return "sessionId" in fields or any(name in fields for name in _CLAUDE_IDS)


def is_codex(fields: Fields) -> bool:
    """A line of a rollout of Codex: of today, or of its first year, when items stood there by themselves."""
    kind = fields.get("type")
    if kind in _CODEX_LINES and isinstance(fields.get("payload"), dict):
        return True
    if "record_type" in fields and len(fields) <= 2:
        return True
    if kind in _CODEX_ITEMS and _PROMPTS.isdisjoint(fields.keys() - {"input"}):
        return "sessionId" not in fields and "uuid" not in fields
    return kind is None and {"id", "timestamp", "instructions"} <= fields.keys() and "input" not in fields
