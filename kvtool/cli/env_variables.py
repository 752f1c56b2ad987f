"""Flags and KVTOOL_* variables: which of them count, and how errors name variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from kvtool.errors import EXIT_USAGE, KvtoolError, ProblemsError


def variables(context: typer.Context) -> dict[str, str]:
    """Return the options of this command that a variable gave a value, by their names: the variable of each."""
    found: dict[str, str] = {}
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is not None and source.name == "ENVIRONMENT" and isinstance(option.envvar, str):
            found[str(option.name)] = option.envvar
    return found


def overruled(context: typer.Context) -> dict[str, Any]:
    """Options to take as not given: a variable says them, and a flag says something that leaves them no meaning."""
    from kvtool.config.layers import hidden_by

    flags = []
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is not None and source.name == "COMMANDLINE":
            flags.append(str(option.name))
    hidden = hidden_by(flags)
    return {name: None for name in variables(context) if name in hidden}


def long_flag(flags: Sequence[str]) -> str:
    """Return the first long flag of an option, its name in messages."""
    return next((flag for flag in flags if flag.startswith("--")), flags[0])


def given_options(context: typer.Context) -> dict[str, tuple[object, str]]:
    """Return the options from flags and variables: by name, the value and the flag or variable."""
    ignored = overruled(context)
    found: dict[str, tuple[object, str]] = {}
    for option in context.command.params:
        name = str(option.name)
        source = context.get_parameter_source(name)
        if source is None or name in ignored or source.name not in ("COMMANDLINE", "ENVIRONMENT"):
            continue
        where = option.envvar if source.name == "ENVIRONMENT" else long_flag(option.opts)
        if isinstance(where, str):
            found[name] = (context.params[name], where)
    return found


@contextmanager
def named_variables(context: typer.Context) -> Iterator[None]:
    """Name the variable in errors about an option that a variable gave."""
    try:
        yield
    except Exception as error:
        from kvtool.engine.engine_error import EngineError

        given = variables(context)
        if not given or not isinstance(error, KvtoolError | EngineError) or isinstance(error, ProblemsError):
            raise
        place = getattr(error, "place", None)
        if place is not None and place.line is not None:
            raise
        exit_code = getattr(error, "exit_code", EXIT_USAGE)
        message, hint = _renamed(error.message, error.hint, context, given)
        raise KvtoolError(message, hint=hint, place=place, exit_code=exit_code) from error


def _renamed(
    message: str, hint: str | None, context: typer.Context, given: Mapping[str, str]
) -> tuple[str, str | None]:
    values: Mapping[str, Any] = context.params
    for option in context.command.params:
        variable = given.get(option.name or "")
        if variable is None:
            continue
        flag = long_flag(option.opts)
        named = re.sub(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", variable, message)
        if named == message and f"`{values[str(option.name)]}`" in message:
            hint = f"{variable} says it" + (f"; {hint}" if hint else "")
        message = named
    return message, hint
