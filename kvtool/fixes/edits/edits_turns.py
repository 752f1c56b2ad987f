"""Edits of the texts and lists of a group that do what a fix did to its requests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from types import MappingProxyType

from kvtool.fixes.edits.edits_moves import Field, FoundEdits, ValueEdit, found_edits
from kvtool.fixes.edits.edits_order import (
    Tree,
    json_tree,
    permuted,
    reordered,
    same_entries,
    with_item,
    without,
    yaml_tree,
)
from kvtool.fixes.edits.edits_pieces import PiecePlace, Reader
from kvtool.fixes.edits.edits_template import NotEditableError
from kvtool.fixes.edits.edits_yaml import SourceEdit, in_flow, line_end_of, quoted
from kvtool.fixes.turn_texts import blocks_apart
from kvtool.text.cache_marks import is_marked, marks_on, without_marks
from kvtool.text.files.text_files import read_text
from kvtool.text.files.yaml_document import Path
from kvtool.text.files.yaml_nodes import Scalar
from kvtool.text.message import Message, role_of
from kvtool.text.traced import Origin
from kvtool.workload.turn import Turn
from kvtool.workload.yaml.load_state import Loading
from kvtool.workload.yaml.schema import GroupSpec, MessagePart, SegmentPart, TextSource
from kvtool.workload.yaml.yaml_source import YamlSource

_STRUCTURE = "it adds or removes messages, which no text of the file does"
_NONE: Mapping[int, tuple[str, int]] = MappingProxyType({})


class GroupEdits:
    """Collects edits: of texts (`spots`), of lists in the workload file (`lists`) and of other files (`files`)."""

    def __init__(self, source: YamlSource, name: str, *, merge: bool) -> None:
        """`merge` collects the edits of a text from all requests, not from the first one that shows any."""
        self._merge = merge
        self.spots: dict[PiecePlace, list[ValueEdit]] = {}
        self.lists: list[SourceEdit] = []
        self.files: list[tuple[str, SourceEdit]] = []
        self._source = source
        number, group = next((n, each) for n, each in enumerate(source.spec.groups) if each.name == name)
        self._at: Path = ("groups", number)
        self._group = group
        self._loading = Loading(
            source.document, source.seed, overlay=source.overlay, allow_outside=source.allow_outside
        )
        self._parts = _labelled(group, self._at)
        self._known: dict[tuple[str, str], PiecePlace | None] = {}
        self._reader = Reader(self._spot)

    def add(self, before: Turn, after: Turn) -> None:
        """Take what happened to a request; of a text or list that is known already, nothing."""
        if json.dumps(before.tools) != json.dumps(after.tools):
            self._add_tools(before.tools, after.tools)
        if before.messages is not None and after.messages is not None:
            self._add_messages(before.messages, after.messages)
        elif before.text is not None and after.text is not None and before.text != after.text:
            self._add_text(before.text, after.text)

    # Texts

    def _spot(self, label: str, path: str) -> PiecePlace | None:
        """Return the text of the part of that name, of which there may be one in each of many files."""
        if (label, path) not in self._known:
            part = self._parts.get(label)
            self._known[label, path] = None if part is None else self._load(*part, path)
        return self._known[label, path]

    def _load(self, part: TextSource, at: Path, path: str) -> PiecePlace | None:
        if part.text is not None and path == self._source.document.path:
            node = self._source.document.find((*at, "text"))
            if not isinstance(node, Scalar):
                return None
            origin = next((mark.origin for mark in node.text.marks if mark.origin), Origin(path))
            return PiecePlace(path, (*at, "text"), node.value, origin, part.raw)
        text = read_text(FilePath(path), shown=path, overlay=self._source.overlay)
        return PiecePlace(path, None, text, Origin(path, text=text), part.raw, shared=part.glob is not None)

    def _only(self, label: str) -> PiecePlace | None:
        """Return the text of a part that has only one."""
        part, _ = self._parts[label]
        if part.text is not None:
            return self._spot(label, self._source.document.path)
        return None if part.file is None else self._spot(label, self._loading.resolve(str.__str__(part.file)))

    def _field(self, labels: Sequence[str], before: str, after: str, join: str = "") -> Field:
        is_glob = self._parts[labels[-1]][0].glob is not None
        return Field(tuple(labels), before, after, join, is_glob, tuple(map(self._only, labels)))

    def _take(self, found: FoundEdits, lists: Sequence[Path], new: Mapping[int, tuple[str, int]] = _NONE) -> None:
        """Collect the edits of fields; `new` has the role of those that are messages to add, and the message before them."""
        for spot, edits in found.edits.items():
            known = self.spots.setdefault(spot, edits)
            known += [edit for edit in edits if self._merge and edit not in known]
        for field, part in found.removed:
            self._change(without(self._source.document, lists[field], part))
        for field, text in found.added:
            role, after = new.get(field, ("", -1))
            self._change(with_item(self._source.document, lists[field], f"{{{role}text: {quoted(text)}}}", after))

    def _change(self, edits: Sequence[SourceEdit]) -> None:
        self.lists += [edit for edit in edits if edit not in self.lists]

    def _add_text(self, before: str, after: str) -> None:
        labels = list(self._parts)
        segments = self._group.segments or []
        join = "\n" if self._group.join is None else str.__str__(self._group.join)
        path: Path = (*self._at, "segments")
        if len(labels) != max(len(segments), 1):
            raise NotEditableError("two segments have the same name")
        if len(labels) > 1:
            order = self._reader.order(labels, before, after, join)
            if order is not None:
                self._change(permuted(self._source.document.source, self._tree(path), order))
                return
        self._take(found_edits(self._reader, [self._field(labels, before, after, join)]), [path])

    def _add_messages(self, before: Sequence[Message], after: Sequence[Message]) -> None:
        path: Path = (*self._at, "messages")
        labels = list(self._parts)
        if len(before) != len(labels):
            raise NotEditableError(_STRUCTURE)
        order = same_entries(list(before), list(after))
        if order is not None:
            if order != sorted(order):
                self._change(permuted(self._source.document.source, self._tree(path), order))
            return
        pairs, new = self._paired(labels, before, blocks_apart(after) or [])
        fields = [
            self._field([label], one["content"], one["content"] if other is None else other["content"])
            for label, one, other in zip(labels, before, pairs, strict=True)
        ]
        written = {len(fields) + at: (f"role: {role_of(other)}, ", index) for at, (index, other) in enumerate(new)}
        fields += [Field((), "", other["content"]) for _, other in new]
        self._take(found_edits(self._reader, fields), [path] * len(fields), written)
        for index, (one, other) in enumerate(zip(before, pairs, strict=True)):
            if other is None:
                self._change(without(self._source.document, path, index))
            elif marks_on(other) != marks_on(one):
                self._change(self._marked((*path, index), other))

    def _paired(
        self, labels: Sequence[str], before: Sequence[Message], after: Sequence[Message]
    ) -> tuple[list[Message | None], list[tuple[int, Message]]]:
        """Return for each message what became of it (None where it was left out), and new ones with the message before each."""
        pairs: list[Message | None] = []
        new: list[tuple[int, Message]] = []
        rest = list(after)
        for message in before:
            self._reader.before(message["content"])
        for index, message in enumerate(before):
            spare = len(before) - index - len(rest)
            while spare < 0 and index and not self._is_of(labels[index], message, rest[0]):
                new.append((index - 1, rest.pop(0)))
                spare += 1
            other = rest[0] if rest else None
            if other is not None and (
                self._is_of(labels[index], message, other) if spare else _frame(message) == _frame(other)
            ):
                pairs.append(rest.pop(0))
            elif spare > 0:
                pairs.append(None)
            else:
                raise NotEditableError(_STRUCTURE)
        new += [(len(before) - 1, other) for other in rest]
        if any(_frame(other).keys() != {"role"} or is_marked(other) for _, other in new):
            raise NotEditableError(_STRUCTURE)
        return pairs, new

    def _marked(self, path: Path, message: Message) -> list[SourceEdit]:
        """Return the edit that gives a message without a cache breakpoint that of `message`, on its line or below its role."""
        source, role = self._source.document.source, self._source.document.find((*path, "role"))
        at = self._source.document.find(path)
        ttl = message.get("cache_control", {}).get("ttl")
        if not isinstance(role, Scalar) or at is None or not at.start <= role.start < at.end:
            raise NotEditableError("the message is not written in the file itself")
        if ttl is None or self._source.document.find((*path, "cache_control")) is not None:
            raise NotEditableError("the message has another cache breakpoint")
        if in_flow(self._source.document, (*path, "role")):
            return [SourceEdit(role.end, role.end, f", cache_control: {ttl}")]
        end = re.compile(r"[^\r\n]*").match(source, role.end)
        stop = role.end if end is None else end.end()
        return [SourceEdit(stop, stop, f"{line_end_of(source)}{' ' * (at.column - 1)}cache_control: {ttl}")]

    def _is_of(self, label: str, message: Message, other: Message) -> bool:
        return _frame(message) == _frame(other) and self._keeps(label, message, other)

    def _keeps(self, label: str, message: Message, other: Message) -> bool:
        """Return whether a message has text of another, and not only because it was moved there."""
        pieces = self._reader.before(message["content"])
        shown = self._reader.after(other["content"]) if pieces else []
        return message["content"] == other["content"] or bool(shown and shown[0].label == label)

    # Lists

    def _tree(self, path: Path) -> Tree:
        node = self._source.document.find(path)
        if node is None:
            raise NotEditableError("the list is not written in the file itself")
        return yaml_tree(self._source.document, node)

    def _add_tools(self, before: object, after: object) -> None:
        own = self._group.tools is not None
        tools = self._group.tools or self._source.spec.tools
        path: Path = (*self._at, "tools") if own else ("tools",)
        if tools is None:
            raise NotEditableError("it would change more than the order of tools or keys")
        if tools.orders is not None:
            raise NotEditableError(
                "the code of your application sends the tools in these orders: sort them by name there"
            )
        if tools.file is None:
            self._change(reordered(self._source.document.source, self._tree(path), before, after))
            return
        shown = self._loading.resolve(str.__str__(tools.file))
        text = read_text(FilePath(shown), shown=shown, overlay=self._source.overlay)
        tree = json_tree(text)
        if text[tree.start] == "{":
            entries = tree.entries or ()
            tree = next((entry.inside for entry in entries if entry.key == "tools"), tree)
        edits = [(shown, edit) for edit in reordered(text, tree, before, after)]
        self.files += [edit for edit in edits if edit not in self.files]


def _labelled(group: GroupSpec, at: Path) -> dict[str, tuple[TextSource, Path]]:
    """Return the parts of a group's prompts by the names that origins give them, with their places in the workload file."""
    if group.messages is not None:
        return {
            f"messages[{index}] ({part.role})": (part, (*at, "messages", index))
            for index, part in enumerate[MessagePart](group.messages)
        }
    if group.segments is not None:
        return {
            part.id or f"segments[{index}]": (part, (*at, "segments", index))
            for index, part in enumerate[SegmentPart](group.segments)
        }
    return {"prompt": (group, at)}


def _frame(message: Message) -> dict[str, object]:
    return {key: value for key, value in without_marks(message).items() if key != "content"}
