"""The options of `kvtool optimize`: which fixes it may make, and where edits are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kvtool.config.option import Decides, Option


@dataclass(frozen=True, kw_only=True)
class Editing:
    """Fixes that are allowed, and files that are written."""

    allow: Annotated[
        str | None,
        Option("Also P2 (text moved) and P3 (text changed), such as P2,P3.", "TIERS"),
    ] = None
    unsafe_fixes: Annotated[bool, Option("The same as --allow P2,P3.")] = False
    write: Annotated[bool, Option("Write the edited files, and a patch that undoes it.")] = False
    diff: Annotated[bool, Option("Show the edits.", flag="--diff/--no-diff")] = True
    undo: Annotated[
        str | None,
        Option("The patch. [default: .kvtool/INPUT.undo.patch beside the configuration]", "FILE"),
    ] = None
    output: Annotated[
        str | None,
        Option(
            "The log (JSON lines) in the order that wins with --capacity.", "FILE", short="-o", decides=Decides.OUTPUT
        ),
    ] = None
    breakpoints: Annotated[int | None, Option("Compute where to set 1 to 4 cache_control breakpoints.", "N")] = None
