"""What an engine makes of a call: a request for each answer, and under vLLM's rules a prompt without Anthropic's billing header."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kvtool.text.message import Message
from kvtool.workload.call import NO_CALL
from kvtool.workload.request_fields import answers_asked
from kvtool.workload.turn import Sampled, Turn

BILLING_HEADER = "x-anthropic-billing-header"
"""Claude Code begins `system` with a text block that begins so and changes from request to request. vLLM leaves it out."""


def engine_requests(turns: Iterable[Turn]) -> Iterator[Turn]:
    """The requests of an engine for these calls, in the order in which it gets them."""
    for turn in turns:
        count = answers_asked(turn.fields) if turn.fields else 1
        if count == 1:
            yield turn
            continue
        answers = [Sampled(turn.output_text, turn.output_ids, turn.output_tokens), *turn.more_answers]
        answers += [Sampled(tokens=turn.output_tokens)] * (count - len(answers))
        reported = _reported(turn, answers)
        for at, answer in enumerate(answers):
            one = turn.with_text(turn.text)
            one.output_text, one.output_ids, one.output_tokens = answer
            one.more_answers, one.fields = (), {**turn.fields, "n": 1}
            one.id = f"{turn.id}:{at}"
            if at != reported and turn.call is not NO_CALL:
                one.call = replace(turn.call, usage=None, cost=None)
            yield one


def _reported(turn: Turn, answers: list[Sampled]) -> int:
    """Whose cached tokens the usage of the call has: of the answer that ended last; of a stream, of the one that began first."""
    if turn.call.streamed:
        return 0
    lengths = [len(answer.ids) if answer.ids is not None else 0 for answer in answers]
    return max(range(len(answers)), key=lambda at: (lengths[at], at))


def as_vllm_reads(turns: Iterable[Turn]) -> Iterator[Turn]:
    """The same calls as vLLM's server reads them: without the billing header, where they are of Anthropic's API."""
    for turn in turns:
        if turn.call.system_blocks and turn.messages:
            yield turn.with_messages(_without_billing_header(turn.messages))
        else:
            yield turn


def _without_billing_header(messages: list[Message]) -> list[Message]:
    kept = []
    for message in messages:
        content = message.get("content")
        if message["role"] == "system" and isinstance(content, list) and any(map(_is_billing_header, content)):
            content = [part for part in content if not _is_billing_header(part)]
            message = {**message, "content": content}
        if content or message["role"] != "system":
            kept.append(message)
    return kept


def _is_billing_header(part: object) -> bool:
    text = part.get("text") if isinstance(part, dict) else None
    return isinstance(text, str) and text.startswith(BILLING_HEADER)
