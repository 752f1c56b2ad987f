"""Edits of a logged request: the body that says what a fix made of its turn, with every other field as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kvtool.fixes.edits.record_calls import NotInRecordError, calls_of, change_calls, without_calls
from kvtool.fixes.turn_texts import texts_of
from kvtool.text.cache_marks import CACHE_MARKS, marks_on, without_marks
from kvtool.text.message import Message, role_of
from kvtool.text.traced import first_origin
from kvtool.workload.turn import Turn

Pointer = tuple[str | int, ...]
_TOOL_LISTS = ("tools", "functions")
_OF_RESPONSES = "input"
"""The name of the messages in OpenAI's Responses API, whose blocks of text have a type of their own."""
_CACHE_KEY = "prompt_cache_key"
_OF_RESULT = ("tool_result", "tool_use_id", "toolResult")


def edited_record(value: Any, before: Turn, after: Turn) -> Any:
    """Return a copy of the record's JSON value with what differs between the turns; raise NotInRecordError where that has no
    place in it.

    Every text of a turn knows where in the record it was read, so a change is made there, and new blocks are copies of the block
    beside them with another text.
    """
    if before.messages is None or after.messages is None:
        raise NotInRecordError("the request has no messages")
    record = _Record(json.loads(json.dumps(value)))
    record.change_settings(before, after)
    record.change_tools(before, after)
    change_calls(record.value, before, after)
    record.change_messages(before.messages, after.messages)
    return record.value


def same_prompt(one: Turn, other: Turn) -> bool:
    """Return whether two turns say the same in the same roles, with the same marks and settings: the proof of an edited record."""
    return all(found(one) == found(other) for found in (_said, _marks, _tools_in_order, calls_of, _settings))


def changed_settings(before: Turn, after: Turn) -> dict[str, Any]:
    """Return the fields of a body that choose a cache, with their new values."""
    known = _settings(before)
    return {name: value for name, value in _settings(after).items() if value != known[name]}


def _settings(turn: Turn) -> dict[str, Any]:
    settings = turn.call.settings
    return {
        _CACHE_KEY: turn.call.scope.key,
        "prompt_cache_retention": settings.retention,
        "prompt_cache_options": {"mode": settings.cache_mode},
    }


def _said(turn: Turn) -> list[tuple[str, str]]:
    return [(at.role, str.__str__(at.text)) for at in texts_of(turn) if at.text]


def _marks(turn: Turn) -> list[dict[str, Any]]:
    found = []
    for message in turn.messages or ():
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        found += [marks for each in (*parts, message) if (marks := marks_on(each))]
    return found


def _tools(turn: Turn) -> str:
    return json.dumps(turn.tools or [], default=repr)


def _tools_in_order(turn: Turn) -> list[str]:
    """Return the definition of each tool without the order of its keys: that around a definition is the reader's."""
    return [json.dumps(tool, sort_keys=True, default=repr) for tool in turn.tools or ()]


class _Record:
    """The JSON value of a record while it is changed."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._before = json.loads(json.dumps(value))

    def at(self, pointer: Pointer) -> Any:
        found = self.value
        for step in pointer:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError) as error:
                raise NotInRecordError("its text is not in the record itself") from error
        return found

    def locate(self, text: str) -> Pointer:
        """Return where a text of the request is: where it was read, else where the record has the same text, or what it is the JSON
        of, as Gemini's results of tools: the last one that is as it was, as messages are changed from the last one on.
        """
        origin = first_origin(text)
        plain = str.__str__(text)
        if origin is not None and origin.pointer:
            try:
                if self.at(origin.pointer) == plain:
                    return origin.pointer
            except NotInRecordError:
                pass  # it was read out of a text, or by another name
        found = next((place for place, leaf in _leaves(self._before) if leaf == plain), None)
        if found is None and plain.startswith("{"):
            places = [place for place, each in _objects(self._before) if _json(each) == plain]
            found = next((place for place in reversed(places) if _json(self.at(place)) == plain), None)
        elif found is not None and self.at(found) != plain:
            found = None
        if found is None:
            raise NotInRecordError("its text is not in the record itself")
        return found

    def change_messages(self, before: Sequence[Message], after: Sequence[Message]) -> None:
        """Change each message, the last first, as parts that go or come move those after them."""
        pairs, added = _paired(before, after)
        for at in reversed(range(len(after))):
            if at in added:
                self._add_message(before, added[at], after[at])
            elif (was := before[pairs[at]]) is not after[at] and without_calls(was) != without_calls(after[at]):
                self._change(was, after[at])

    def _change(self, was: Message, now: Message) -> None:
        old, new = was.get("content"), now.get("content")
        if isinstance(old, str):
            self._change_text(was, now, old, new)
            return
        if not isinstance(old, list) or not isinstance(new, list):
            raise NotInRecordError("its content is of no known form")
        steps = list(_aligned(old, new))
        first = next((self.locate(part["text"]) for part in old if _text_of(part) is not None), None)
        if first is None:
            raise NotInRecordError("no place of its text is known")
        depth = _index_of_part(first)
        parts, sample = self.at(first[:depth]), self.at(first[: depth + 1])
        places = [None if _text_of(part) is None else self.locate(part["text"]) for part in old]
        made: dict[int, list[Any]] = {}
        removed: list[int] = []
        after = _int(first[depth]) - 1
        for was_part, now_part in steps:
            place = None if was_part is None else places[was_part]
            if was_part is None:
                made.setdefault(after, []).append(_new_block(sample, now_part))
            elif place is not None:
                after = _int(place[depth])
                if now_part is None:
                    removed.append(after)
                elif old[was_part] != now_part:
                    self._change_part(old[was_part], now_part, place)
        for at in sorted({*made, *removed}, reverse=True):
            parts[at + 1 : at + 1] = made.get(at, [])
            if at in removed:
                del parts[at]

    def _change_part(self, part: Any, other: Any, place: Pointer) -> None:
        text = other.get("text")
        if isinstance(text, str) and isinstance(part.get("text"), str) and part["text"] != text:
            self.at(place[:-1])[place[-1]] = str.__str__(text)
        if marks_on(part) != marks_on(other):
            _set_marks(self.at(place[:-1]), marks_on(part), marks_on(other))

    def _change_text(self, was: Message, now: Message, old: str, new: Any) -> None:
        place = self.locate(old)
        holder, key = self.at(place[:-1]), place[-1]
        if isinstance(new, str):
            holder[key] = str.__str__(new) if isinstance(holder[key], str) else _parsed(new)
            if marks_on(was) != marks_on(now):
                _set_marks(holder, marks_on(was), marks_on(now))
            return
        if not isinstance(new, list) or not isinstance(holder, dict):
            raise NotInRecordError("its content is of no known form")
        kind = {"type": "input_text"} if _OF_RESPONSES in place else {}
        holder[key] = [{**part, **kind, "text": str.__str__(part["text"])} for part in new]
        _set_marks(holder, marks_on(was), marks_on(now))

    def _add_message(self, before: Sequence[Message], after_number: int, message: Message) -> None:
        """Add a message after that of a number; blocks beside results of tools go into the message that holds these."""
        place = next((self.locate(text) for text in _texts_of(before[after_number])), None)
        at = next((n for n, step in enumerate(place or ()) if n and isinstance(step, int)), None)
        if place is None or at is None:
            raise NotInRecordError("its messages are no list")
        content = message.get("content")
        texts = [content] if isinstance(content, str) else [part["text"] for part in content or []]
        items, number = self.at(place[:at]), _int(place[at])
        raw = items[number]
        inner = raw.get("content") if isinstance(raw, dict) else None
        if role_of(message) == "user" and isinstance(inner, list) and any(map(_is_result, inner)):
            inner.extend({"type": "text", "text": str.__str__(text)} for text in texts)
            return
        if not isinstance(inner, str | list) or place[0] == "contents":
            raise NotInRecordError("its messages are of another form")
        if isinstance(inner, list) and role_of(message) == role_of(before[after_number]):
            said: Any = [_block_like(inner[-1], str.__str__(text)) for text in texts]
        elif isinstance(content, list):
            kind = "input_text" if _OF_RESPONSES in place else "text"
            said = [{"type": kind, "text": str.__str__(part["text"]), **marks_on(part)} for part in content]
        else:
            said = "\n".join(map(str.__str__, texts))
        items.insert(number + 1, {"role": role_of(message), "content": said})

    def change_tools(self, before: Turn, after: Turn) -> None:
        """Put the tools in their new order, with their marks and definitions."""
        if before.tools is after.tools or _tools(before) == _tools(after):
            return
        old, new = before.tools or [], after.tools or []
        raw = self._raw_tools(before, len(old))
        if len(old) != len(new):
            raise NotInRecordError("its tools are not one to one")
        bare = [_canonical(tool) for tool in old]
        made = []
        for tool in new:
            name = _canonical(tool)
            if name not in bare:
                raise NotInRecordError("a tool is defined otherwise")
            at = bare.index(name)
            bare[at] = ""
            made.append(_like(raw[at], old[at], tool))
        raw[:] = made

    def change_settings(self, before: Turn, after: Turn) -> None:
        """Write into the body what decides which cache the request reads, who sets its marks, and how long they are kept."""
        wanted = changed_settings(before, after)
        body = self._body(before) if wanted else {}
        for name, value in wanted.items():
            if name == _CACHE_KEY and name not in body:
                raise NotInRecordError("its cache key is not in the body")
            body[name] = {**(body.get(name) or {}), **value} if isinstance(value, dict) else value

    def _body(self, turn: Turn) -> dict[str, Any]:
        """Return the object that holds the messages."""
        for place in (self.locate(text) for message in turn.messages or () for text in _texts_of(message)):
            at = next((n for n, step in enumerate(place) if isinstance(step, int)), len(place))
            if at and isinstance(body := self.at(place[: at - 1]), dict):
                return body
        raise NotInRecordError("its messages are no list")

    def _raw_tools(self, turn: Turn, count: int) -> list[Any]:
        place = next((self.locate(text) for message in turn.messages or () for text in _texts_of(message)), ())
        at = next((n for n, step in enumerate(place) if isinstance(step, int)), len(place))
        for depth in range(min(at, len(place)), -1, -1):
            holder = self.at(place[:depth])
            for name in _TOOL_LISTS if isinstance(holder, dict) else ():
                found = [each for each in _tool_lists(holder.get(name)) if len(each) == count]
                if found:
                    return found[0]
        raise NotInRecordError("its tools are somewhere else")


def _tool_lists(tools: Any) -> Iterator[list[Any]]:
    """Yield the list of a body's tools, and those that are all of one of its items, as in Gemini's API."""
    if isinstance(tools, list):
        yield tools
        if len(tools) == 1 and isinstance(tools[0], dict):
            yield from (each for each in tools[0].values() if isinstance(each, list))


def _paired(before: Sequence[Message], after: Sequence[Message]) -> tuple[dict[int, int], dict[int, int]]:
    """Return by the number of a later message the number of the earlier one that it is, and after which one a new one comes."""
    pairs: dict[int, int] = {}
    added: dict[int, int] = {}
    number = 0
    for at, message in enumerate(after):
        spare = len(after) - at - (len(before) - number)
        if number < len(before) and (spare <= 0 or _is_same(before[number], message)):
            pairs[at] = number
            number += 1
        elif number and spare > 0:
            added[at] = number - 1
        else:
            raise NotInRecordError("messages were taken out")
    if number != len(before):
        raise NotInRecordError("messages were taken out")
    return pairs, added


def _aligned(old: Sequence[Any], new: Sequence[Any]) -> Iterator[tuple[int | None, Any]]:
    """Yield the number of each earlier part with what it is now (None: nothing), and None with each part that is new."""
    at = 0
    for part in new:
        found = next((n for n in range(at, len(old)) if part is old[n] or part == old[n] or _is_of(old[n], part)), None)
        if found is None:
            yield None, part
            continue
        yield from ((gone, None) for gone in range(at, found))
        yield found, part
        at = found + 1
    yield from ((gone, None) for gone in range(at, len(old)))


def _is_same(was: Message, now: Message) -> bool:
    """Return whether a message is an earlier one, changed or not."""
    if was is now or was == now:
        return True
    origins = [{id(first_origin(text)) for text in _texts_of(message)} for message in (was, now)]
    return role_of(was) == role_of(now) and bool(origins[0] & origins[1])


def _texts_of(message: Message) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [text for part in parts if (text := _text_of(part)) is not None]


def _text_of(part: Any) -> str | None:
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else None


def _is_of(part: Any, other: Any) -> bool:
    """Return whether a later part is an earlier one with another text: its first character was read at the same place."""
    texts = _text_of(part), _text_of(other)
    return (
        texts[0] is not None and texts[1] is not None and first_origin(texts[0]) is first_origin(texts[1]) is not None
    )


def _leaves(value: Any, place: Pointer = ()) -> Iterator[tuple[Pointer, str]]:
    """Yield all texts of a JSON value with their places."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, (*place, name))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _leaves(each, (*place, at))


def _objects(value: Any, place: Pointer = ()) -> Iterator[tuple[Pointer, dict[str, Any]]]:
    """Yield all objects of a JSON value with their places."""
    if isinstance(value, dict):
        yield place, value
    for name, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _objects(each, (*place, name))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _parsed(text: str) -> Any:
    """Return the object that a text is the JSON of."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise NotInRecordError("its content is of no known form") from error


def _index_of_part(place: Pointer) -> int:
    """Return how long the part of a pointer is that leads to the list of parts."""
    return max(n for n, step in enumerate(place) if isinstance(step, int))


def _int(step: str | int) -> int:
    assert isinstance(step, int), "a place in a list"
    return step


def _new_block(sample: Any, part: Any) -> Any:
    """Return a block with the text and the marks of a new part, in the form of the one beside it."""
    block = _block_like(sample, str.__str__(part["text"]))
    return {**block, **marks_on(part)} if isinstance(block, dict) else block


def _block_like(sample: Any, text: str) -> Any:
    """Return a block with a text, in the form of the one beside it, without its mark."""
    if isinstance(sample, str):
        return text
    if isinstance(sample, dict) and isinstance(sample.get("text"), str):
        return {**{key: value for key, value in without_marks(sample).items() if key in ("type", "text")}, "text": text}
    return {"type": "text", "text": text}


def _set_marks(block: Any, old: dict[str, Any], new: dict[str, Any]) -> None:
    if not isinstance(block, dict) or any(name not in block for name in old):
        raise NotInRecordError("its cache breakpoint is somewhere else")
    for name in CACHE_MARKS:
        block.pop(name, None)
    block.update(new)


def _is_result(part: Any) -> bool:
    return isinstance(part, dict) and (part.get("type") in _OF_RESULT or any(name in part for name in _OF_RESULT))


def _canonical(tool: Any) -> str:
    return json.dumps(without_marks(tool), sort_keys=True, default=repr)


def _like(raw: Any, old: Any, new: Any) -> Any:
    """Return the raw tool with the marks of the new one, and its keys in order where those of the new one are."""
    if json.dumps(without_marks(old), default=repr) != json.dumps(without_marks(new), default=repr):
        raw = json.loads(json.dumps(raw, sort_keys=True))
    return {**without_marks(raw), **marks_on(new)} if marks_on(old) != marks_on(new) else raw
