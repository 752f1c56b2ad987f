"""Fields of a request that change its prompt, what it reads of the cache, or how many requests an engine makes of it.

They are those of vLLM's OpenAI-compatible server, read in vLLM 0.33 and compared with the answers of vLLM 0.32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

MOST_ANSWERS = 128
"""Answers that one request may ask for (OpenAI's limit)."""

Changes = Literal["prompt", "lookup", "requests"]
Fields = Mapping[str, Any]
"""Fields of one request by their names, as its client sent them."""


@dataclass(frozen=True, slots=True)
class RequestField:
    """A field, what it changes, the values that are followed, and whether the server's `/tokenize` takes it, too."""

    name: str
    changes: Changes
    takes: Callable[[Any], bool]
    does: str
    tokenized: bool = False

    @property
    def followed(self) -> bool:
        """Whether any value that asks for something is followed."""
        return self.takes is not _is_default


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def _is_whole(least: int, most: int = 1 << 31) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_default(value: Any) -> bool:
    """Whether it asks for nothing: of a field that is not followed."""
    return value is False


REQUEST_FIELDS: Mapping[str, RequestField] = {
    each.name: each
    for each in (
        RequestField("n", "requests", _is_whole(1, MOST_ANSWERS), "every answer is a request of the engine"),
        RequestField("use_beam_search", "requests", _is_default, "every beam is a request in every step"),
        RequestField("prompt_logprobs", "lookup", _is_whole(-1), "the request reads no cache, and no counter has it"),
        RequestField("echo", "lookup", _is_truth, "with logprobs, the same as prompt_logprobs"),
        RequestField("logprobs", "lookup", lambda value: isinstance(value, int), "only together with echo"),
        RequestField("top_logprobs", "lookup", _is_whole(-1), "only together with echo, in a chat"),
        RequestField("truncate_prompt_tokens", "prompt", _is_whole(1), "only so many tokens of the prompt are read"),
        RequestField("truncation_side", "prompt", ("left", "right").__contains__, "which tokens truncation drops"),
        RequestField("add_special_tokens", "prompt", _is_truth, "whether BOS is added to the text", tokenized=True),
        RequestField("add_generation_prompt", "prompt", _is_truth, "a variable of the chat template", tokenized=True),
        RequestField("continue_final_message", "prompt", _is_truth, "the last message stays open", tokenized=True),
        RequestField("documents", "prompt", lambda value: isinstance(value, list), "a variable of the chat template"),
        RequestField("reasoning_effort", "prompt", lambda value: isinstance(value, str), "a variable of the template"),
        RequestField("chat_template", "prompt", _is_default, "another template for one request"),
        RequestField("prompt_embeds", "prompt", _is_default, "a prompt that has no tokens"),
    )
}
_TEMPLATE_VARIABLES = ("documents", "reasoning_effort")


def request_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields of a request's body; one that is null is not set."""
    return {name: body[name] for name in REQUEST_FIELDS.keys() & body.keys() if body[name] is not None}


def not_followed(fields: Fields) -> list[str]:
    """Names of fields with a value that changes what a server does and not what is predicted."""
    return [name for name, value in fields.items() if not REQUEST_FIELDS[name].takes(value)]


def answers_asked(fields: Fields) -> int:
    """How many answers a request asks for."""
    return int(_followed(fields, "n", 1))


def reads_cache(fields: Fields, *, chat: bool) -> bool:
    """Whether an engine looks the prompt up: never where it must compute log probabilities of all its tokens."""
    if not fields:
        return True
    logprobs = _followed(fields, "prompt_logprobs", None)
    if logprobs is None and _followed(fields, "echo", default=False):
        logprobs = _followed(fields, "top_logprobs" if chat else "logprobs", None)
    return logprobs is None


def is_streamed(fields: Fields) -> bool:
    """Whether a server streams the answer; it refuses to for log probabilities of the prompt, and does not for beams."""
    return not fields.get("prompt_logprobs") and not fields.get("use_beam_search")


def special_tokens(fields: Fields, *, chat: bool) -> bool:
    """Whether the tokenizer adds its special tokens. Chat templates write their own."""
    return bool(_followed(fields, "add_special_tokens", not chat))


def generation_prompt(fields: Fields) -> bool:
    """Whether the chat template writes the beginning of the answer."""
    return bool(_followed(fields, "add_generation_prompt", default=True))


def continues_final_message(fields: Fields) -> bool:
    """Whether the answer goes on with the last message."""
    return bool(_followed(fields, "continue_final_message", default=False))


def template_variables(fields: Fields) -> dict[str, Any]:
    """What the fields say to the chat template."""
    return {name: fields[name] for name in _TEMPLATE_VARIABLES if _followed(fields, name, None) is not None}


@dataclass(frozen=True, slots=True)
class Truncation:
    """So many tokens of a prompt are read: the last ones, unless `side` is right. Without a side special tokens stay."""

    tokens: int
    side: Literal["left", "right"] | None = None


def truncation(fields: Fields) -> Truncation | None:
    """How the prompt is truncated; None where all of it is read."""
    tokens = _followed(fields, "truncate_prompt_tokens", None)
    return None if tokens is None else Truncation(tokens, _followed(fields, "truncation_side", None))


def _followed(fields: Fields, name: str, default: Any) -> Any:
    """The value of a field where it is followed, else the default."""
    value = fields.get(name)
    return value if value is not None and REQUEST_FIELDS[name].takes(value) else default
