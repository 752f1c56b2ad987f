"""Options of `kvtool init`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kvtool.config.option import Argument, Option, only
from kvtool.config.options.run_options import Rendering, Serving
from kvtool.config.options.shown_options import Showing


@dataclass(frozen=True, kw_only=True)
class InitOptions:
    """Folder to search, files to write, and options of the run."""

    folder: Annotated[str, Argument("Where the prompts are.", "FOLDER")] = "."
    pyproject: Annotated[bool, Option("Add tool.kvtool to pyproject.toml instead of writing kvtool.toml.")] = False
    force: Annotated[bool, Option("Overwrite what is there.")] = False
    dry_run: Annotated[bool, Option("Show what would be written, and write nothing.", flag="--dry-run --print")] = False
    rendering: Rendering
    serving: Annotated[Serving, only("block_size")]
    showing: Annotated[Showing, only("offline", "quiet", "color", "plain", "width")]
