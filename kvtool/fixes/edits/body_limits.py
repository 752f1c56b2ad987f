"""Check the body of a request against its provider's published limits: what the API would refuse, with the place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from kvtool.accounting.caches.dated_rules import find_rule
from kvtool.accounting.hosted_models import hosted_model
from kvtool.text.cache_marks import MOST_MARKS

_CLAUDE_MARK, _OPENAI_MARK, _OPENAI_OPTIONS = "cache_control", "prompt_cache_breakpoint", "prompt_cache_options"
_TTLS = {"5m": 1, "1h": 2}
"""Times to live of Anthropic, a longer one with a larger number."""
_THINKING = ("thinking", "redacted_thinking")
_CACHED = ("cachedContent", "cached_content")
_BESIDE_CACHE = ("systemInstruction", "system_instruction", "tools", "toolConfig", "tool_config")
_DEPTH = 4
"""Objects around the body of a request in a record."""


class _Marked(NamedTuple):
    """A block with a mark: its place, its mark, and whether it is inside the result of a tool."""

    place: str
    block: dict[str, Any]
    mark: Any
    inside: bool = False


def refusals(body: Any, before: Any = None) -> list[str]:
    """Return why an API refuses a body, or takes it for another than the one `before`; nothing for one that it takes.

    - Claude: at most 4 blocks with `cache_control`, none of them empty or with thinking, a longer time to live before a shorter one
      (platform.claude.com/docs/en/build-with-claude/prompt-caching; the refusals word for word: anthropics/claude-code#50082,
      UKGovernmentBEIS/inspect_ai#3967, continuedev/continue#6937). Blocks with thinking come back as they were
      (platform.claude.com/docs/en/build-with-claude/extended-thinking; anomalyco/opencode#23574).
    - OpenAI, only GPT-5.6 and later (openai-python 3.57, PromptCacheOptions): at most 4 `prompt_cache_breakpoint`, none on an
      answer of the model (docs.rs/async-openai/0.42.0, PromptCacheOptionsParam; docs.langchain4j.dev,
      OpenAiOfficialPromptCacheBreakpoint); instructions are a text (developers.openai.com/api/reference/responses).
    - Gemini: a request with `cachedContent` has no system instruction and no tools beside it; signed parts come back as they were
      (ai.google.dev/gemini-api/docs/caching; ai.google.dev/gemini-api/docs/thought-signatures).
    """
    found = [*_marks_refused(body), *_generation_refused(body), *_cache_refused(body)]
    if before is not None:
        found += _changes_refused(before, body)
    return found


def record_refusals(before: Any, after: Any) -> list[str]:
    """Return the same of every body in a record that was edited."""
    pairs = zip(_bodies(before), _bodies(after), strict=False)
    return [refusal for old, new in pairs for refusal in refusals(new, old)]


def _bodies(value: Any, depth: int = _DEPTH) -> Iterator[dict[str, Any]]:
    if isinstance(value, list) and depth:
        for each in value:
            yield from _bodies(each, depth - 1)
    if not isinstance(value, dict):
        return
    if any(isinstance(value.get(name), list) for name in ("messages", "contents", "input")):
        yield value
    elif depth:
        for each in value.values():
            yield from _bodies(each, depth - 1)


def _marks_refused(body: dict[str, Any]) -> Iterator[str]:
    for name in (_CLAUDE_MARK, _OPENAI_MARK):
        marked = list(_marked(body, name))
        count = len(marked) + (
            name == _CLAUDE_MARK and bool(body.get(name))
        )  # one for the whole request takes a place, too
        if count > MOST_MARKS:
            yield f"{count} cache breakpoints ({name}), {MOST_MARKS} are allowed"
    if isinstance(body.get("instructions"), list):
        yield "instructions: they are a text, not blocks"
    longest_before: dict[str, Any] | None = None
    for each in _marked(body, _CLAUDE_MARK):
        if each.block.get("type") in _THINKING:
            yield f"{each.place}: a block with thinking takes no cache breakpoint"
        if each.block.get("type") == "text" and not str(each.block.get("text") or "").strip():
            yield f"{each.place}: an empty block takes no cache breakpoint"
        ttl = each.mark.get("ttl", "5m") if isinstance(each.mark, dict) else "5m"
        if ttl not in _TTLS:
            yield f"{each.place}: the time to live is 5m or 1h, not {json.dumps(ttl)[:20]}"
        elif longest_before is not None and _TTLS[ttl] > longest_before["size"]:
            yield f"{each.place}: a cache breakpoint for {ttl} comes after one for {longest_before['ttl']}"
        else:
            longest_before = {"ttl": ttl, "size": _TTLS[ttl]}
    for place, message in _messages(body):
        if place.startswith("input") and any(block.get("type") == "text" for _, block in _blocks(place, message)):
            yield f"{place}: a text of the Responses API is an input_text"
        if _is_claude(body) and message.get(_CLAUDE_MARK):
            yield f"{place}: a cache breakpoint belongs on a block of the content"
        answers = message.get("role") in ("assistant", "model")
        if answers and any(each.get(_OPENAI_MARK) for _, each in _blocks(place, message)):
            yield f"{place}: an answer of the model takes no cache breakpoint"


def _generation_refused(body: dict[str, Any]) -> Iterator[str]:
    """Yield what OpenAI's models take only since GPT-5.6."""
    model = body.get("model")
    row = find_rule(model, None, None) if isinstance(model, str) else None
    if row is None or row.provider != "openai" or row.rules.implicit:
        return
    if body.get(_OPENAI_OPTIONS) or any(_marked(body, _OPENAI_MARK)):
        yield f"{model} takes no cache breakpoints: only GPT-5.6 and later do"


def _cache_refused(body: dict[str, Any]) -> Iterator[str]:
    holder = {**body, **(body["config"] if isinstance(body.get("config"), dict) else {})}
    if any(holder.get(name) for name in _CACHED):
        for name in _BESIDE_CACHE:
            if holder.get(name):
                yield f"{name}: a request with cached content has none beside it"


def _changes_refused(before: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
    if _signed(before) != _signed(body):
        yield "blocks with thinking or a signature changed or moved"
    inside = [each.place for each in _marked(body, _CLAUDE_MARK) if each.inside]
    if inside and len(inside) > sum(each.inside for each in _marked(before, _CLAUDE_MARK)):
        yield f"{inside[-1]}: a cache breakpoint belongs on the result of a tool, not inside it"
    if len(list(_empty(body))) > len(list(_empty(before))):
        yield f"{next(_empty(body))}: an empty block"
    if any(before.get(name) != body.get(name) for name in _CACHED):
        yield "the name of the cached content changed"


def _empty(body: dict[str, Any]) -> Iterator[str]:
    """Yield the places of blocks of text without text."""
    for place, message in _messages(body):
        for where, block in _blocks(place, message):
            if "text" in block and not str(block["text"] or "").strip():
                yield where


def _signed(body: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Return the blocks that come back as they were: by number of the answer and of the block in it."""
    answers = [(place, each) for place, each in _messages(body) if each.get("role") in ("assistant", "model")]
    return [
        (number, at, json.dumps({key: value for key, value in block.items() if key != _CLAUDE_MARK}, sort_keys=True))
        for number, (place, answer) in enumerate(answers)
        for at, (_, block) in enumerate(_blocks(place, answer))
        if block.get("type") in _THINKING
        or any(block.get(key) for key in ("signature", "thoughtSignature", "thought_signature"))
    ]


def _marked(body: dict[str, Any], name: str) -> Iterator[_Marked]:
    """Yield the marked blocks in the order in which the API reads them: tools, system, messages."""
    for at, tool in enumerate(_objects(body.get("tools"))):
        inner = tool.get("function")
        for holder in (tool, *([inner] if isinstance(inner, dict) else [])):
            if holder.get(name):
                yield _Marked(f"tools[{at}]", holder, holder[name])
    for at, block in enumerate(_objects(body.get("system"))):
        if block.get(name):
            yield _Marked(f"system[{at}]", block, block[name])
    for place, message in _messages(body):
        if message.get(name):
            yield _Marked(place, message, message[name])
        for where, block in _blocks(place, message):
            results = _objects(block.get("content")) if block.get("type") == "tool_result" else []
            for number, each in enumerate(results):
                if each.get(name):
                    yield _Marked(f"{where}.content[{number}]", each, each[name], inside=True)
            if block.get(name):
                yield _Marked(where, block, block[name])


def _messages(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ("messages", "contents", "input"):
        for at, message in enumerate(_objects(body.get(name))):
            yield f"{name}[{at}]", message


def _blocks(place: str, message: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ("content", "parts"):
        for at, block in enumerate(_objects(message.get(name))):
            yield f"{place}.{name}[{at}]", block


def _objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; another thing takes the place of what is none, so that numbers stay."""
    return [each if isinstance(each, dict) else {} for each in value] if isinstance(value, list) else []


def _is_claude(body: dict[str, Any]) -> bool:
    model = body.get("model")
    return isinstance(model, str) and hosted_model(model).provider == "anthropic" and "system" in body
