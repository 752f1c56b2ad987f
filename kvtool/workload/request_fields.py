"""Fields of a request that change its prompt, what it reads of the cache, or how many requests an engine makes of it.

They are those of vLLM's OpenAI-compatible server, read in vLLM 0.33 and compared with the answers of vLLM 0.32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from kvtool.workload.call import NO_CALL
from kvtool.workload.turn import Sampled, Turn

MOST_ANSWERS = 128
"""Answers that one request may ask for (OpenAI's limit)."""

Changes = Literal["prompt", "lookup", "requests", "order"]
Fields = Mapping[str, Any]
"""Fields of one request by their names, as its client sent them."""
_TEMPLATE_VARIABLES = ("documents", "reasoning_effort")
BILLING_HEADER = "x-anthropic-billing-header"
"""Claude Code begins `system` with a text block that begins so and changes from request to request. vLLM leaves it out, and
so does Anthropic: reports show reads of what follows, whatever it says."""


@dataclass(frozen=True, slots=True)
class RequestField:
    """A field, what it changes, the values that are followed, and whether the server's `/tokenize` takes it, too."""

    name: str
    changes: Changes
    takes: Callable[[Any], bool]
    does: str
    tokenized: bool = False

    def is_own(self, value: Any) -> bool:
        """Return whether a value can be of this field: other programs write other things under `priority`."""
        return self.changes != "order" or self.takes(value)

    @property
    def followed(self) -> bool:
        """Return whether any value that asks for something is followed."""
        return self.takes is not _is_default


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def _is_whole(least: int, most: int = 1 << 31) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_default(value: Any) -> bool:
    """Return whether it asks for nothing: of a field that is not followed."""
    return value is False


REQUEST_FIELDS: Mapping[str, RequestField] = {
    each.name: each
    for each in (
        RequestField("n", "requests", _is_whole(1, MOST_ANSWERS), "every answer is an engine request"),
        RequestField("use_beam_search", "requests", _is_default, "every beam is an engine request in every step"),
        RequestField(
            "prompt_logprobs", "lookup", _is_whole(-1), "the request reads no cache, and no counter includes it"
        ),
        RequestField("echo", "lookup", _is_truth, "with logprobs, the same as prompt_logprobs"),
        RequestField("logprobs", "lookup", lambda value: isinstance(value, int), "only together with echo"),
        RequestField("top_logprobs", "lookup", _is_whole(-1), "only together with echo, in a chat"),
        RequestField("truncate_prompt_tokens", "prompt", _is_whole(1), "limits the prompt tokens that are read"),
        RequestField("truncation_side", "prompt", ("left", "right").__contains__, "the side that truncation cuts"),
        RequestField("add_special_tokens", "prompt", _is_truth, "adds BOS to the text", tokenized=True),
        RequestField("add_generation_prompt", "prompt", _is_truth, "a variable of the chat template", tokenized=True),
        RequestField("continue_final_message", "prompt", _is_truth, "the last message stays open", tokenized=True),
        RequestField("documents", "prompt", lambda value: isinstance(value, list), "a variable of the chat template"),
        RequestField("reasoning_effort", "prompt", lambda value: isinstance(value, str), "a variable of the template"),
        RequestField(
            "priority", "order", _is_whole(-(1 << 31)), "lower ones go first, if the server schedules by priority"
        ),
        RequestField("chat_template", "prompt", _is_default, "replaces the template for one request"),
        RequestField("prompt_embeds", "prompt", _is_default, "a prompt without tokens"),
    )
}


def request_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return these fields of a request's body; one that is null is not set, and a word is no priority of vLLM's."""
    found = {name: body[name] for name in REQUEST_FIELDS.keys() & body.keys() if body[name] is not None}
    return {name: value for name, value in found.items() if REQUEST_FIELDS[name].is_own(value)}


CLIENT_FIELDS = frozenset(each.name for each in REQUEST_FIELDS.values() if each.changes != "order")
"""Fields that only a client sets."""


def not_followed(fields: Fields) -> list[str]:
    """Return names of fields with a value that changes what a server does and not what is predicted."""
    return [name for name, value in fields.items() if not REQUEST_FIELDS[name].takes(value)]


def requested_answers(fields: Fields) -> int:
    """Return how many answers a request asks for."""
    return int(_followed(fields, "n", 1))


def reads_cache(fields: Fields, *, chat: bool) -> bool:
    """Return whether an engine looks the prompt up: never where it must compute log probabilities of all its tokens."""
    if not fields:
        return True
    logprobs = _followed(fields, "prompt_logprobs", None)
    if logprobs is None and _followed(fields, "echo", default=False):
        logprobs = _followed(fields, "top_logprobs" if chat else "logprobs", None)
    return logprobs is None


def priority(fields: Fields) -> int:
    """Return the priority of a request in the queue of a server that schedules by it; the lowest number goes first."""
    return int(_followed(fields, "priority", 0))


def is_streamed(fields: Fields) -> bool:
    """Return whether a server streams the answer; it refuses to for log probabilities of the prompt, and does not for beams."""
    return not fields.get("prompt_logprobs") and not fields.get("use_beam_search")


def special_tokens(fields: Fields, *, chat: bool) -> bool:
    """Return whether the tokenizer adds its special tokens. Chat templates write their own."""
    return bool(_followed(fields, "add_special_tokens", not chat))


def generation_prompt(fields: Fields) -> bool:
    """Return whether the chat template writes the beginning of the answer."""
    return bool(_followed(fields, "add_generation_prompt", default=True))


def continues_final_message(fields: Fields) -> bool:
    """Return whether the answer goes on with the last message."""
    return bool(_followed(fields, "continue_final_message", default=False))


def template_variables(fields: Fields) -> dict[str, Any]:
    """Return the fields as variables of the chat template."""
    return {name: fields[name] for name in _TEMPLATE_VARIABLES if _followed(fields, name, None) is not None}


@dataclass(frozen=True, slots=True)
class Truncation:
    """So many tokens of a prompt are read: the last ones, unless `side` is right. Without a side special tokens stay."""

    tokens: int
    side: Literal["left", "right"] | None = None


def truncation(fields: Fields) -> Truncation | None:
    """Return how the prompt is truncated; None where all of it is read."""
    tokens = _followed(fields, "truncate_prompt_tokens", None)
    return None if tokens is None else Truncation(tokens, _followed(fields, "truncation_side", None))


def _followed(fields: Fields, name: str, default: Any) -> Any:
    """Return the value of a field where it is followed, else the default."""
    value = fields.get(name)
    return value if value is not None and REQUEST_FIELDS[name].takes(value) else default


def engine_requests(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Yield the requests of an engine for these calls, in the order in which it gets them."""
    for turn in turns:
        count = requested_answers(turn.fields) if turn.fields else 1
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
    """Return the number of the answer whose cached tokens the usage of the call has: the answer that ended last; of a stream,
    of the one that began first."""
    if turn.call.streamed:
        return 0
    lengths = [len(answer.ids) if answer.ids is not None else 0 for answer in answers]
    return max(range(len(answers)), key=lambda at: (lengths[at], at))


def without_billing_header(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Yield the same calls without the billing header of Anthropic's API, which neither vLLM nor the provider has in a prompt."""
    for turn in turns:
        first = turn.messages[0] if turn.call.system_blocks and turn.messages else {}
        content: Any = first.get("content")
        kept = [part for part in content if not _is_billing_header(part)] if isinstance(content, list) else content
        if turn.messages and kept != content:
            headers = len(content) - len(kept)
            head = [{**first, "content": kept}] if kept else []
            turn = turn.with_messages([*head, *turn.messages[1:]])
            turn.call = replace(turn.call, headers=headers)
        yield turn


def _is_billing_header(part: object) -> bool:
    text = part.get("text") if isinstance(part, dict) else None
    return isinstance(text, str) and text.startswith(BILLING_HEADER)
