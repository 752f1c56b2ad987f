"""Whether a log holds the whole of a prompt: parts that are no text, texts that a logger cut, fewer than the server counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from kvtool.text.message import Message, document_texts
from kvtool.workload.call import FEWER

CUT = "its text is cut"
NO_SYSTEM = "system prompt and tools are not in the file"
NO_TOOLS = "tools are not in the file"
NO_PROMPT = "prompts are not in the file"
SUMMED = "each row sums requests, and prompts are not in the file"
LOOPED = "its usage sums the calls between the provider's own tools"
LOST = "earlier messages are not in the file"
_MARK = re.compile(
    r"(?:\.\.\.|…) ?[\[(<]?truncated\b[^\n]{0,40}$|[\[(<]truncated\b[^\n\])>]{0,40}[\])>]$", re.IGNORECASE
)
_ELLIPSIS = re.compile(r"\w…$")
_LEAST_CUT = 8  # characters: shorter texts are not checked
_LEAST_OF_LOGGERS = 48
"""Characters of a text that a logger ends with an ellipsis and nothing else: people end shorter ones so, too."""
_TAIL = 64  # characters in which a mark of a cut is looked for
_TOKENS_OF_ASCII, _TOKENS_OF_OTHER = 0.4, 1.5
"""More tokens a character than any prompt of some length has."""
_FAR, _MORE = 1.3, 200  # times, and tokens beyond, that a server counts more than the text can have
_TEXT_PARTS = frozenset(
    (
        *(
            None,
            "text",
            "input_text",
            "output_text",
            "refusal",
            "thinking",
            "redacted_thinking",
            "reasoning",
            "tool_use",
        ),
        *("tool_result", "tool_call", "function_call", "summary_text", "cache_point"),
    )
)
_PLAIN_KINDS = {"image_url": "image", "input_image": "image", "input_file": "file", "input_audio": "audio"}


def parts_not_counted(messages: Iterable[Message]) -> Counter[str]:
    """Return the parts of messages that are no text, by kind."""
    counts: Counter[str] = Counter()
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            _count(content, counts)
    return counts


def _count(parts: list[Any], counts: Counter[str]) -> None:
    for part in parts:
        if not isinstance(part, dict):
            continue
        kind = part.get("type")
        if kind == "tool_result" and isinstance(part.get("content"), list):
            _count(part["content"], counts)
        elif kind not in _TEXT_PARTS and isinstance(kind, str) and document_texts(part) is None:
            counts[kind_of_part(kind)] += 1


def kind_of_part(kind: str) -> str:
    """Return one word for a part of a prompt, whatever an API calls it; it is in outputs, so it is short and plain."""
    found = _PLAIN_KINDS.get(kind, kind)
    return found if re.fullmatch(r"[a-z0-9_.-]{1,40}", found) else "other"


def why_incomplete(texts: Sequence[str], prompt_tokens: int | None, *, uncounted: bool) -> str | None:
    """Return why these texts cannot be the whole prompt; None where nothing says so. Beside parts without text tokens tell
    nothing."""
    longest = max(map(len, texts), default=0)
    if any(is_cut(text, longest=len(text) == longest) for text in texts):
        return CUT
    if prompt_tokens is None or uncounted:
        return None
    most = 0.0
    for text in texts:
        size = len(text)
        ascii_ = size if text.isascii() else len(text.encode("ascii", "ignore"))
        most += ascii_ * _TOKENS_OF_ASCII + (size - ascii_) * _TOKENS_OF_OTHER
    return FEWER if prompt_tokens > _FAR * most and prompt_tokens > most + _MORE else None


def is_cut(text: str, *, longest: bool = True) -> bool:
    """Return whether a text ends as loggers end what they cut; `longest` of a prompt's, as what is cut at some length is no
    shorter."""
    if len(text) < _LEAST_CUT:
        return False
    tail = str.__str__(text)[-_TAIL:].rstrip()
    if tail[-1:] == "…":
        return longest and len(text) >= _LEAST_OF_LOGGERS and _ELLIPSIS.search(tail) is not None
    return tail[-1:] in (")", "]", ">", "d", "D") and _MARK.search(tail) is not None


def texts_of(messages: Iterable[Message]) -> list[str]:
    """Return all texts of messages, tool calls as they are written."""
    texts: list[str] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            texts.append(content)
        elif isinstance(content, list):
            texts += [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
        for call in message.get("tool_calls") or ():
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict) and isinstance(function.get("arguments"), str):
                texts.append(function["arguments"])
    return texts
