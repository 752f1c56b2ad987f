"""The options of output, and the choice of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from kvtool.config.option import Decides, Option, Origins, Panel
from kvtool.results.show_text import ShowText
from kvtool.text.terminal import streams
from kvtool.text.terminal.console import ColorChoice

if TYPE_CHECKING:
    from rich.console import Console

    from kvtool.text.terminal.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Writing:
    """Text of prompts in results, and files to write."""

    PANEL: ClassVar = Panel.OUTPUT
    DECIDES: ClassVar = Decides.OUTPUT
    details: Annotated[
        bool,
        Option("Show times, decode, KV cache and blocks.", panel=Panel.COMMON),
    ] = False
    boundaries: Annotated[
        bool, Option("Show hits by block size, and the smallest edit that gains a block.", panel=Panel.ADVANCED)
    ] = False
    show_text: Annotated[
        ShowText | None,
        Option(
            "Prompt text in outputs: none, snippet or full.",
            "MODE",
            table="",
            words="snippet, none in files",
        ),
    ] = None
    outputs: Annotated[
        tuple[str, ...],
        Option(
            "Report to write: .json, .md, .xml, .sarif, .html, .csv or .svg; repeatable.",
            "[FMT=]PATH",
            flag="--output",
            short="-o",
            panel=Panel.COMMON,
        ),
    ] = ()

    @property
    def in_terminal(self) -> ShowText:
        """Return how much may be quoted on standard output: in a terminal more than in a file or a log."""
        return self.show_text or ("snippet" if streams.stdout_is_terminal() else "none")

    @property
    def in_files(self) -> ShowText:
        """Return how much files and JSON may quote."""
        return self.show_text or "none"


@dataclass(frozen=True, kw_only=True)
class Quoting:
    """Text of prompts in what a command prints whose subject is that text."""

    PANEL: ClassVar = Panel.OUTPUT
    DECIDES: ClassVar = Decides.OUTPUT
    show_text: Annotated[
        ShowText | None,
        Option("Prompt text to print: none, snippet or full.", "MODE", table="", words="full, none in a pipe"),
    ] = None

    @property
    def printed(self) -> ShowText:
        """Return how much of prompts may be printed: all of it for people, nothing in a pipe or a log."""
        return self.show_text or ("full" if streams.stdout_is_terminal() else "none")


@dataclass(frozen=True, kw_only=True)
class Configured:
    """Choice of the configuration file."""

    PANEL: ClassVar = Panel.COMMON
    config: Annotated[
        str | None,
        Option("Configuration file.", "FILE", short="-c", variable=True, words="nearest kvtool.toml"),
    ] = None
    no_config: Annotated[bool, Option("Read no configuration file.", panel=Panel.ADVANCED)] = False


@dataclass(frozen=True, kw_only=True)
class Showing:
    """Format, colours and width of what a command prints, and use of the network."""

    PANEL: ClassVar = Panel.OUTPUT
    DECIDES: ClassVar = Decides.OUTPUT
    json: Annotated[bool, Option("Print one JSON document instead of the report.")] = False
    offline: Annotated[bool, Option("Use no network.", table="", decides=Decides.RESULT, panel=Panel.ADVANCED)] = False
    quiet: Annotated[bool, Option("Show no progress.", short="-q")] = False
    color: Annotated[ColorChoice, Option("Colours: auto, always or never.", "WHEN", table="", panel=Panel.ADVANCED)] = (
        "auto"
    )
    plain: Annotated[bool, Option("Print one record per line: no bars, no columns.")] = False
    width: Annotated[
        int | None,
        Option("Columns of the report.", "N", table="", words="the terminal's", least=20, panel=Panel.ADVANCED),
    ] = None
    command_line: Annotated[tuple[str, ...], Origins.COMMAND_LINE] = ()

    def console(self) -> Console:
        """Standard output, as it was asked for."""
        from kvtool.text.terminal.console import make_console

        return make_console(color=self.color, width=self.width, plain=self.plain)

    def progress(self, unit: str = "requests") -> Progress:
        """Show the progress of a command on standard error."""
        from kvtool.text.terminal.console import make_console
        from kvtool.text.terminal.progress import Progress

        return Progress(make_console(stderr=True, color=self.color), quiet=self.quiet, unit=unit)
