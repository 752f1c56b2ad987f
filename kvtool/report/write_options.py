"""Options of a renderer."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.results.show_text import ShowText


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`show_text` says what of prompts may be quoted; the result contains no more than that already.

    `root` is the folder that paths in files for other tools are relative to (the git root, else the working folder). `command` is
    what stood behind `kvtool`, for the next command that a report proposes. `width` is that of text formats, in columns; with
    `details` they say what the engine did, too.
    """

    show_text: ShowText = "none"
    root: str = "."
    command: tuple[str, ...] = ()
    width: int = 80
    details: bool = False
