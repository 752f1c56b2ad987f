"""The reference of a command, from the help that the command line itself gives."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import typer

from docs.generators.shell import plain_terminal
from docs.generators.tables import table
from kvtool.cli.command import HelpRow, help_rows
from kvtool.cli.env_variables import long_flag
from kvtool.cli.listed import COMMANDS, groups
from kvtool.cli.root import app

_NAMES = "|".join(listed.name for listed in sorted(COMMANDS, key=lambda each: -len(each.name)))
_LITERAL = re.compile(
    rf"(?<![\w`-])(--[a-z][a-z-]*(?: [A-Z]+\b)?|-[a-zA-Z]\b(?![-\w])|kvtool (?:{_NAMES})\b(?: -[a-z])?|KVTOOL_[A-Z_]+)"
)


@functools.cache
def _root() -> Any:
    """All commands, as typer makes them of their signatures."""
    return typer.main.get_command(app)


def names() -> list[str]:
    """Every command that help shows, in its order."""
    return [name for name, command in _root().commands.items() if not command.hidden]


def reference(name: str) -> str:
    """Usage, description, arguments and options of one command, a table for each panel of its help; `kvtool` has options alone."""
    root = _root()
    with plain_terminal():
        above = root.make_context("kvtool", [], resilient_parsing=True)
        command = root if name == "kvtool" else root.commands[name]
        context = above if name == "kvtool" else command.make_context(name, [], parent=above, resilient_parsing=True)
        usage = " ".join(["kvtool", *([] if name == "kvtool" else [name]), *command.collect_usage_pieces(context)])
        records = [each.get_help_record(context) for each in command.get_params(context)] if name == "kvtool" else []
    parts = [f"```text\n{usage}\n```"]
    parts += [_prose(" ".join(paragraph.split())) for paragraph in (command.help or "").split("\n\n")]
    if name == "kvtool":
        return "\n\n".join(
            [*parts, table(("option", "meaning"), [(f"`{each[0]}`", _prose(each[1])) for each in records])]
        )
    rows = help_rows(command.options)
    for panel in dict.fromkeys(row.panel for row in rows):
        of_panel = [_row(row) for row in rows if row.panel is panel]
        if panel is None:
            parts.append(table(("argument", "meaning"), [row[:2] for row in of_panel]))
        else:
            parts.append(table((panel.value, "meaning", "default"), of_panel))
    return "\n\n".join(parts)


def _row(row: HelpRow) -> tuple[str, str, str]:
    """Names, meaning and default; a variable and other flags are after the meaning."""
    notes = [*(["required"] * row.required), *row.notes]
    named = [note.replace("env var: ", "").replace("also: ", "") for note in notes]
    shown = [f"({note})" if note[0].islower() else f"(`{note.replace(', ', '`, `')}`)" for note in named]
    return f"`{row.names}`", " ".join([_prose(row.text), *shown]), _prose(row.default)


def listing() -> str:
    """All commands by group, each with its one sentence and a link to its page."""
    return "\n\n".join(
        f"**{group}**\n\n" + "\n".join(f"- [kvtool {name}]({name}.md): {_prose(short)}" for name, short in rows)
        for group, rows in (
            (group, [(name.strip(), short) for name, short in rows]) for group, rows in groups().items()
        )
    )


def missing_pages(folder: Path) -> dict[Path, str]:
    """A first page for each command that has none."""
    return {
        path: f"# kvtool {name}\n\n<!-- begin command {name} -->\n<!-- end -->\n"
        for name in names()
        if not (path := folder / f"{name}.md").is_file()
    }


def _prose(text: str | None) -> str:
    """Help as Markdown: flags and commands in it as code, everything else as it is."""
    pieces = re.split(r"(`[^`]*`)", " ".join((text or "").split()))
    for number in range(0, len(pieces), 2):
        escaped = re.sub(r"([\\*_<>\[\]{}|])", r"\\\1", pieces[number])
        pieces[number] = _LITERAL.sub(lambda found: f"`{found[1]}`".replace("\\", ""), escaped)
    return "".join(pieces)


def variables() -> str:
    """The environment variables of options, and the options."""
    found: dict[str, str] = {}
    for command in _root().commands.values():
        for parameter in command.params:
            if isinstance(parameter.envvar, str):
                found.setdefault(parameter.envvar, long_flag(parameter.opts))
    return table(("variable", "option"), [(f"`{name}`", f"`{flag}`") for name, flag in sorted(found.items())])
