"""Prompts of code in a workload that differ from those that the code sends: copies, and files that code sends."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from kvtool.errors import KvtoolError
from kvtool.gate.evaluate import status_of
from kvtool.results.check import DifferingCopy
from kvtool.results.gate_words import subject
from kvtool.results.verdict import Check
from kvtool.text.files.root_folder import RootFolder, git_root
from kvtool.text.files.text_files import read_text
from kvtool.text.files.yaml_document import Path as NodePath
from kvtool.text.files.yaml_document import YamlDocument
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.made_up_values import copied_from
from kvtool.workload.yaml.yaml_source import YamlSource

if TYPE_CHECKING:
    from kvtool.lint.prompt_copies import CopiedPrompt

_VARIABLE = re.compile(r"\{\{.*?\}\}", re.DOTALL)


def differing_copies(source: YamlSource | LogSource) -> list[DifferingCopy]:
    """Return a copy of each file whose prompts the workload contains otherwise: the copy was edited, or the file was.

    A template differs where the code sends more around it. A group differs where the code sends more messages of a role with text
    that is known. Where only a cache breakpoint is more than the code sends, that is all that is said.
    """
    if not isinstance(source, YamlSource):
        return []
    folder, root = Path(source.path).parent, RootFolder.of(source.path)
    known: dict[str, list[_Sent]] = {}
    roles = _roles_of(source)
    differing: dict[str, DifferingCopy] = {}
    for copy in copies_in(source.document):
        name = _sender_of(source.document, copy)
        if not root.holds(folder / name):
            continue
        if name not in known:
            known[name] = _sent_by(folder, name)
        alike = [sent for sent in known[name] if sent.contains(copy.text, roles.get(copy.group, Counter()))]
        if any(not copy.marked or sent.marks[copy.text] is not False for sent in alike):
            continue
        parted = copy.marked and any(copy.whole in sent.marks for sent in known[name])
        kind: Literal["text", "mark"] = "mark" if alike or parted else "text"
        at = f"{source.path}:{copy.line}"
        found = differing.setdefault(name, DifferingCopy(file=name, place=copy.place, copy_at=at, differs=kind))
        found.groups.append(copy.group)
    return list(differing.values())


def _sender_of(document: YamlDocument, copy: Copied) -> str:
    """Return the file of the code that sends a copy."""
    sender = copied_from(document.source, copy.line, sender=True) or copy.place
    file, _, line = sender.rpartition(":")
    return file if line.isdecimal() else sender


def uncached_groups(source: YamlSource | LogSource) -> Iterator[str]:
    """Yield a sentence on each group that caches nothing, where the code that sends its prompt sets a cache breakpoint by now."""
    if not isinstance(source, YamlSource):
        return
    groups = {group.name for group in source.spec.groups if group.cache_control == "none"}
    folder, root, roles = Path(source.path).parent, RootFolder.of(source.path), _roles_of(source)
    for copy in copies_in(source.document):
        name = _sender_of(source.document, copy)
        if copy.group not in groups or not root.holds(folder / name):
            continue
        sent = [each for each in _sent_by(folder, name) if each.contains(copy.text, roles[copy.group])]
        if any(True in each.marks.values() for each in sent):
            groups.discard(copy.group)
            todo = "Put it on the same message of the group, and delete `cache_control: none` there"
            yield f"{source.path}:{copy.line}: {name} sets cache_control for group {copy.group} now. {todo}."


def unguarded_files(source: YamlSource | LogSource) -> str:
    """Return a sentence on the prompt files that no code is seen to send as the workload does; empty without one.

    Only code of the repository that speaks of models is read; without any, no code can differ.
    """
    if not isinstance(source, YamlSource):
        return ""
    folder = Path(source.path).parent
    if git_root(str(folder.absolute())) is None:
        return ""
    roles = _roles_of(source)
    said = {(copy.group, copy.text) for copy in copies_in(source.document)}
    files = [
        (group.name, str(part.file))
        for group in source.spec.groups
        for part in group.messages or ()
        if part.file is not None and (group.name, str(part.file)) not in said
    ]
    code = dict(_code_of(folder)) if files else {}
    names = {os.path.basename(file) for _, file in files}  # noqa: PTH119 - a name in a string
    senders = [name for name, text in code.items() if any(each in text for each in names)]
    sent = [each for name in senders for each in _sent_by(folder, name)]
    unseen = {file for group, file in files if not any(each.contains(file, roles[group]) for each in sent)}
    if not code or not unseen:
        return ""
    which = (
        f"the prompt file {min(unseen)}" if len(unseen) == 1 else f"{len(unseen):,} prompt files, such as {min(unseen)}"
    )
    return f"{source.path}: kvtool finds no code that sends {which}. If code changes their text, check does not notice."


def _code_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of each file of code in a folder that speaks of models."""
    from kvtool.lint.folders.folder_files import project_files
    from kvtool.lint.lint_inputs import CODE_SUFFIXES
    from kvtool.lint.prompt_copies import speaks_of_models

    for path in project_files(str(folder)).paths:
        with suppress(KvtoolError):
            if path.endswith(CODE_SUFFIXES) and speaks_of_models(text := read_text(Path(path), shown=path)):
                yield os.path.relpath(path, folder), text


def _roles_of(source: YamlSource) -> dict[str, Counter[str]]:
    """Return how many messages of each role a group has."""
    return {group.name: Counter(str(part.role) for part in group.messages or ()) for group in source.spec.groups}


class _Sent(NamedTuple):
    """A prompt of code: what a workload can have of it, with whether a cache breakpoint ends that (None: unknown), and how many
    messages of each role have known text."""

    marks: Mapping[str, bool | None]
    roles: Counter[str]

    def contains(self, text: str, roles: Counter[str]) -> bool:
        """Return whether it has a text or a file, and no more known messages of a role than a group that has `roles`."""
        return text in self.marks and (not roles or self.roles <= roles)


def _sent_by(folder: Path, name: str) -> list[_Sent]:
    from kvtool.lint.prompt_copies import copies_in_file, speaks_of_marks

    try:
        is_known = not speaks_of_marks(read_text(folder / name, shown=name))
    except KvtoolError:
        return []
    return [
        _Sent(_texts_of(copy, False if is_known and copy.line and copy.messages else None), _constant_roles(copy))
        for copy in copies_in_file(folder, name)
    ]


def _texts_of(copy: CopiedPrompt, unmarked: bool | None) -> dict[str, bool | None]:
    """Return the texts, files and tools of a prompt of code, with their marks; `unmarked` is what is said where none is seen."""
    tools = [] if copy.tools is None else [tools_text(copy.tools.order != "fixed", copy.tools.schemas)]
    found: dict[str, bool | None] = dict.fromkeys((copy.text, *tools), unmarked)
    for (_, text), mark in zip(copy.messages, copy.marks, strict=False):
        found[text] = bool(mark) or unmarked
    for file, mark in zip(copy.files, copy.marks, strict=False):
        found |= {file: bool(mark) or unmarked} if file else {}
    return found


def _constant_roles(copy: CopiedPrompt) -> Counter[str]:
    """Return how many messages of each role have text that is written in the code or in a file."""
    return Counter(role for role, text in copy.messages if _VARIABLE.sub("", text).strip())


def without_verdict(checks: Iterable[Check], copies: Sequence[DifferingCopy]) -> list[Check]:
    """Return the checks; one that passes with prompts that the application does not send is not met."""
    first: dict[str | None, DifferingCopy] = {
        group: copy for copy in reversed(copies) for group in (*copy.groups, None)
    }
    return [
        _unmet(check, first[check.group])
        if check.status == "pass" and check.kind != "audit" and check.group in first
        else check
        for check in checks
    ]


def _unmet(check: Check, copy: DifferingCopy) -> Check:
    who = subject(check.group, check.workload, check.covered)
    message = f"{who}: cannot be checked: {copy.told}"
    status = status_of(False, check.level, partial=False)
    return check.model_copy(update={"status": status, "actual": None, "message": message})


class Copied(NamedTuple):
    """A message of a workload, or its tools, that a comment calls a copy, the place that it is from, and its own line.

    `marked`: whether it has a cache breakpoint. `whole` is its text with that of the messages of its role after it that no comment
    calls copies: what an edit parted from it.
    """

    group: str
    text: str
    place: str
    line: int
    marked: bool = False
    whole: str = ""


def copies_in(document: YamlDocument) -> Iterator[Copied]:
    """Yield the messages that comments call copies, and tools, whose text is their JSON.

    The text of a file that a comment says code sends is its name.
    """
    group = 0
    while document.find(("groups", group)) is not None:
        name, message = _text_at(document, ("groups", group, "name")) or "", 0
        while document.find(path := ("groups", group, "messages", message)) is not None:
            key = "text" if document.find((*path, "file")) is None else "file"
            text = _text_at(document, (*path, key))
            line = document.place((*path, key)).line or 0
            place = copied_from(document.source, line)
            message += 1
            if text is not None and place is not None:
                marked = document.find((*path, "cache_control")) is not None
                yield Copied(name, text, place, line, marked, text + _rest_of(document, path, message))
        if (tools := _tools_in(document, ("groups", group, "tools"))) is not None:
            yield Copied(name, *tools)
        group += 1


def _text_at(document: YamlDocument, path: NodePath) -> str | None:
    return None if (node := document.find(path)) is None else getattr(node, "value", None)


def _rest_of(document: YamlDocument, path: NodePath, message: int) -> str:
    """Return the text of the messages from `message` on that have the role of the one at `path` and are called no copies."""
    role, rest = _text_at(document, (*path, "role")), ""
    while (text := _text_at(document, (*(after := (*path[:-1], message)), "text"))) is not None:
        if _text_at(document, (*after, "role")) != role:
            break
        if copied_from(document.source, document.place((*after, "text")).line or 0) is not None:
            break
        rest, message = rest + text, message + 1
    return rest


def _tools_in(document: YamlDocument, path: tuple[str | int, ...]) -> tuple[str, str, int] | None:
    """Return the text of copied tools, the place that they are from, and their own line; None where they were rewritten."""
    line = document.place(path, key=True).line or 0
    place = copied_from(document.source, line)
    in_orders = document.find((*path, "items")) is not None
    items = getattr(document.find((*path, "items") if in_orders else path), "items", None)
    if place is None or items is None:
        return None
    return tools_text(in_orders, [document.source[one.start : one.end] for one in items]), place, line


def tools_text(in_orders: bool, schemas: Sequence[str]) -> str:
    """Return tools as one text, by which a copy is compared with the code that sends them."""
    return f"{'in any order' if in_orders else 'in this order'}: {', '.join(schemas)}"
