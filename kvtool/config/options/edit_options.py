"""The options of `kvtool optimize`: allowed fixes, and the place of the edits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kvtool.config.option import Decides, Option, Panel


@dataclass(frozen=True, kw_only=True)
class Editing:
    """Allowed fixes and written files."""

    PANEL: ClassVar = Panel.COMMON
    allow: Annotated[
        tuple[str, ...],
        Option("Tiers to allow beside P0 and P1: P2 (moves text), P3 (changes text), or P2,P3.", "TIERS"),
    ] = ()
    unsafe_fixes: Annotated[bool, Option("Allow P2 and P3, as --allow P2,P3 does.", panel=Panel.ADVANCED)] = False
    write: Annotated[bool, Option("Write the edited files, and a patch that undoes the edits.")] = False
    diff: Annotated[bool, Option("Show the edits.", flag="--diff/--no-diff")] = True
    undo: Annotated[
        str | None,
        Option("Patch that undoes the edits.", "FILE", words=".kvtool/INPUT.undo.patch beside the configuration"),
    ] = None
    output: Annotated[
        str | None,
        Option(
            "Edited log (JSON lines). With --capacity: the reordered log.",
            "FILE",
            short="-o",
            decides=Decides.OUTPUT,
        ),
    ] = None
    breakpoints: Annotated[int | None, Option("Number of cache_control breakpoints to place: 1 to 4.", "N")] = None
