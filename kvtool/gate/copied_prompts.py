"""Prompts of code in a workload that differ from those that the code sends: copies, and files that code sends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvtool.gate.evaluate import status_of
from kvtool.results.check import DifferingCopy
from kvtool.results.gate_words import subject
from kvtool.results.verdict import Check
from kvtool.text.files.root_folder import RootFolder
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
    that is known.
    """
    if not isinstance(source, YamlSource):
        return []
    folder, root = Path(source.path).parent, RootFolder.of(source.path)
    known: dict[str, list[tuple[set[str], Counter[str]]]] = {}
    roles = {group.name: Counter(str(part.role) for part in group.messages or ()) for group in source.spec.groups}
    differing: dict[str, DifferingCopy] = {}
    for group, text, place, at in copies_in(source.document):
        sender = copied_from(source.document.source, at, sender=True) or place
        file, _, line = sender.rpartition(":")
        name = file if line.isdecimal() else sender
        if not root.holds(folder / name):
            continue
        if name not in known:
            from kvtool.lint.prompt_copies import copies_in_file

            known[name] = [(_texts_of(copy), _constant_roles(copy)) for copy in copies_in_file(folder, name)]
        if not any(text in texts and sent <= roles.get(group, sent) for texts, sent in known[name]):
            copy = differing.setdefault(name, DifferingCopy(file=name, place=place, copy_at=f"{source.path}:{at}"))
            copy.groups.append(group)
    return list(differing.values())


def _texts_of(copy: CopiedPrompt) -> set[str]:
    """Return what a workload can have of a prompt of code: its texts, its files, its tools."""
    tools = [] if copy.tools is None else [tools_text(copy.tools.order != "fixed", copy.tools.schemas)]
    return {copy.text, *(said for _, said in copy.messages), *filter(None, copy.files), *tools}


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
    message = f"{who}: cannot be checked: {copy.copy_at} is a copy of {copy.place} that differs"
    status = status_of(False, check.level, partial=False)
    return check.model_copy(update={"status": status, "actual": None, "message": message})


def copies_in(document: YamlDocument) -> Iterator[tuple[str, str, str, int]]:
    """Yield the group and the text of each message that a comment calls a copy, the place that it is from, and its own line.

    The same of tools, whose text is their JSON, and of files that a comment says code sends, whose text is their name.
    """
    group = 0
    while document.find(("groups", group)) is not None:
        name, message = str(getattr(document.find(("groups", group, "name")), "value", "")), 0
        while document.find(path := ("groups", group, "messages", message)) is not None:
            key = "text" if document.find((*path, "file")) is None else "file"
            text = getattr(document.find((*path, key)), "value", None)
            line = document.place((*path, key)).line or 0
            place = copied_from(document.source, line)
            if isinstance(text, str) and place is not None:
                yield name, text, place, line
            message += 1
        if (tools := _tools_in(document, ("groups", group, "tools"))) is not None:
            yield name, *tools
        group += 1


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
