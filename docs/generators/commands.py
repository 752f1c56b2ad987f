"""The reference of a command, from the help that the command line itself gives."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import typer

from docs.generators.shell import plain_terminal
from docs.generators.tables import table
from kvtool.cli.env_variables import long_flag
from kvtool.cli.root import app

_LITERAL = re.compile(
    r"(?<![\w`-])(--[a-z][a-z-]*(?: [A-Z]+\b)?|-[a-zA-Z]\b(?![-\w])|kvtool [a-z-]+(?: -[a-z])?|KVTOOL_[A-Z_]+)"
)
_BRACKETS = re.compile(r"(.*?) *\[([^\[\]]*)\]", re.DOTALL)
_TYPE = re.compile(r" <(?:str|list\[str\]|int range|int|float)>")


@functools.cache
def _root() -> Any:
    """All commands, as typer makes them of their signatures."""
    return typer.main.get_command(app)


def names() -> list[str]:
    """Every command that help shows, in its order."""
    return [name for name, command in _root().commands.items() if not command.hidden]


def reference(name: str) -> str:
    """Usage, what it does, arguments and options of one command; `kvtool` is what stands before any."""
    root = _root()
    with plain_terminal():
        above = root.make_context("kvtool", [], resilient_parsing=True)
        command = root if name == "kvtool" else root.commands[name]
        context = above if name == "kvtool" else command.make_context(name, [], parent=above, resilient_parsing=True)
        usage = " ".join(["kvtool", *([] if name == "kvtool" else [name]), *command.collect_usage_pieces(context)])
        records = [
            (parameter.param_type_name, parameter.get_help_record(context)) for parameter in command.get_params(context)
        ]
    parts = [f"```text\n{usage}\n```"]
    paragraphs = (command.help or "").split("\n\n")
    parts += [_prose(" ".join(paragraph.split())) for paragraph in paragraphs]
    arguments = [_row(*record) for kind, record in records if kind == "argument" and record]
    options = [_row(*record) for kind, record in records if kind == "option" and record]
    if arguments:
        parts.append(table(("argument", "meaning"), [row[:2] for row in arguments]))
    parts.append(table(("option", "meaning", "default"), options))
    return "\n\n".join(parts)


def _row(flags: str, text: str) -> tuple[str, str, str]:
    """Flags, meaning and default; typer puts what it knows of an option in brackets at the end of the help."""
    default = ""
    told: list[str] = []
    while (found := _BRACKETS.fullmatch(text)) is not None:
        text = found[1]
        for item in reversed(found[2].split("; ")):
            word, _, value = item.partition(": ")
            if word == "default":
                default = _prose(value)
            elif word == "env var":
                told.insert(0, f"(`{value}`)")
            else:
                told.insert(0, f"(`{item}`)" if word != "required" else "(required)")
    return f"`{_TYPE.sub('', flags)}`", " ".join([_prose(text), *told]).strip(), default


def listing() -> str:
    """All commands, each with its one sentence and a link to its page."""
    commands = _root().commands
    return "\n".join(f"- [kvtool {name}]({name}.md): {_prose(commands[name].short_help)}" for name in names())


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
