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

    folder: Annotated[str, Argument("Folder with the prompts; without it, the working folder", "FOLDER")] = "."
    pyproject: Annotated[bool, Option("Add tool.kvtool to pyproject.toml instead of writing kvtool.toml.")] = False
    force: Annotated[bool, Option("Overwrite an existing file.")] = False
    dry_run: Annotated[bool, Option("Show the file, and write nothing.", also="--print")] = False
    rendering: Rendering
    serving: Annotated[Serving, only("block_size")]
    showing: Annotated[Showing, only("offline", "quiet", "color", "plain", "width")]
