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
            raise KvtoolError(f"the examples are missing: {home / EXAMPLES} does not exist", hint="reinstall kvtool")
        return self._profile(home) if self.write is None else self._copy(home / EXAMPLES, Path(self.write) / EXAMPLES)

    def _profile(self, home: Path) -> int:
        """Profile in kvtool's own folder, so that paths are the same as in a copy."""
        from contextlib import chdir

        from kvtool.cli.commands.profile import ProfileCommand

        class ExampleProfile(ProfileCommand):
            copy_first = () if Path(_EXAMPLE).exists() else ("demo", "--write", ".")

        showing = self.showing
        with chdir(home):
            return made(
                ExampleProfile,
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

    def _copy(self, examples: Path, folder: Path) -> int:
        """KvtoolError where there is something of that name: it may be somebody's work."""
        from shutil import copytree, ignore_patterns

        from kvtool.text.files.checkout_links import write_target

        if folder.exists() or folder.is_symlink():
            raise KvtoolError(f"{folder} exists already", hint="choose another folder")
        copytree(examples, write_target(folder), ignore=ignore_patterns("__pycache__"))
        self._next(f"Wrote {folder}.", "profile the example", ["profile", str(folder / Path(_EXAMPLE).name)])
        return 0

    def _next(self, done: str, todo: str, words: list[str]) -> None:
        from kvtool.report.terminal.lines import put_next
        from kvtool.text.terminal.console import ascii_only, sanitize, say

        console = self.showing.console()
        say(console, sanitize(done, ascii_only=ascii_only(console)), indent=0)
        put_next(console, todo, words)
