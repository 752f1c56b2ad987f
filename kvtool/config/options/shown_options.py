"""The options that decide what is written and shown, and which configuration applies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from kvtool.config.option import Decides, Option, Origins
from kvtool.results.show_text import ShowText
from kvtool.text.terminal import streams
from kvtool.text.terminal.console import ColorChoice

if TYPE_CHECKING:
    from rich.console import Console

    from kvtool.text.terminal.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Writing:
    """Text of prompts in results, and files to write."""

    DECIDES: ClassVar = Decides.OUTPUT
    details: Annotated[
        bool,
        Option("Also how the engine fared: times, decode steps, the KV cache, blocks. JSON and HTML have it always."),
    ] = False
    boundaries: Annotated[bool, Option("Hits by block size, and the smallest edit that gains a block.")] = False
    show_text: Annotated[
        ShowText | None,
        Option(
            "Whether prompts may be quoted. [default: snippet in the terminal, none in files]",
            table="",
            words="snippet, none in files",
        ),
    ] = None
    outputs: Annotated[
        tuple[str, ...],
        Option(
            "Also write PATH, in the format of its extension (json, md, xml, sarif, html, csv, svg) or FMT; repeatable.",
            "[FMT=]PATH",
            flag="--output",
            short="-o",
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
class Configured:
    """Choice of the configuration file."""

    config: Annotated[
        str | None,
        Option(
            "Configuration. [default: kvtool.toml, or tool.kvtool in pyproject.toml, here or above up to the git root]",
            "FILE",
            short="-c",
            variable=True,
        ),
    ] = None
    no_config: Annotated[bool, Option("Read no configuration file.")] = False


@dataclass(frozen=True, kw_only=True)
class Showing:
    """Format, colours and width of what a command prints, and use of the network."""

    DECIDES: ClassVar = Decides.OUTPUT
    json: Annotated[bool, Option("One JSON document instead of the report.")] = False
    offline: Annotated[bool, Option("Never use the network.", table="", decides=Decides.RESULT)] = False
    quiet: Annotated[bool, Option("No progress.", short="-q")] = False
    color: Annotated[ColorChoice, Option("Colour: on a terminal only, always, or never.", table="")] = "auto"
    plain: Annotated[bool, Option("No bars and no columns: one record per line.")] = False
    width: Annotated[
        int | None,
        Option("Columns of the report; else those of the terminal.", table="", words="the terminal's", least=20),
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
