"""Makes commands of typer out of dataclasses of options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from inspect import Parameter, Signature
from textwrap import TextWrapper
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import typer
import typer.core

from kvtool.cli.env_variables import given_options, named_variables, overruled
from kvtool.config.option import PREFIX, Argument, Option, OptionField, Origins, Panel, made, walk

_FULL = "kvtool.full_help"
"""Mark of a context in which --help-all was given."""
_NAMES = 24
"""Columns of names of options; longer ones have a line of their own."""
HELP_OPTIONS = (
    ("-h, --help", "Show the common options and exit."),
    ("--help-all", "Show all options, their variables and other names, and exit."),
)


class Command(ABC):
    """A command: a frozen dataclass of its options, with its help as docstring."""

    PANEL: ClassVar = Panel.COMMON
    """Panel of the options that a command declares itself."""

    @abstractmethod
    def run(self) -> int:
        """Do it; returns the exit code."""


@dataclass(frozen=True, slots=True)
class HelpRow:
    """An option or an argument in the help of a command; `panel` is None for an argument."""

    panel: Panel | None
    names: str
    text: str
    default: str = ""
    required: bool = False
    notes: tuple[str, ...] = ()
    """For the full help: a bound, a variable, other flags."""

    def lines(self, width: int, *, full: bool) -> list[str]:
        """Return its lines of the help: names in one column, text in another."""
        notes = ["required"] * self.required + [f"default: {self.default}"] * bool(self.default)
        notes += self.notes if full else ()
        text = f"{self.text} [{'; '.join(notes)}]" if notes else self.text
        column = "  ".ljust(_NAMES + 4)
        lines = TextWrapper(width, initial_indent=column, subsequent_indent=column, break_on_hyphens=False).wrap(text)
        if len(self.names) > _NAMES:
            return [f"  {self.names}", *lines]
        return [f"  {self.names:<{_NAMES}}  {lines[0].lstrip()}", *lines[1:]]


def help_rows(command: type[Command]) -> list[HelpRow]:
    """Return the arguments and options of a command, in the order of its help."""
    fields = _on_command_line(command)
    flags = {each.name: each.mark.long_flag(each.name) for each in fields if isinstance(each.mark, Option)}
    rows = [_row(each, flags) for each in fields]
    rows += [HelpRow(Panel.ADVANCED, *row) for row in HELP_OPTIONS]
    return sorted(rows, key=lambda row: -1 if row.panel is None else list(Panel).index(row.panel))


def _row(each: OptionField, flags: Mapping[str, str]) -> HelpRow:
    mark = each.mark
    if isinstance(mark, Argument):
        return HelpRow(None, _usage(each), mark.help)
    assert isinstance(mark, Option)
    names = ", ".join(form for form in (mark.short, (mark.flag or flags[each.name]).replace("/", " / ")) if form)
    same = [flags[name] for name in mark.see if name in flags]
    text = f"{mark.help} Also {', '.join(same)}." if same else mark.help
    notes = [f"at least {mark.least}"] if mark.least is not None else []
    notes += [f"env var: {PREFIX}{each.name.upper()}"] if mark.variable else []
    notes += [f"also: {', '.join(mark.also.split())}"] if mark.also else []
    names, default = f"{names} {_values(each)}".rstrip(), mark.default_words(each.default)
    return HelpRow(each.panel, names, text, default, each.default is MISSING, tuple(notes))


def _values(each: OptionField) -> str:
    """Return what follows a flag: a name for its value, or the values that it takes."""
    assert isinstance(each.mark, Option)
    kinds = [kind for kind in get_args(each.kind) or (each.kind,) if kind is not type(None)]
    if each.mark.metavar is not None or kinds == [bool]:
        return each.mark.metavar or ""
    choices = get_args(each.kind) if get_origin(each.kind) is Literal else get_args(kinds[0])
    assert choices, f"{each.name} has neither a metavar nor choices"
    return "|".join(choices)


def _usage(each: OptionField) -> str:
    """Return an argument as the usage line writes it."""
    assert isinstance(each.mark, Argument)
    name = each.mark.metavar.strip("[]") + ("..." if _repeats(each) else "")
    return name if each.default is MISSING else f"[{name}]"


class _PanelCommand(typer.core.TyperCommand):
    """A command with a help in panels; `--help` leaves some of them to `--help-all`."""

    options: type[Command]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as typer calls it
        arguments = [_usage(each) for each in _on_command_line(self.options) if isinstance(each.mark, Argument)]
        return [self.options_metavar or "", *arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        full = _FULL in ctx.meta
        rows = help_rows(self.options)
        shown = [row for row in rows if full or row.panel is None or not row.panel.only_in_full_help]
        for panel in dict.fromkeys(row.panel for row in shown):
            with formatter.section(panel.value if panel else "Arguments"):
                lines = (row.lines(formatter.width, full=full) for row in shown if row.panel is panel)
                formatter.write("".join(f"{line}\n" for each in lines for line in each))
        if len(shown) < len(rows):
            formatter.write(f"\n--help-all shows {len(rows) - len(shown)} more options.\n")


def _show_full_help(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.meta[_FULL] = True
        print(context.get_help())
        raise typer.Exit


_FULL_HELP = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=_show_full_help, help=HELP_OPTIONS[1][1])
]


def typer_command(name: str, short: str, command: type[Command]) -> Any:
    """Return the command as typer makes one of a function's signature."""

    def call(context: typer.Context, **values: Any) -> int:
        with named_variables(context):
            given = {**values, **overruled(context)}
            _fill_in_configured(command, given, context)
            return _filled(command, given, context).run()

    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [_parameter(each) for each in _on_command_line(command)]
    parameters += [Parameter("full_help", Parameter.KEYWORD_ONLY, annotation=_FULL_HELP, default=False)]
    call.__doc__ = command.__doc__
    call.__annotations__ = {}
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined] # what inspect.signature looks at first
    info = typer.models.CommandInfo(name=name, callback=call, short_help=short, cls=_PanelCommand)
    found: Any = typer.main.get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)
    found.options = command
    return found


def _on_command_line(command: type[Command]) -> list[OptionField]:
    return [
        each
        for each in walk(command)
        if isinstance(each.mark, Argument) or (isinstance(each.mark, Option) and each.mark.flag is not None)
    ]


def _fill_in_configured(command: type[Command], values: dict[str, Any], context: typer.Context) -> None:
    """Add the workload of kvtool.toml where no input is on the command line. KvtoolError where there is not exactly one."""
    for each in walk(command):
        if isinstance(each.mark, Argument) and each.mark.configured and not values[each.name]:
            from kvtool.config.loading import configured_workload
            from kvtool.config.options.shown_options import Configured

            asked = made(Configured, **{name: values[name] for name in ("config", "no_config")})
            found = configured_workload(
                asked, f"kvtool {context.info_name}", each.mark, allow_outside=values["allow_outside"]
            )
            values[each.name] = [found]
            context.obj = (*(context.obj or ()), found)


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
        "help": mark.help,
    }
    if isinstance(mark, Argument):
        info = typer.Argument(**shared)
    else:
        info = typer.Option(*mark.flags(each.name), min=mark.least, **shared)
    return Parameter(
        each.name,
        Parameter.KEYWORD_ONLY,
        annotation=Annotated[kind, info],
        default=Parameter.empty if default is MISSING else default,
    )
