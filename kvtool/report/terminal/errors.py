"""Errors on stderr: the place, the line itself with carets, and a hint; never a traceback."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from kvtool.config.command_line import flag
from kvtool.errors import EXIT_USAGE, KvtoolError, Place
from kvtool.report.terminal.marked_line import put_marked_line
from kvtool.text.terminal.console import ascii_only, cell_width, fold, is_terminal, make_console, put, sanitize

if TYPE_CHECKING:
    from rich.console import Console

_UNKNOWN_COMMAND = re.compile(r"No such command '(.*?)'")
_EXTRA_ARGUMENTS = re.compile(r"Got unexpected extra argument(?:\(s\)|s)? \((.*)\)", re.DOTALL)
_KINDS = {
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of less than 4,300 digits",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
}
"""What a value should be, by the parser's name of the problem."""
_LONGEST_VALUE = 40
"""Characters of a wrong value that are shown."""
_OTHER_NAMES = {
    "diff": ("diff-prompts",),
    "fix": ("optimize",),
    "run": ("profile",),
}
"""Names of commands in other tools, with ours."""
_OTHER_OPTIONS = {
    "gpu": ("accelerator", "device", "gpu_memory"),
    "gpus": ("tensor_parallel",),
    "cuda": ("device",),
    "fix": ("write",),
    "format": ("outputs",),
}
"""Long flags of other tools, with our options; the ones that a command has are proposed."""
_MOST_MEANT = 3
_AROUND = 4000
"""Characters on both sides of a place that are looked through for secrets, far more than are shown."""


def print_error(error: KvtoolError) -> None:
    """Print one mistake of the user's."""
    console = make_console(stderr=True)
    plain = ascii_only(console)
    place = f"{sanitize(str(error.place), ascii_only=plain)}: " if error.place is not None else ""
    if error.place is not None and error.place.line is None and f"`{error.place.path}`" in error.message:
        place = ""  # the message is about the file itself
    _put(console, f"error: {place}{sanitize(error.message, ascii_only=plain)}")
    if error.place is not None and error.place.excerpt is not None and error.place.line is not None:
        _excerpt(console, error.place)
    if error.hint:
        _put(console, f"  help: {sanitize(error.hint, ascii_only=plain)}")


def _put(console: Console, text: str) -> None:
    """Write a line, folded where a person reads it: programs read whole lines."""
    for line in fold(text, console.width, indent=4) if is_terminal(console.file) else [text]:
        put(console, line)


def _excerpt(console: Console, place: Place) -> None:
    """Return the line, cut to a window around the place, and carets under it; what looks secret in it is blacked out."""
    text, column, stop = _without_secrets(place.excerpt or "", (place.column or 1) - 1, place.width)
    label = f"{place.line:>6}"
    room = max(console.width - len(label) - 3, 20)
    first = 0 if cell_width(sanitize(text[:stop])) <= room else max(column - room // 2, 0)
    width = max(stop - column, 1) if place.column is not None else 0
    put_marked_line(console, label, text, column, width, first=first, room=room)


def _without_secrets(text: str, start: int, width: int) -> tuple[str, int, int]:
    """As much of a line as may be shown of it, and where in it the characters `[start, start + width)` are."""
    from kvtool.text.redact import redact_marked

    first = max(start - _AROUND, 0)
    text = text[first : start + width + _AROUND]
    return redact_marked(text, start - first, start - first + width)


def print_usage(error: Exception) -> int | None:
    """Print a mistake on the command line, as the parser found it; None where `error` is none of its own."""
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None
    context, said = getattr(error, "ctx", None), str(format_message())
    hint = f"{context.command_path if context is not None else 'kvtool'} --help"
    option = getattr(error, "option_name", None)
    if isinstance(option, str) and hasattr(error, "possibilities"):
        message = f"no such option: {option}"
        hint = _instead(option, _flags(context)) + hint
    elif isinstance(option, str):
        message = f"{option} {'needs a value' if 'requires' in said else 'takes no value'}"
    elif (command := _UNKNOWN_COMMAND.match(said)) is not None:
        message = f"no such command: {command[1]}"
        hint = _instead(command[1], [] if context is None else context.command.list_commands(context)) + hint
    elif (more := _EXTRA_ARGUMENTS.match(said)) is not None:
        message = f"too many arguments: {more[1]}"
    elif (parameter := getattr(error, "param", None)) is not None and context is not None:
        message, what = _value_problem(error, parameter, context)
        hint = f"{what.removesuffix('.')}; {hint}" if what else hint
    else:
        message = said[:1].lower() + said[1:].removesuffix(".")
    print_error(KvtoolError(message, hint=hint))
    return EXIT_USAGE


def _value_problem(error: Exception, parameter: Any, context: Any) -> tuple[str, str]:
    """Return what is wrong with the value of an option or an argument, and what it takes."""
    name = next((form for form in parameter.opts if form.startswith("--")), parameter.display_name_raw)
    if hasattr(error, "param_type"):
        return f"{name} is missing", str(parameter.help or "")
    source = context.get_parameter_source(parameter.name)
    if source is not None and source.name == "ENVIRONMENT":
        name = parameter.envvar
    details = getattr(error.__cause__, "errors", None)
    problem: Any = details()[0] if details is not None else {"type": "", "input": "", "msg": str(error)}
    value = str(problem["input"])[:_LONGEST_VALUE]
    if (choices := parameter.type_descriptor.choices) is not None:
        return f"{name}: unknown value `{value}`", f"one of {', '.join(map(str, choices))}"
    if problem["type"] == "greater_than_equal":
        return f"{name} must be at least {problem['ctx']['ge']}, not {value}", ""
    if (kind := _KINDS.get(str(problem["type"]))) is not None:
        return f"{name}: `{value}` is not {kind}", ""
    return f"{name}: {problem['msg']}", ""


def _instead(given: str, names: Iterable[str]) -> str:
    """Return the names that an unknown one is close to; empty where there are none."""
    known = list(names)
    others = _OTHER_NAMES.get(given) or map(flag, _OTHER_OPTIONS.get(given.removeprefix("--"), ()))
    meant = [name for name in others if name in known]
    meant = meant or [name for name in known if name.startswith(given)]
    meant = meant or get_close_matches(given, known, n=1, cutoff=0.75)
    if not meant:
        return ""
    *before, last = (f"`{name}`" for name in meant[:_MOST_MEANT])
    return f"did you mean {', '.join(before)}{' or ' if before else ''}{last}? "


def _flags(context: Any) -> list[str]:
    """Return all flags of a command."""
    return [] if context is None else [flag for each in context.command.params for flag in each.opts]


def print_bug(error: Exception) -> None:
    """Something that must not happen."""
    kind = sanitize(f"{type(error).__name__}: {error}", ascii_only=True)
    print(f"error: a bug in kvtool: {kind[:500]}", file=sys.stderr)
    print("  help: run again with --debug and report what it prints", file=sys.stderr)
