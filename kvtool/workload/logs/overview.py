"""What is in logs, in numbers: counted while their requests go by, and none of them kept but what is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from kvtool.results.documents.log_contents import LogExample, LogRow, LogsDocument
from kvtool.text.terminal.numbers import plural
from kvtool.workload.logs.files.plain_text_files import TEXT_FORMAT
from kvtool.workload.logs.log_pass import repeated_notes
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.logs.records.record_readings import sort_of
from kvtool.workload.logs.records.request_rows import Pseudonyms, row_of, tool_names
from kvtool.workload.turn import Turn

_MOST_MODELS = 50
WITHOUT_PROMPT = "its prompt is not in the log"
OTHER = "(other)"


def overview_of(source: LogSource, *, rows: bool = False, full: bool = False) -> LogsDocument:
    """What the logs of a source hold; with `rows` each request, with `full` its text and names. KvtoolError for what is no log."""
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
        """One more request."""
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
    """What a request holds, without any text of it."""
    if turn.messages is not None:
        said = plural(len(turn.messages), "message")
        names = tool_names(turn.tools or ())
        return f"{said}, {plural(len(names), 'tool')}" if names else said
    if turn.text is not None:
        return plural(len(turn.text), "character")
    if turn.hashed is not None:
        return "hashes of blocks"
    return "no prompt" if turn.token_ids is None else "token ids"
