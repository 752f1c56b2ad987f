"""Makes commands of typer out of dataclasses of options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING
from inspect import Parameter, Signature
from typing import Annotated, Any, get_origin

import typer
import typer.core

from kvtool.cli.env_variables import given_options, named_variables, overruled
from kvtool.config.option import PREFIX, Argument, Option, OptionField, Origins, made, walk


class Command(ABC):
    """A command: a frozen dataclass of its options, with its help as docstring."""

    @abstractmethod
    def run(self) -> int:
        """Do it; returns the exit code."""


class _SectionedCommand(typer.core.TyperCommand):
    """Its help has the options that mean something in one case only in sections of their own, below the others."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            own = "Arguments" if parameter.param_type_name == "argument" else "Options"
            sections.setdefault(getattr(parameter, "rich_help_panel", None) or own, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def typer_command(name: str, short: str, command: type[Command]) -> Any:
    """Return the command as typer makes one of a function's signature."""

    def call(context: typer.Context, **values: Any) -> int:
        with named_variables(context):
            return _filled(command, {**values, **overruled(context)}, context).run()

    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [_parameter(each) for each in _on_command_line(command)]
    call.__doc__ = command.__doc__
    call.__annotations__ = {}
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined] # what inspect.signature looks at first
    info = typer.models.CommandInfo(name=name, callback=call, short_help=short, cls=_SectionedCommand)
    return typer.main.get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)


def _on_command_line(command: type[Command]) -> list[OptionField]:
    return [
        each
        for each in walk(command)
        if isinstance(each.mark, Argument) or (isinstance(each.mark, Option) and each.mark.flag is not None)
    ]


def _filled(command: type[Command], values: Mapping[str, Any], context: typer.Context) -> Command:
    """Return the command with what stands on the command line, in variables and around them."""
    given: dict[str, Any] = {}
    for each in walk(command):
        if each.mark is Origins.COMMAND_LINE:
            given[each.name] = context.obj or ()
        elif each.mark is Origins.GIVEN:
            given[each.name] = given_options(context)
        elif each.name in values:
            given[each.name] = tuple(values[each.name] or ()) if _repeats(each) else values[each.name]
    return made(command, **given)


def _repeats(each: OptionField) -> bool:
    return get_origin(each.kind) is tuple


def _parameter(each: OptionField) -> Parameter:
    """Return an option or an argument as a parameter of a function."""
    mark, kind, default = each.mark, each.kind, each.default
    assert isinstance(mark, Argument | Option)
    if _repeats(each):
        kind, default = (list[str], default) if default is MISSING else (list[str] | None, None)
    shared: dict[str, Any] = {
        "metavar": mark.metavar,
        "envvar": PREFIX + each.name.upper() if mark.variable else None,
        "show_default": default not in (MISSING, None),
    }
    if isinstance(mark, Argument):
        info = typer.Argument(help=mark.help, **shared)
    else:
        panel = f"With --rules {mark.rules}" if mark.rules else None
        info = typer.Option(
            *mark.flags(each.name), min=mark.least, help=mark.told(default), rich_help_panel=panel, **shared
        )
    return Parameter(
        each.name,
        Parameter.KEYWORD_ONLY,
        annotation=Annotated[kind, info],
        default=Parameter.empty if default is MISSING else default,
    )
