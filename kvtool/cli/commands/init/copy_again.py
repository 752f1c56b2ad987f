"""Prompts of code that a workload contains as copies, copied again where they differ; values, requests and gates stay."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kvtool.cli.commands.init.compose import WORKLOAD, variable_uses
from kvtool.cli.commands.init.init_options import InitOptions
from kvtool.cli.commands.init.made_up import variable_lines
from kvtool.config.find import NAME, PYPROJECT, has_table
from kvtool.errors import KvtoolError
from kvtool.gate.copied_prompts import copies_in, differing_copies
from kvtool.lint.prompt_copies import TemplateCalls
from kvtool.text.files.root_folder import RootFolder
from kvtool.text.files.text_files import read_text
from kvtool.text.files.yaml_document import YamlDocument, parse_yaml
from kvtool.text.terminal.console import ascii_only, put, sanitize, say
from kvtool.workload.yaml.made_up_values import copied_from
from kvtool.workload.yaml.named_files import matching_files, values_of
from kvtool.workload.yaml.yaml_source import load_yaml_workload

_MARKUP = re.compile(r"\{[{%].*?[}%]\}")
_CLOSING = ("- ", "#", "]", "}")
"""What a block can contain in the column of its key."""


@dataclass(frozen=True, slots=True)
class CopiedAgain:
    """A workload file with prompts of code as they are today: its name and text, the `groups` whose prompts were copied again,
    and the `added` variables that templates use since."""

    name: str
    text: str
    groups: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Block:
    """A key of a YAML file and its value: the lines that these take (from 0), and the column of the key."""

    start: int
    end: int
    column: int
    lines: list[str]

    def moved_to(self, column: int) -> list[str]:
        """Return the lines, without what is before the key, as they are written with the key in another column."""
        return [" " * column + line[self.column :] for line in self.lines]


def copied_again(folder: Path, names: Sequence[str], composed: str) -> CopiedAgain | None:
    """Return the first workload with copies that differ, with the messages that `composed` has for each group that sends them.

    `composed` is a workload made of the prompts as they are today. KvtoolError where the code has no such prompt any more.
    """
    made = parse_yaml(composed, "")
    for name in names:
        with suppress(KvtoolError):  # init says what is wrong with it
            source = load_yaml_workload(str(folder / name))
            if copies := differing_copies(source):
                wanted = [(group, copy.file) for copy in copies for group in copy.groups]
                break
    else:
        return None
    old = source.document
    edits: list[tuple[int, int, list[str]]] = []
    added: dict[str, list[str]] = {}
    for group, file in dict(wanted).items():
        at, number = _group(old, group), _made_group(made, group, file)
        before, after = _block(old, ("groups", at, "messages")), _block(made, ("groups", number, "messages"))
        if before is None or after is None:
            raise KvtoolError(
                f"group `{group}` cannot be copied again: {file} has no prompt for it",
                hint=f"correct or delete the group in {source.path}",
            )
        tools, sent = _block(old, ("groups", at, "tools")), _block(made, ("groups", number, "tools"))
        lines = after.moved_to(before.column)
        if tools is None or copied_from(old.source, tools.start + 1) is not None:
            if tools is not None:
                edits.append((tools.start - 1, tools.end, []))  # with the comment above
            lines += [] if sent is None else [made.source.splitlines()[sent.start - 1], *sent.moved_to(before.column)]
        first, *others = lines
        kept = old.source.splitlines()[before.start][: before.column]
        edits.append((before.start, before.end, [kept + first.lstrip(), *others]))
        used = " ".join([*_MARKUP.findall("\n".join(after.lines)), *_variables_of_files(folder, made, number)])
        known = {variable for variable, _ in _variables(old, at)}
        for variable, path in _variables(made, number):
            if variable not in known and re.search(rf"\b{re.escape(variable)}\b", used):
                block = _block(made, path)
                added.setdefault(variable, [] if block is None else block.moved_to(2))
    text = _edited(old, edits, [line for lines in added.values() for line in lines])
    return CopiedAgain(name, text, list(dict(wanted)))


def with_new_variables(folder: Path, names: Sequence[str], passed: TemplateCalls) -> CopiedAgain | None:
    """Return the first workload whose templates use variables that it has not, with made-up values for them.

    `passed` is what code passes to templates.
    """
    for name in names:
        with suppress(KvtoolError):  # init says what is wrong with it
            document = parse_yaml(read_text(folder / name, shown=name), name)
            root, groups = RootFolder.of(str(folder / name)), document.find(("groups",))
            files = [] if groups is None else [scalar.value for scalar in values_of(groups, ("file", "glob"))]
            paths = dict.fromkeys(path for file in files for path in matching_files(folder, file, root))
            uses = variable_uses(folder, [(path, read_text(Path(path), shown=path)) for path in paths])
            count = len(getattr(groups, "items", ()))
            known = {variable for at in range(count) for variable, _ in _variables(document, at)}
            if new := sorted(uses.variables.keys() - known):
                lines = [
                    line for variable in new for line in variable_lines(variable, uses.variables[variable], passed)
                ]
                return CopiedAgain(name, _edited(document, [], lines), added=new)
    return None


def report_copied_again(command: InitOptions, folder: Path, done: CopiedAgain) -> None:
    """Print the groups that were copied again, the files, and the next command."""
    console = command.showing.console()
    plain = ascii_only(console)
    for what, found in (("Copied again", done.groups), ("New made-up values", done.added)):
        if found:
            say(console, f"{what}: {sanitize(', '.join(found), ascii_only=plain)}", indent=0)
    path = sanitize(os.path.normpath(folder / done.name), ascii_only=plain)
    put(console, f"--- {path}" if command.dry_run else f"Written: {path}")
    if command.dry_run:
        for line in done.text.splitlines():
            put(console, sanitize(line, ascii_only=plain))
        say(console, "Nothing was written. Run it without --dry-run to write this file.", indent=0)
        return
    say(console, "Other values, requests and gates are kept.", indent=0)
    into = "" if os.path.normpath(folder) == "." else f"cd {sanitize(shlex.quote(str(folder)), ascii_only=plain)} && "
    has_gates = (folder / NAME).exists() or has_table(str(folder / PYPROJECT))
    put(console, "Next: check the hit rate:" if has_gates else "Next: write a configuration with gates:")
    put(console, f"  {into}kvtool {'check' if has_gates else 'init'}")


def _group(document: YamlDocument, name: str) -> int:
    """Return the number of a group, which is that of none where none has this name."""
    count = len(getattr(document.find(("groups",)), "items", ()))
    named = (at for at in range(count) if getattr(document.find(("groups", at, "name")), "value", None) == name)
    return next(named, count)


def _variables(document: YamlDocument, group: int) -> list[tuple[str, tuple[str | int, ...]]]:
    """Return the variables that a group can use, and where they are."""
    places: tuple[tuple[str | int, ...], ...] = (("groups", group, "vars"), ("vars",))
    return [(name, (*place, name)) for place in places for name in getattr(document.find(place), "values", {})]


def _variables_of_files(folder: Path, document: YamlDocument, group: int) -> list[str]:
    """Return the variables of the templates that are messages of a group."""
    root = RootFolder.of(str(folder / WORKLOAD))
    texts = [copy.text for copy in copies_in(document) if _group(document, copy.group) == group]
    files = [file for text in texts for file in matching_files(folder, text, root)]
    return list(variable_uses(folder, [(file, read_text(Path(file), shown=file)) for file in files]).variables)


def _made_group(made: YamlDocument, name: str, file: str) -> int:
    """Return the number of the group of this name, else of the one group with a prompt of this file."""
    of_file = {
        copy.group
        for copy in copies_in(made)
        if file in (sender := copied_from(made.source, copy.line, sender=True) or copy.place, sender.rpartition(":")[0])
    }
    return _group(made, name if name in of_file or len(of_file) != 1 else of_file.pop())


def _block(document: YamlDocument, path: tuple[str | int, ...]) -> _Block | None:
    """Return the block of a key; None where the key is within braces."""
    place, lines = document.place(path, key=True), document.source.splitlines()
    start, column = (place.line or 1) - 1, (place.column or 1) - 1
    if document.find(path) is None or lines[start][:column].strip() not in ("", "-"):
        return None
    end = start + 1
    while end < len(lines):
        text = lines[end].lstrip(" ")
        indent = len(lines[end]) - len(text)
        if text and (indent < column or (indent == column and not text.startswith(_CLOSING))):
            break
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return _Block(start, end, column, lines[start:end])


def _edited(document: YamlDocument, edits: list[tuple[int, int, list[str]]], variables: list[str]) -> str:
    """Return the source with these lines in place of others, and more variables."""
    lines = document.source.splitlines()
    declared = _block(document, ("vars",))
    if variables and declared is not None:
        edits.append((declared.end, declared.end, variables))
    elif variables:
        at = (document.place(("groups",), key=True).line or 1) - 1
        edits.append((at, at, ["vars:", *variables]))
    for start, end, new in sorted(edits, key=lambda edit: edit[0], reverse=True):
        lines[start:end] = new
    return "\n".join(lines) + "\n"
