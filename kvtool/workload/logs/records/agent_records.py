"""What records of agents' sessions and of evaluations look like: which fields they are known by."""

from __future__ import annotations

import re
from typing import Any

from kvtool.text.files.json_stream import is_message

Fields = dict[str, Any]

_CLAUDE_KIND = re.compile(r"[a-z][a-z-]{2,40}")
_CLAUDE_KINDS = frozenset(
    ("system", "summary", "file-history-snapshot", "queue-operation", "progress", "attachment", "worktree-state", "tag")
)
_CLAUDE_IDS = frozenset(("sessionId", "uuid", "parentUuid", "leafUuid", "isSnapshotUpdate", "messageId"))
_PROMPTS = frozenset(("messages", "prompt", "input", "inputs", "request", "body", "params", "request_body"))
_CODEX_LINES = frozenset(("session_meta", "response_item", "compacted", "turn_context", "event_msg"))
_CODEX_ITEMS = frozenset(
    (
        *("message", "reasoning", "function_call", "function_call_output", "local_shell_call", "custom_tool_call"),
        *("custom_tool_call_output", "web_search_call", "ghost_snapshot", "compaction"),
    )
)
_CODEX_META = frozenset(("id", "timestamp", "instructions", "git", "cwd", "originator", "cli_version", "source"))
_OPENHANDS_SOURCES = ("agent", "user", "environment")
_OPENHANDS_KINDS = ("Condensation", "CondensationRequest", "UserRejectObservation", "CondensationSummaryEvent")
_OPENHANDS_FIELDS = frozenset(("args", "content", "extras", "message", "cause"))


def is_claude_code(fields: Fields) -> bool:
    """A line of a session of Claude Code: a message, or one of its notes, which have a field of their kind's name."""
    kind = fields.get("type")
    if not isinstance(kind, str) or not _CLAUDE_KIND.fullmatch(kind) or not _PROMPTS.isdisjoint(fields):
        return False
    if _CLAUDE_IDS.isdisjoint(fields):
        return False
    if kind in ("user", "assistant"):
        return isinstance(fields.get("message"), dict)
    first, *rest = kind.split("-")
    return kind in _CLAUDE_KINDS or "parentUuid" in fields or first + "".join(map(str.capitalize, rest)) in fields


def is_codex(fields: Fields) -> bool:
    """A line of a rollout of Codex: of today, or of its first year, when items stood there by themselves."""
    kind = fields.get("type")
    if not isinstance(kind, str | None):
        return False
    if kind in _CODEX_LINES and isinstance(fields.get("payload"), dict):
        return True
    if kind in _CODEX_ITEMS:
        return _CLAUDE_IDS.isdisjoint(fields) and _PROMPTS.isdisjoint(fields.keys() - {"input"})
    if kind is not None:
        return False
    return fields == {"record_type": "state"} or (
        {"id", "timestamp", "instructions"} <= fields.keys() and _CODEX_META.issuperset(fields)
    )


def is_openhands_event(fields: Fields) -> bool:
    """An event of OpenHands."""
    if fields.get("source") not in _OPENHANDS_SOURCES:
        return False
    kind = fields.get("kind")
    if isinstance(kind, str):
        return kind.endswith("Event") or kind in _OPENHANDS_KINDS
    said = fields.get("action", fields.get("observation"))
    return isinstance(said, str) and not _OPENHANDS_FIELDS.isdisjoint(fields)


def is_openhands_run(fields: Fields) -> bool:
    """A list of such events in a record."""
    for name in ("history", "trajectory", "events"):
        events = fields.get(name)
        first = events[0] if isinstance(events, list) and events else None
        first = first[0] if isinstance(first, list) and first else first
        if isinstance(first, dict) and is_openhands_event(first):
            return True
    return False


def is_swe_agent(fields: Fields) -> bool:
    """A trajectory of SWE-agent whose steps hold their prompts."""
    steps = fields.get("trajectory")
    if not isinstance(steps, list):
        return False
    queries = [step["query"] for step in steps if isinstance(step, dict) and step.get("query")]
    return bool(queries) and all(isinstance(each, list) and is_message(each[0]) for each in queries)


def is_cline_history(path: str) -> bool:
    """The name of the file that holds a task of Cline."""
    return path.replace("\\", "/").rpartition("/")[2].startswith("api_conversation_history.json")


def is_cline_shown(fields: Fields) -> bool:
    """What Cline shows of a task, or notes of it."""
    if fields.get("type") in ("say", "ask"):
        return "ts" in fields and fields["type"] in fields
    return "files_in_context" in fields and "model_usage" in fields


def is_openai_evals(fields: Fields) -> bool:
    """A line of a run of OpenAI Evals."""
    spec = fields.get("spec")
    if isinstance(spec, dict):
        return "completion_fns" in spec or "eval_name" in spec or "run_id" in spec
    if "final_report" in fields:
        return len(fields) == 1
    return {"run_id", "event_id", "type", "data"} <= fields.keys()


def is_lm_eval(fields: Fields) -> bool:
    """A sample of lm-eval."""
    return "arguments" in fields and ("doc_id" in fields or "doc" in fields)


def is_promptfoo(fields: Fields) -> bool:
    """A file of results of promptfoo."""
    results = fields.get("results")
    return isinstance(results, dict) and isinstance(results.get("results"), list)


def is_promptfoo_row(fields: Fields) -> bool:
    """A row of such results."""
    prompt = fields.get("prompt")
    return isinstance(prompt, dict) and "raw" in prompt and ("vars" in fields or "response" in fields)


def is_inspect_sample(fields: Fields) -> bool:
    """A sample of a log of inspect_ai."""
    return "epoch" in fields and "input" in fields and ("target" in fields or "events" in fields)


def is_inspect_archive(head: bytes, path: str) -> bool:
    """The beginning of an `.eval` of inspect_ai."""
    if not head.startswith(b"PK\x03\x04"):
        return False
    return path.lower().endswith(".eval") or any(
        name in head[:96] for name in (b"_journal/", b"header.json", b"samples/")
    )
