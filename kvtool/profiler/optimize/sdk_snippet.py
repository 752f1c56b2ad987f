"""The code that sends an optimized request, for the library in use: which block comes where, and which ones are marked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kvtool.fixes.turn_texts import INSTRUCTIONS
from kvtool.text.cache_marks import is_marked, marks_on
from kvtool.text.message import Message, role_of
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.profiler.optimize.request_diff import RequestEdit

Sdk = Literal["Anthropic", "OpenAI", "LiteLLM", "LangChain", "AI SDK"]

_MOVED = "changing_text"
_WORD = re.compile(r"\w+")
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


def sdk_of(edit: RequestEdit, formats: Sequence[str]) -> Sdk | None:
    """Return the library that sent a request, as far as its log shows it; else that of its API. None: no code of it is known."""
    model = edit.turn.call.model or ""
    if "gemini" in formats or "converse" in formats or "bedrock" in formats:
        return None
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
    tools = edit.edited.tools or []
    marked = bool(tools) and is_marked(tools[-1])
    if sdk == "AI SDK":
        return _typescript(said)
    lines = [f"tools[-1]{_key(name)} = {json.dumps(value)}" for name, value in _marks(tools[-1])] if marked else []
    if sdk == "LangChain":
        shown = [f"    {_langchain(each)}," if each is not None else "    *history," for each in said]
        return "\n".join([*lines, "llm.invoke([", *shown, "])"])
    if sdk == "Anthropic":
        system = [each for each in said[:1] if each is not None and each.role in INSTRUCTIONS]
        rest = said[len(system) :]
        lines.append("client.messages.create(")
        lines += ["    ...,  # model, max_tokens"] + ([f"    tools=tools,{_order(edit)}"] if tools else [])
        for each in system:
            lines += ["    system=[", *(line for block in each.blocks for line in _block(block, 8)), "    ],"]
        return "\n".join([*lines, "    messages=[", *_messages(rest), "    ],", ")"])
    call = "litellm.completion(" if sdk == "LiteLLM" else "client.chat.completions.create("
    head = [call, "    ...,  # model"] + ([f"    tools=tools,{_order(edit)}"] if tools else [])
    return "\n".join([*lines, *head, "    messages=[", *_messages(said), "    ],", ")"])


def _order(edit: RequestEdit) -> str:
    """Say that tools are sent in one order, where the edit changes theirs."""
    return "  # in the same order in all requests" if edit.turn.tools != edit.edited.tools else ""


def _key(name: str) -> str:
    return f"[{json.dumps(name)}]"


def _marks(block: Any) -> list[tuple[str, Any]]:
    return list(marks_on(block).items())


def _layout(before: Turn, after: Turn) -> list[_Said | None]:
    """Return the first instructions and what comes from the last question on, with None for the history between them."""
    old, new = before.messages or [], after.messages or []
    found: list[_Said | None] = []
    first = bool(new) and role_of(new[0]) in INSTRUCTIONS
    asked = max((at for at, each in enumerate(new) if role_of(each) not in ("assistant", *INSTRUCTIONS)), default=0)
    if first:
        found.append(_Said(role_of(new[0]), _blocks(old[0], new[0], "instructions")))
    start = max(asked, int(first))
    if start > int(first):
        found.append(None)
    for at in range(start, len(new)):
        was = old[at] if at < len(old) else None
        found.append(_Said(role_of(new[at]), _blocks(was, new[at], "question")))
    return found


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


def _block(block: _Block, indent: int) -> list[str]:
    """Return the lines of a block; its mark has a line of its own."""
    marks = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in block.mark.items()]
    lines = [f'{{"type": "text", "text": {_text(block)}', *marks]
    return [" " * indent + line + ("," if at + 1 < len(lines) else "},") for at, line in enumerate(lines)]


def _messages(said: Sequence[_Said | None]) -> list[str]:
    lines: list[str] = []
    for each in said:
        if each is None:
            lines.append("        *history,")
        elif len(each.blocks) == 1 and not each.blocks[0].mark:
            lines.append(f'        {{"role": "{each.role}", "content": {_text(each.blocks[0])}}},')
        else:
            lines.append(f'        {{"role": "{each.role}", "content": [')
            lines += [line for block in each.blocks for line in _block(block, 12)]
            lines.append("        ]},")
    return lines


_CLASSES = {"user": "HumanMessage", "assistant": "AIMessage", "tool": "ToolMessage"}


def _langchain(said: _Said) -> str:
    kind = _CLASSES.get(said.role, "SystemMessage")
    if len(said.blocks) == 1 and not said.blocks[0].mark:
        return f"{kind}(content={_text(said.blocks[0])})"
    blocks = "\n".join(line for block in said.blocks for line in _block(block, 8))
    return f"{kind}(content=[\n{blocks}\n    ])"


def _typescript(said: Sequence[_Said | None]) -> str:
    """Return the code of the AI SDK: marks are options of the provider; each block of instructions is a message of its own."""
    lines = ["await generateText({", "  ...options, // model", "  messages: ["]
    for each in said:
        if each is None:
            lines.append("    ...history,")
        elif each.role in INSTRUCTIONS:
            lines += [f'    {{ role: "system", content: {_camel(block)}{_option(block)} }},' for block in each.blocks]
        elif len(each.blocks) == 1 and not each.blocks[0].mark:
            lines.append(f'    {{ role: "{each.role}", content: {_camel(each.blocks[0])} }},')
        else:
            lines.append(f'    {{ role: "{each.role}", content: [')
            lines += [f'      {{ type: "text", text: {_camel(block)}{_option(block)} }},' for block in each.blocks]
            lines.append("    ] },")
    return "\n".join([*lines, "  ],", "})"])


def _camel(block: _Block) -> str:
    return ' + "\\n" + '.join("changingText" if name == _MOVED else name for name in block.names)


def _option(block: _Block) -> str:
    mark = block.mark.get("cache_control")
    if mark is None:
        return ""
    inner = ", ".join(f"{name}: {json.dumps(value)}" for name, value in mark.items()) if isinstance(mark, dict) else ""
    return f",\n      providerOptions: {{ anthropic: {{ cacheControl: {{ {inner} }} }} }}"
