"""Exchanges as the prompts that they were: rendered and tokenized as the server does it, with the answers that it gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from kvtool.config.asked_run import RunOptions
from kvtool.errors import KvtoolError
from kvtool.measure.servers.exchange import Exchange
from kvtool.profiler.opening import Opened, open_workload
from kvtool.profiler.reconcile.twin import Ask
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.jobs import JobMaker
from kvtool.workload.logs.logs import LogOptions
from kvtool.workload.prompts_in_memory import MemorySource
from kvtool.workload.render import Renderer
from kvtool.workload.request_fields import engine_requests


@dataclass(slots=True)
class SentPrompts:
    """The prompts of exchanges by their numbers, in the order of sending; of one that has several prompts all of them."""

    opened: Opened
    asks: dict[int, list[Ask]] = field(default_factory=dict)
    known_answers: set[int] = field(default_factory=set)
    """Of which exchanges the server said the tokens of its answer; of the others the text is encoded."""
    left_out: dict[int, str] = field(default_factory=dict)
    """What is not predicted, and why."""


def asked_of(
    exchanges: Sequence[Exchange], options: RunOptions, tokenizers: Tokenizers, date: datetime | None = None
) -> SentPrompts:
    """Return the prompts that were asked; `date` is the server's clock. Raise KvtoolError for a prompt that cannot be read or
    rendered.
    """
    if not exchanges:
        raise KvtoolError("no answered request can be predicted", hint="kvtool replay needs answers with their usage")
    source = MemorySource([each.as_record() for each in exchanges], LogOptions(by_time=False))
    opened = open_workload(options, tokenizers, source=source)
    source.each_answer = False
    found = SentPrompts(opened)
    maker = JobMaker(renderer_at(opened.renderer, date), seed=opened.planned.plan.seed)
    for conversation in source.conversations():
        while (turn := conversation.next_turn(None)) is not None:
            assert turn.written is not None
            assert turn.written[1] is not None
            exchange = exchanges[turn.written[1] - 1]
            asks = found.asks.setdefault(exchange.number, [])
            for at, one in enumerate(engine_requests([turn])):
                request = maker.make(one).request
                assert request.prompt_ids is not None
                asks.append(
                    Ask(
                        exchange.number,
                        request.prompt_ids,
                        tuple(request.output_ids or (0,)),
                        turn.salt,
                        reads=not request.skip_reading_cache,
                        priority=request.priority,
                        reported=one.call.usage is not None,
                        again=at > 0,
                    )
                )
            if exchange.output_ids is not None:
                found.known_answers.add(exchange.number)
    for each in exchanges:
        asks = found.asks.get(each.number, [])
        if not asks:
            found.left_out[each.number] = "it contains no prompt"
        elif not any(ask.reported for ask in asks):  # it has no usage
            asks[-1] = replace(asks[-1], reported=True)
    return found


def renderer_at(renderer: Renderer, date: datetime | None) -> Renderer:
    """Return the same with the server's clock after a template that asks for the date."""
    if date is None:
        return renderer
    return renderer.with_template(
        lambda template: template.changed(clock=lambda: date) if template.contains_time else template
    )
