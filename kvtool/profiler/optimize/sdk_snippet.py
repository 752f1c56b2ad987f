"""The code that sends an optimized request, for the library in use: which block comes where, and which ones are marked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kvtool.accounting.caches.breakpoints import takes_mark
from kvtool.fixes.edits.record_edits import changed_settings
from kvtool.fixes.turn_texts import INSTRUCTIONS, texts_of
from kvtool.text.cache_marks import marks_on
from kvtool.text.message import Message, role_of
from kvtool.text.terminal.numbers import in_words
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.profiler.optimize.request_diff import RequestEdit

Sdk = Literal["Anthropic", "OpenAI", "LiteLLM", "LangChain", "AI SDK", "google-genai"]

_MOVED = "changing_text"
_WORD = re.compile(r"\w+")
_WORDS_APART = re.compile(r"_(\w)")
_AI_SDK = '"ai.'


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of a message: the names of its texts, and its mark."""

    names: tuple[str, ...]
    mark: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Said:
    role: str
    blocks: list[_Block]


@dataclass(frozen=True, slots=True)
class _Kept:
    """Messages that are sent in the form that they have, by a name; `note` says what the last one gets."""

    name: str
    note: str = ""

    def line(self) -> str:
        return f"*{self.name},{f'  # {self.note}' if self.note else ''}"

    def typescript(self) -> str:
        return f"...{_camel(self.name)},{f' // {self.note}' if self.note else ''}"


_HISTORY = _Kept("history")
_PARENTS = _Kept("parent_history", "the parent's messages before the fork, unchanged")


def sdk_of(edit: RequestEdit, formats: Sequence[str]) -> Sdk | None:
    """Return the library that sent a request, as far as its log shows it; else that of its API. None: no code of it is known."""
    model = edit.turn.call.model or ""
    if "converse" in formats or "bedrock" in formats:
        return None
    if "gemini" in formats:
        return "google-genai"
    if "litellm" in formats or "/" in model:
        return "LiteLLM"
    if "langsmith" in formats or '"lc"' in (text := json.dumps(edit.before)[:100_000]):
        return "LangChain"
    if _AI_SDK in text:
        return "AI SDK"
    return "Anthropic" if model.startswith("claude") or "anthropic" in model else "OpenAI"


def snippet(edit: RequestEdit, sdk: Sdk) -> str:
    """Return the code; texts are variables, so that nothing of a prompt is in it."""
    said = _layout(edit.turn, edit.edited)
    settings = changed_settings(edit.turn, edit.edited)
    if sdk == "AI SDK":
        return _typescript(said, settings)
    tools = edit.edited.tools or []
    lines = [f"tools[-1]{_key(name)} = {json.dumps(value)}" for name, value in _marks(tools[-1])] if tools else []
    if sdk == "LangChain":
        shown = [f"    {each.line() if isinstance(each, _Kept) else f'{_langchain(each)},'}" for each in said]
        more = "".join(f", {name}={json.dumps(value)}" for name, value in settings.items())
        return "\n".join([*lines, "llm.invoke([", *shown, f"]{more})"])
    if sdk == "google-genai":
        return "\n".join(_gemini(said, has_tools=bool(tools)))
    responses = sdk == "OpenAI" and edit.turn.call.responses
    calls = {"Anthropic": "client.messages.create(", "LiteLLM": "litellm.completion("}
    head = calls.get(sdk, "client.responses.create(" if responses else "client.chat.completions.create(")
    lines += [head, f"    ...,  # model{', max_tokens' if sdk == 'Anthropic' else ''}"]
    lines += [f"    {name}={json.dumps(value)}," for name, value in settings.items()]
    lines += [f"    tools=tools,{_order(edit)}"] if tools else []
    system = [each for each in said[:1] if isinstance(each, _Said) and each.role in INSTRUCTIONS]
    if sdk == "Anthropic":
        for each in system:
            lines += ["    system=[", *(line for block in each.blocks for line in _block(block, 8)), "    ],"]
        said = said[len(system) :]
    elif responses and system and not takes_mark((edit.edited.messages or [{}])[0]):
        lines += [f"    instructions={_text(block)}," for block in system[0].blocks]
        said = said[len(system) :]
    return "\n".join(
        [*lines, f"    {'input' if responses else 'messages'}=[", *_messages(said, responses), "    ],", ")"]
    )


def named_cache_snippet(end: str, ttl: float) -> str:
    """Return the code of Google's client that makes a cache, names it in a request, and renews it."""
    kept = {"tools": "tools=tools", "system_instruction": "system_instruction=instructions, tools=tools"}
    content = kept.get(end, "system_instruction=instructions, tools=tools, contents=contents[:n]")
    sent = "contents[n:]" if end not in kept else "contents"
    count = 0 if end in kept else int(end.partition("[")[2].rstrip("]")) + 1
    head = [f"n = {count}  # contents that the cache holds"] if count else []
    return "\n".join([
        *head,
        "cache = client.caches.create(",
        "    model=model,",
        f'    config=types.CreateCachedContentConfig({content}, ttl="{ttl:.0f}s"),',
        ")",
        "client.models.generate_content(",
        "    model=model,",
        f"    contents={sent},",
        "    config=types.GenerateContentConfig(cached_content=cache.name),",
        ")",
        f'client.caches.update(name=cache.name, config=types.UpdateCachedContentConfig(ttl="{ttl:.0f}s"))',
    ])  # fmt: skip


def _order(edit: RequestEdit) -> str:
    """Say that tools are sent in one order, where the edit changes theirs."""
    return "  # in the same order in all requests" if edit.turn.tools != edit.edited.tools else ""


def _key(name: str) -> str:
    return f"[{json.dumps(name)}]"


def _marks(block: Any) -> list[tuple[str, Any]]:
    return list(marks_on(block).items())


def _layout(before: Turn, after: Turn) -> list[_Said | _Kept]:
    """Return the first instructions and what comes from the last question on, with the history between them.

    A result of a tool is no question: it belongs to a call, whose id only the caller knows, and so to the history.
    """
    old, new = before.messages or [], after.messages or []
    found: list[_Said | _Kept] = []
    first = bool(new) and role_of(new[0]) in INSTRUCTIONS
    asked = max((at for at, each in enumerate(new) if role_of(each) not in ("assistant", *INSTRUCTIONS)), default=0)
    task = _task_of_fork(before, after) if first else None
    if first:
        name = "instructions" if task is None else "parent_instructions"
        found.append(_Said(role_of(new[0]), _blocks(old[0], new[0], name)))
    begin = int(first)
    if task is not None:
        found += [_PARENTS, _Said(role_of(new[task]), [_Block(("task", "fork_instructions"), {})])]
        begin = task + 1
    start = max(asked, begin)
    if start > begin:
        found.append(_HISTORY)
    for at in range(start, len(new)):
        was = old[at] if at < len(old) else None
        said = _Said(role_of(new[at]), _blocks(was, new[at], "question"))
        if said.role == "tool":
            found = [*(each for each in found if each is not _HISTORY), _Kept(_HISTORY.name, _note(said))]
        else:
            found.append(_Kept("prefill", _note(said)) if said.role == "assistant" else said)
    return found


def _task_of_fork(before: Turn, after: Turn) -> int | None:
    """Return the number of the message that has the instructions of before, where others are sent in their place."""
    own = next((str.__str__(at.text) for at in texts_of(before) if at.message == 0), "")
    found = next((at.message for at in texts_of(after) if own.strip() and own in str.__str__(at.text)), None)
    return found or None


def _note(said: _Said) -> str:
    """Say what the edit puts at the end of a message, and its mark."""
    last = said.blocks[-1]
    notes = ["the changing text at its end"] if last.names[-1] == _MOVED else []
    notes += [f'"{name}": {json.dumps(value)}' for block in said.blocks for name, value in block.mark.items()]
    return f"the last one with {in_words(notes)}" if notes else ""


def _blocks(was: Message | None, now: Message, name: str) -> list[_Block]:
    content = now.get("content")
    parts: list[Any] = content if isinstance(content, list) else [{"text": content, **marks_on(now)}]
    before = was.get("content") if was is not None else None
    kept = before if isinstance(before, list) else [] if before is None else [{"text": before}]
    found = []
    for at, part in enumerate(parts):
        if at >= len(kept):
            names: tuple[str, ...] = (_MOVED,)
        else:
            number = str(at + 1) if len(kept) > 1 else ""
            names = (f"{name}{number}", _MOVED) if _ends_with_moved(kept[at], part) else (f"{name}{number}",)
        found.append(_Block(names, marks_on(part)))
    return found


def _ends_with_moved(before: Any, after: Any) -> bool:
    """Return whether a text ends with another line than before and has all its words: text moved there, from it or not.

    What is in another order inside of it ends as before, and a text in whose place another one is sent has lost its words.
    """
    old, new = (part.get("text") if isinstance(part, dict) else None for part in (before, after))
    if not isinstance(new, str):
        return False
    old = old if isinstance(old, str) else ""
    last = [str.__str__(text).rstrip().rpartition("\n")[2] for text in (old, new)]
    return last[0] != last[1] and _words(old) <= _words(new)


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text))


def _text(block: _Block) -> str:
    return ' + "\\n" + '.join(block.names)


def _block(block: _Block, indent: int, kind: str = "text") -> list[str]:
    """Return the lines of a block; its mark has a line of its own."""
    marks = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in block.mark.items()]
    lines = [f'{{"type": "{kind}", "text": {_text(block)}', *marks]
    return [" " * indent + line + ("," if at + 1 < len(lines) else "},") for at, line in enumerate(lines)]


def _messages(said: Sequence[_Said | _Kept], responses: bool) -> list[str]:
    lines: list[str] = []
    for each in said:
        if isinstance(each, _Kept):
            lines.append(f"        {each.line()}")
        elif len(each.blocks) == 1 and not each.blocks[0].mark:
            lines.append(f'        {{"role": "{each.role}", "content": {_text(each.blocks[0])}}},')
        else:
            lines.append(f'        {{"role": "{each.role}", "content": [')
            kind = "input_text" if responses else "text"
            lines += [line for block in each.blocks for line in _block(block, 12, kind)]
            lines.append("        ]},")
    return lines


def _gemini(said: Sequence[_Said | _Kept], *, has_tools: bool) -> list[str]:
    """Return the code of Google's client: instructions and tools are beside the contents."""
    system = [each for each in said[:1] if isinstance(each, _Said) and each.role in INSTRUCTIONS]
    config = [f"system_instruction={_text(block)}" for each in system for block in each.blocks[:1]]
    lines = ["client.models.generate_content(", "    model=model,", "    contents=["]
    for each in said[len(system) :]:
        if isinstance(each, _Kept):
            lines.append(f"        {each.line()}")
            continue
        parts = ", ".join(f"types.Part(text={_text(block)})" for block in each.blocks)
        lines.append(f'        types.Content(role="user", parts=[{parts}]),')
    config += ["tools=tools"] if has_tools else []
    return [*lines, "    ],", f"    config=types.GenerateContentConfig({', '.join(config)}),", ")"]


def _langchain(said: _Said) -> str:
    kind = "HumanMessage" if said.role == "user" else "SystemMessage"
    if len(said.blocks) == 1 and not said.blocks[0].mark:
        return f"{kind}(content={_text(said.blocks[0])})"
    blocks = "\n".join(line for block in said.blocks for line in _block(block, 8))
    return f"{kind}(content=[\n{blocks}\n    ])"


def _typescript(said: Sequence[_Said | _Kept], settings: Mapping[str, Any]) -> str:
    """Return the code of the AI SDK: marks and settings are options of the provider, blocks of instructions are messages."""
    lines = ["await generateText({", "  ...options, // model"]
    if settings:
        of = ", ".join(f"{_camel(name)}: {json.dumps(value)}" for name, value in settings.items())
        lines.append(f"  providerOptions: {{ openai: {{ {of} }} }},")
    system = [each for each in said[:1] if isinstance(each, _Said) and each.role in INSTRUCTIONS]
    for first in system:
        lines += ["  system: [", *_system(first), "  ],"]
    lines.append("  messages: [")
    for each in said[len(system) :]:
        if isinstance(each, _Kept):
            lines.append(f"    {each.typescript()}")
        elif each.role in INSTRUCTIONS:
            lines += _system(each)
        elif len(each.blocks) == 1 and not each.blocks[0].mark:
            lines.append(f'    {{ role: "{each.role}", content: {_camel(_text(each.blocks[0]))} }},')
        else:
            lines.append(f'    {{ role: "{each.role}", content: [')
            lines += [
                f'      {{ type: "text", text: {_camel(_text(block))}{_option(block)} }},' for block in each.blocks
            ]
            lines.append("    ] },")
    return "\n".join([*lines, "  ],", "})"])


def _system(said: _Said) -> list[str]:
    return [f'    {{ role: "system", content: {_camel(_text(block))}{_option(block)} }},' for block in said.blocks]


def _camel(name: str) -> str:
    return _WORDS_APART.sub(lambda found: found[1].upper(), name)


_OPTIONS = {"cache_control": "anthropic: { cacheControl", "prompt_cache_breakpoint": "openai: { promptCacheBreakpoint"}
"""How a mark's option begins in the AI SDK."""


def _option(block: _Block) -> str:
    found = next(
        ((name, mark) for name, mark in block.mark.items() if name in _OPTIONS and isinstance(mark, dict)), None
    )
    if found is None:
        return ""
    inner = ", ".join(f"{name}: {json.dumps(value)}" for name, value in found[1].items())
    return f",\n      providerOptions: {{ {_OPTIONS[found[0]]}: {{ {inner} }} }} }}"
