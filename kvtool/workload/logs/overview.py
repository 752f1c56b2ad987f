"""Contents of logs in numbers, counted while their requests are read; only rows that are asked for are kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kvtool.results.documents.log_contents import LogExample, LogRow, LogsDocument
from kvtool.text.message import Message, role_of
from kvtool.text.terminal.numbers import plural
from kvtool.workload.logs.files.plain_text_files import TEXT_FORMAT
from kvtool.workload.logs.log_pass import repeated_notes
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.logs.records.record import text_of
from kvtool.workload.logs.records.record_format import sort_of
from kvtool.workload.turn import Turn

Row = dict[str, Any]
_MOST_MODELS = 50  # names that are counted apart; others are one row
WITHOUT_PROMPT = "its prompt is not in the log"
OTHER = "(other)"


class Pseudonyms:
    """Names of users and sessions as numbers, in the order in which they come: `tenant-1` is one user in all rows."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._count: Counter[str] = Counter()

    def of(self, kind: str, name: str | None) -> str | None:
        """Return the pseudonym of a name; None for none."""
        if name is None:
            return None
        if (kind, name) not in self._numbers:
            self._count[kind] += 1
            self._numbers[kind, name] = self._count[kind]
        return f"{kind}-{self._numbers[kind, name]}"


def row_of(turn: Turn, epoch: float, pseudonyms: Pseudonyms | None = None) -> Row:
    """Return the row of a request, without the fields that it does not have. `epoch` is what its arrival counts from, in seconds
    since 1970.

    With `pseudonyms` there is no text of prompts in it, and no name of a user or a session.
    """
    full = pseudonyms is None

    def named(kind: str, name: str | None) -> str | None:
        return name if pseudonyms is None else pseudonyms.of(kind, name)

    row: Row = {} if _is_place(turn) else {"id": turn.id}
    if full and turn.messages is not None:
        row["messages"] = [[role_of(message), _message_text(message)] for message in turn.messages]
    elif full and turn.text is not None:
        row["text"] = str.__str__(turn.text)
    names = tool_names(turn.tools or ())
    call, usage = turn.call, turn.call.usage
    told = {
        "tools": names or None,
        "session": named("session", turn.session),
        "turn": None if turn.session is None else turn.index,
        "tenant": named("tenant", call.tenant),
        "time": None if turn.arrival is None else turn.arrival + epoch,
        "model": call.model,
        "prompt_tokens": usage and usage.prompt,
        "cached_tokens": usage and usage.cached,
        "cache_write_tokens": usage and usage.written,
        "cache_write_5m_tokens": usage and usage.written_5m,
        "cache_write_1h_tokens": usage and usage.written_1h,
        "cache_write_12h_tokens": usage and usage.written_12h,
        "output_tokens": turn.output_tokens if usage is None or usage.output is None else usage.output,
        "reasoning_tokens": usage and usage.reasoning,
        "cost": None if call.cost is None else float(call.cost),
        "subagent": call.subagent or None,
        "incomplete": call.incomplete,
    }
    return row | {name: value for name, value in told.items() if value is not None}


def _is_place(turn: Turn) -> bool:
    """Return whether its id is only its place: the line, and which request of it."""
    path, line, _ = turn.written or ("", None, None)
    return not turn.id or re.fullmatch(rf"{line}(\.\d+)?(:\d+)?", turn.id.removeprefix(f"{path}:")) is not None


def tool_names(tools: Sequence[Any]) -> list[str]:
    """Return the names of tools, in whatever form they are written."""
    names = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) else None
        named = function if isinstance(function, dict) else tool
        if isinstance(named, dict) and isinstance(named.get("name"), str):
            names.append(str.__str__(named["name"]))
    return names


def _message_text(message: Message) -> str:
    """Return the text of a message, or what it calls."""
    return text_of({"content": message.get("content")}) or text_of(message)


def overview_of(source: LogSource, *, rows: bool = False, full: bool = False) -> LogsDocument:
    """Return the overview of the logs of a source; with `rows` each request, with `full` its text and names. KvtoolError for what
    is no log."""
    counts = _Counts()
    kept: list[LogRow] = []
    pseudonyms = None if full else Pseudonyms()
    without = 0

    def hear(turn: Turn) -> None:
        nonlocal without
        without += 1
        turn.call = replace(turn.call, incomplete=WITHOUT_PROMPT)
        counts.add(turn, 0.0)
        if rows:
            kept.append(LogRow(**row_of(turn, 0.0, pseudonyms)))

    source.hear = hear
    for conversation in source.conversations():
        while (turn := conversation.next_turn(None)) is not None:
            counts.add(turn, source.epoch)
            if rows:
                kept.append(LogRow(**row_of(turn, source.epoch, pseudonyms)))
    source.hear = None
    left_out, prompts = source.left_out, source.prompts
    told = {*left_out.notes(), *repeated_notes(source.repeated), *prompts.notes()}
    """What has a field of its own."""
    incomplete = prompts.incomplete | ({WITHOUT_PROMPT: without} if without else {})
    examples = list(counts.examples.values())
    examples += [
        LogExample(
            kind=kind,
            is_request=False,
            count=count,
            path=left_out.places[kind].path,
            line=left_out.places[kind].line,
            says="",
        )
        for kind, count in sorted(left_out.counts.items())
    ]
    return LogsDocument(
        schema="kvtool.logs/1",
        format=", ".join(source.format_names) or TEXT_FORMAT,
        files=dict(sorted(source.formats.items())),
        records=source.records,
        requests=counts.requests,
        left_out=dict(sorted(_by_sort(left_out.counts).items())),
        left_out_kinds=dict(sorted(left_out.counts.items())),
        skipped=source.skipped,
        repeated=source.repeated,
        sessions=len(counts.sessions),
        tenants=len(counts.tenants),
        models=dict(counts.models.most_common()),
        first_time=counts.first,
        last_time=counts.last,
        usage=dict(counts.usage),
        incomplete=dict(sorted(incomplete.items())),
        not_text=dict(sorted(prompts.parts.items())),
        examples=[
            each if not each.is_request else each.model_copy(update={"count": counts.requests}) for each in examples
        ],
        notes=[note for note in source.outcome.notes if note not in told],
        rows=kept if rows else None,
    )


def _by_sort(kinds: Mapping[str, int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for kind, count in kinds.items():
        counts[sort_of(kind)] += count
    return counts


class _Counts:
    def __init__(self) -> None:
        self.requests = 0
        self.sessions: set[int] = set()
        """Hashes of names, as those of tenants."""
        self.tenants: set[int] = set()
        self.models: Counter[str] = Counter()
        self.usage: Counter[str] = Counter()
        self.first: float | None = None
        self.last: float | None = None
        self.examples: dict[str, LogExample] = {}

    def add(self, turn: Turn, epoch: float) -> None:
        """Count one more request."""
        self.requests += 1
        call, usage = turn.call, turn.call.usage
        if turn.session is not None:
            self.sessions.add(hash(turn.session))
        if call.tenant is not None:
            self.tenants.add(hash(call.tenant))
        if call.model is not None:
            known = call.model in self.models or len(self.models) < _MOST_MODELS
            self.models[call.model if known else OTHER] += 1
        if turn.arrival is not None:
            time = turn.arrival + epoch
            self.first = time if self.first is None else min(self.first, time)
            self.last = time if self.last is None else max(self.last, time)
        if usage is not None:
            told = {"prompt": usage.prompt, "cached": usage.cached, "written": usage.written, "output": usage.output}
            self.usage.update(name for name, value in told.items() if value is not None)
        if turn.name is not None and not self.examples:
            place = turn.place
            self.examples["request"] = LogExample(
                kind="request",
                is_request=True,
                count=0,
                path=turn.name.path,
                line=None if place is None else place.line,
                says=_says(turn),
            )


def _says(turn: Turn) -> str:
    """Return the contents of a request, without any text."""
    if turn.messages is not None:
        said = plural(len(turn.messages), "message")
        names = tool_names(turn.tools or ())
        return f"{said}, {plural(len(names), 'tool')}" if names else said
    if turn.text is not None:
        return plural(len(turn.text), "character")
    if turn.hashed is not None:
        return "hashes of blocks"
    return "no prompt" if turn.token_ids is None else "token ids"
