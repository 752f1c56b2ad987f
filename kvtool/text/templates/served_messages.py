"""Messages as a server gives them to a chat template: vLLM's (0.32, `renderers/chat_utils.py` and `renderers/hf.py`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import xxhash

from kvtool.errors import KvtoolError, Place
from kvtool.text.message import Message, document_texts
from kvtool.text.traced import Origin, Traced

Served = dict[str, object]

_BESIDE_CONTENT = frozenset(("type", "cache_control", "cachePoint", "id", "index"))
"""Fields of a part that are no part of what it shows."""


def served_messages(messages: Sequence[Message], *, parts: bool, developer: bool) -> list[Served]:
    """The messages as a template sees them, what stood in them with its origin.

    `parts`: the template reads a content as a list of parts (`reads_parts`), so that it gets one for a plain text, too; else parts
    are joined by line breaks. `developer`: it knows this role; to another such messages are of the system, and all those of the
    system one message, the first.
    """
    result = [_served(message, parts=parts) for message in messages]
    if developer or not any(message.get("role") == "developer" for message in result):
        return result
    for message in result:
        if message.get("role") == "developer":
            message["role"] = "system"
            message.pop("tools", None)
    return _one_system(result)


def _served(message: Message, *, parts: bool) -> Served:
    if not isinstance(message, Mapping):  # a log may hold anything
        raise KvtoolError(f"a message must be an object with `role` and `content`, not {json.dumps(message)[:40]}")
    result: Served = dict(message)
    texts = _texts(message.get("content"))
    if parts and message.get("role") != "tool":
        result["content"] = [{"type": "text", "text": text} for text in texts]
    else:
        result["content"] = texts[0] if len(texts) == 1 else Traced("\n").join(texts)
    calls = message.get("tool_calls")
    if isinstance(calls, list | tuple):
        result["tool_calls"] = [_call(call) for call in calls]
        if not calls:
            del result["tool_calls"]
    return result


def _texts(content: object) -> list[str]:
    if content is None:
        return []
    if isinstance(content, list | tuple):
        return [part_text(part) for part in content]
    return [content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)]


def _one_system(messages: list[Served]) -> list[Served]:
    said = [message for message in messages if message.get("role") == "system"]
    if len(said) == 1 and messages[0] is said[0]:
        return messages
    texts = [text for message in said if (text := _whole(message["content"]))]
    return [
        {"role": "system", "content": Traced("\n\n").join(texts)},
        *(message for message in messages if message.get("role") != "system"),
    ]


def _whole(content: object) -> str:
    """A content as one text, whichever form the template reads."""
    if isinstance(content, list):
        return Traced("\n").join([part["text"] for part in content])
    return content if isinstance(content, str) else ""


def part_text(part: object) -> str:
    """The text of a content part; `<image:2c9b1f07>` and the like for what is no text, the same for the same image alone.

    Engines hash what an image is with the tokens that mean it, so after another image nothing hits. A part that says
    nothing of its content (a log without data) is `<image>`. Its place is that of its `type`. The text of a document comes after
    what stands for its other fields.
    """
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return "<part>"
    text = part.get("text")
    if isinstance(text, str):
        return text
    kind = part.get("type", "part")
    said = {name: value for name, value in part.items() if name not in _BESIDE_CONTENT}
    texts = document_texts(part)
    if texts is not None:
        of = said.pop("content" if kind == "search_result" else "source")
        said |= (
            {name: value for name, value in of.items() if name not in ("data", "content")}
            if isinstance(of, Mapping)
            else {}
        )
    plain = str.__str__(str(kind)).removeprefix("input_").removesuffix("_url")
    stands = f"<{plain}:{_digest(said)}>" if said else f"<{plain}>"
    origin = kind.at(0)[0] if isinstance(kind, Traced) and kind else None
    written: str = Traced.of(stands, replace(origin, text="")) if origin is not None else stands
    return written if texts is None else Traced("\n").join([written, *texts])


def _digest(content: object) -> str:
    """Eight digits that tell one content from another."""
    plain = json.dumps(content, sort_keys=True, default=repr)
    return f"{xxhash.xxh3_64_intdigest(plain.encode()) >> 32:08x}"


def _call(call: object) -> object:
    """A tool call whose arguments are an object, as templates expect it: none where they are no JSON object."""
    if not isinstance(call, Mapping):
        return call
    result = dict(call)
    function = call.get("function")
    if isinstance(function, Mapping):
        result["function"] = {**function, "arguments": _arguments(function.get("arguments"))}
    elif "arguments" in call:  # the function itself, without its envelope
        result["arguments"] = _arguments(call["arguments"])
    return result


def _arguments(arguments: object) -> object:
    if isinstance(arguments, dict):
        return arguments
    if not isinstance(arguments, str):
        return {}
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    origin = arguments.at(0)[0] if isinstance(arguments, Traced) and arguments else None
    return _traced_leaves(parsed, replace(origin, verbatim=False, text="")) if origin else parsed


def _traced_leaves(value: object, origin: Origin) -> object:
    if isinstance(value, str):
        return Traced.of(value, origin)
    if isinstance(value, dict):
        return {key: _traced_leaves(item, origin) for key, item in value.items()}
    if isinstance(value, list):
        return [_traced_leaves(item, origin) for item in value]
    return value


def place_of(message: Mapping[str, object]) -> Place | None:
    """Return the place where the text of a message begins."""
    content = message.get("content")
    if isinstance(content, list) and content:
        content = content[0].get("text")
    if not isinstance(content, Traced) or not content:
        return None
    origin, offset = content.at(0)
    return Place(origin.path, *origin.position(offset)) if origin else None
