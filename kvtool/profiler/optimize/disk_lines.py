"""Lines of files as they are on disk, for places that were found in the same files with edits."""

from __future__ import annotations

from difflib import SequenceMatcher

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.findings import place_of
from kvtool.workload.logs.files.locations import locate

Place = tuple[str, int, int]
"""A file, a line and a column; 0 where there is none."""


def disk_place(cause: SlotCause, overlay: dict[str, tuple[str, str]]) -> Place:
    """Return the place of a cause on disk. `overlay` contains, by path, a file's text on disk and the edited text of the cause."""
    path, line, column = place_of(cause, locate, "")
    if path not in overlay or not line:
        return path, line, column
    disk, edited = overlay[path]
    found = disk_line(disk, edited, line)
    return path, found, column if found else 0


def disk_line(disk: str, edited: str, line: int) -> int:
    """Return the number (from 1) in `disk` of a line of `edited`; 0 for a line that is not on disk as it is.

    A moved line is found where it was: a line that has gone from there and reads the same.
    """
    before, after = disk.split("\n"), edited.split("\n")
    at = line - 1
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    kept = {number for block in blocks for number in range(block.a, block.a + block.size)}
    for block in blocks:
        if block.b <= at < block.b + block.size:
            return block.a + at - block.b + 1
    gone = [number for number, text in enumerate(before) if number not in kept and text.strip() == after[at].strip()]
    return gone[0] + 1 if gone else 0
