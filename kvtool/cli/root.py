"""`kvtool` itself, as typer makes it: the group of all commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Annotated, Any, cast

import typer

from kvtool.cli.listed import COMMANDS, DEBUG, EPILOG, SHOW_TRACEBACK, SHOW_VERSION, SUMMARY, WIDEST, groups
from kvtool.version import __version__


class _Commands(Mapping[str, Any]):
    """The commands by name, each made when it is asked for: making all of them takes longer than showing a version."""

    def __init__(self) -> None:
        self._listed = {listed.name: listed for listed in COMMANDS}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            from kvtool.cli.command import typer_command

            listed = self._listed[name]
            self._made[name] = typer_command(name, listed.short, listed.load())
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


class _Group(typer.core.TyperGroup):
    """All commands; their listing makes none of them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": {}})
        self.commands = cast("MutableMapping[str, Any]", _Commands())  # none is added to it

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as typer calls it
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as typer calls it
        for group, rows in groups().items():
            with formatter.section(group):
                formatter.write_dl(rows)


app = typer.Typer(
    cls=_Group,
    name="kvtool",
    help=SUMMARY,
    epilog="\n\n".join(EPILOG),
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"kvtool {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    _show_version: Annotated[
        bool, typer.Option("-V", "--version", callback=_version, is_eager=True, help=SHOW_VERSION)
    ] = False,
    _debug: Annotated[bool, typer.Option(DEBUG, help=SHOW_TRACEBACK)] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
