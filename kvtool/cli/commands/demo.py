"""The command `kvtool demo`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Option, made, only
from kvtool.config.options.run_options import Measuring
from kvtool.config.options.shown_options import Showing
from kvtool.errors import KvtoolError

EXAMPLES = "workloads"
_EXAMPLE = f"{EXAMPLES}/support-bot.yaml"


@dataclass(frozen=True, kw_only=True)
class DemoCommand(Command):
    """Profile an example that comes with kvtool: a support bot with the time in its system prompt.

    It writes nothing. --write copies the examples to a folder instead, where you can edit and run them.
    """

    write: Annotated[str | None, Option(f"Folder to copy the examples to, as FOLDER/{EXAMPLES}.", "FOLDER")] = None
    measuring: Annotated[Measuring, only("measure_budget", "dry_run")]
    showing: Annotated[Showing, only("json", "quiet", "color", "plain", "width")]

    def run(self) -> int:
        """Profile the example, or copy all of them; 0, or 130 where it was interrupted."""
        home = Path(__file__).parents[2]
        if not (home / _EXAMPLE).is_file():
            raise KvtoolError(f"the examples are missing: there is no {home / EXAMPLES}", hint="reinstall kvtool")
        return self._profile(home) if self.write is None else self._copy(home / EXAMPLES, Path(self.write) / EXAMPLES)

    def _profile(self, home: Path) -> int:
        """Profile in kvtool's own folder, so that paths are the same as in a copy."""
        from contextlib import chdir

        from kvtool.cli.commands.profile import ProfileCommand

        showing = self.showing
        with chdir(home):
            code = made(
                ProfileCommand,
                inputs=(_EXAMPLE,),
                measure_budget=self.measuring.measure_budget,
                dry_run=self.measuring.dry_run,
                no_config=True,
                json=showing.json,
                quiet=showing.quiet,
                color=showing.color,
                plain=showing.plain,
                width=showing.width,
                command_line=("profile", _EXAMPLE),
            ).run()
        if not showing.json:
            self._say(f"{_EXAMPLE} comes with kvtool; to edit and run it:", "kvtool demo --write .")
        return code

    def _copy(self, examples: Path, folder: Path) -> int:
        """KvtoolError where there is something of that name: it may be somebody's work."""
        from shutil import copytree, ignore_patterns

        from kvtool.text.files.checkout_links import write_target

        if folder.exists() or folder.is_symlink():
            raise KvtoolError(f"{folder} exists already", hint="--write ANOTHER-FOLDER")
        copytree(examples, write_target(folder), ignore=ignore_patterns("__pycache__"))
        self._say(f"written: {folder}, with its README.md", f"kvtool profile {folder / Path(_EXAMPLE).name}")
        return 0

    def _say(self, text: str, command: str) -> None:
        from kvtool.text.terminal.console import ascii_only, put, sanitize, say

        console = self.showing.console()
        plain = ascii_only(console)
        put(console)
        say(console, sanitize(text, ascii_only=plain), indent=0)
        put(console, f"  {sanitize(command, ascii_only=plain)}", "bold")
