"""An accepted fix as edits of the user's own files, checked by reading the workload again with the edits in place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.fixes.edits.apply import apply_edits
from kvtool.fixes.edits.edit import FileEdit
from kvtool.fixes.edits.edits_check import Sample, differing_group, sampled
from kvtool.fixes.edits.edits_clock import clock_edits
from kvtool.fixes.edits.edits_moves import Field, ValueEdit, found_edits
from kvtool.fixes.edits.edits_pieces import PiecePlace, Reader
from kvtool.fixes.edits.edits_template import NotEditableError
from kvtool.fixes.edits.edits_turns import GroupEdits
from kvtool.fixes.edits.edits_yaml import SourceEdit, apply_values, edit_scalar, line_end_of
from kvtool.fixes.fix import Fix
from kvtool.fixes.proofs import NAMED_ONCE
from kvtool.text.files.text_files import Overlay, read_source
from kvtool.text.traced import Origin, Traced
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.turn import Turn
from kvtool.workload.yaml.yaml_source import YamlSource, load_yaml_workload

_LOGS = "logs are records of what was sent: change what writes them"
_NOT_TEXT = "it changes how requests are run, not what they say"
_BY_HAND = "the sentences that hold the value are to be written anew by hand"
_BOM = "\ufeff"


def edits_for(fix: Fix, source: YamlSource | LogSource) -> list[FileEdit] | str:
    """The edits of the user's files that do in them what `fix.make()` does to turns, or a sentence why there are none.

    Edits count in the whole text of a file (`read_source`), or in the text that the source's overlay has for it. They are checked:
    the workload is read again with them, and the first requests of every group (50, more where the fix changes few of them) must
    say what the transformed ones say, and those that the fix does not concern what they said before. Line ends do not count in
    that, as Jinja makes those of a file LF where it has an expression. No edits: the files need no change.
    """
    if fix.make is None:
        return _NOT_TEXT
    if fix.kind == NAMED_ONCE:
        return _BY_HAND
    try:
        return _plain_edits(fix, source) if isinstance(source, LogSource) else _workload_edits(fix, source)
    except NotEditableError as error:
        return str(error)
    except KvtoolError as error:
        return error.message


def _workload_edits(fix: Fix, source: YamlSource) -> list[FileEdit]:
    whole = _read_again(source, source.overlay)
    if whole.document.source != source.document.source:
        raise NotEditableError(f"`{source.path}` has changed since it was read")
    if any(group.import_ is not None and group.name == fix.group for group in whole.spec.groups):
        raise NotEditableError(_LOGS)
    sample = sampled(whole, fix, exact=not _keeps_line_ends(fix))
    if not any(before is not after for pairs in sample.pairs.values() for before, after in pairs):
        return []
    if fix.kind == "coarsen":
        return _first_that_holds(clock_edits(fix, whole), whole, sample, fix)
    edits = _Files(whole).edits(sample, _keeps_line_ends(fix))
    failed = _failure(edits, whole, sample, fix)
    if failed is not None:
        raise NotEditableError(failed)
    return edits


def _read_again(source: YamlSource, overlay: Overlay | None) -> YamlSource:
    """The whole workload, with all its groups, as its files would be."""
    return load_yaml_workload(source.path, seed=source.seed, overlay=overlay, allow_outside=source.allow_outside)


def _keeps_line_ends(fix: Fix) -> bool:
    """Whether what comes into a file gets the line ends of that file."""
    return fix.kind != "normalize"


def _first_that_holds(
    tries: Iterable[list[SourceEdit]], source: YamlSource, sample: Sample, fix: Fix
) -> list[FileEdit]:
    """The edits of the first way to write a clock with which the workload gives the transformed prompts."""
    failed: str | None = None
    files = _Files(source)
    for each in tries:
        edits = files.in_workload(each)
        failed = _failure(edits, source, sample, fix)
        if failed is None:
            return edits
    raise NotEditableError(failed or "no format of a clock writes the times that it makes")


def _failure(edits: Sequence[FileEdit], source: YamlSource, sample: Sample, fix: Fix) -> str | None:
    """None where the edited files give the transformed prompts, else why the edits are no good."""
    texts = {edit.path: read_source(Path(edit.path), overlay=source.overlay) for edit in edits}
    overlay = dict(source.overlay or {})
    overlay |= {os.path.realpath(path): text for path, text in apply_edits(texts, edits).items()}
    try:
        edited = _read_again(source, overlay)
        group = differing_group(edited, sample, exact=not _keeps_line_ends(fix))
    except KvtoolError as error:
        return f"the edited files could not be read: {error.message}"
    if group is None:
        return None
    if fix.group is not None and group != fix.group:
        return f"group `{group}` reads the same text, and its prompts would change as well"
    return "no edit of the files gives just the prompts that it makes"


class _Files:
    """Turns edits of texts into edits of the files that hold them."""

    def __init__(self, source: YamlSource) -> None:
        self._source = source
        self._overlay: Overlay | None = source.overlay

    def edits(self, sample: Sample, keep_line_ends: bool) -> list[FileEdit]:
        """The edits that the sampled changes come from, those of one text taken from the first request that shows them."""
        spots: dict[PiecePlace, list[ValueEdit]] = {}
        lists: list[SourceEdit] = []
        found: list[FileEdit] = []
        for name, pairs in sample.pairs.items():
            group = GroupEdits(self._source, name)
            for before, after in pairs:
                if before is not after:
                    group.add(before, after)
            for spot, edits in group.spots.items():
                spots.setdefault(spot, edits)
            lists += [edit for edit in group.lists if edit not in lists]
            for path, (start, stop, text) in group.files:
                shift = self._shift(path)
                edit = FileEdit(path, start + shift, stop + shift, text)
                found += [edit] if edit not in found else []
        for spot, values in spots.items():
            if spot.at is None:
                self._check_left(spot, values)
                text = read_source(Path(spot.path), overlay=self._overlay)
                found += _in_file(spot.path, text, values, keep_line_ends)
            else:
                lists += edit_scalar(self._source.document, spot.at, values)
        return found + self.in_workload(lists)

    def in_workload(self, edits: Sequence[SourceEdit]) -> list[FileEdit]:
        shift = self._shift(self._source.path)
        return [FileEdit(self._source.path, start + shift, stop + shift, text) for start, stop, text in sorted(edits)]

    def _shift(self, path: str) -> int:
        return int(read_source(Path(path), overlay=self._overlay).startswith(_BOM))

    @staticmethod
    def _check_left(spot: PiecePlace, edits: Sequence[ValueEdit]) -> None:
        if not apply_values(spot.text, edits).strip():
            raise NotEditableError(f"nothing would be left of `{spot.path}`: take the file out of the workload")


def _in_file(path: str, whole: str, edits: Sequence[ValueEdit], keep_line_ends: bool) -> list[FileEdit]:
    """Edits that count in the text of a file as it is read, its byte order mark dropped."""
    shift = int(whole.startswith(_BOM))
    if any("\ud800" <= character <= "\udfff" for _, _, text in edits for character in text):
        raise NotEditableError(f"`{path}` cannot hold half of a surrogate pair")
    end = line_end_of(whole) if keep_line_ends else "\n"
    return [
        FileEdit(path, start + shift, stop + shift, text.replace("\r\n", "\n").replace("\n", end))
        for start, stop, text in edits
    ]


def _plain_edits(fix: Fix, source: LogSource) -> list[FileEdit]:
    """The edits of text files that are prompts themselves."""
    assert fix.make is not None
    transform = fix.make()
    found: list[FileEdit] = []
    for conversation in source.conversations():
        turn = conversation.next_turn(None)
        while turn is not None:
            after = transform(turn)
            if after is not turn:
                found += _edits_of_prompt(turn, after, _keeps_line_ends(fix))
            turn = conversation.next_turn(None)
    return found


def _edits_of_prompt(before: Turn, after: Turn, keep_line_ends: bool) -> list[FileEdit]:
    origin = _origin_of(before.text)
    if origin is None or after.text is None:
        raise NotEditableError(_LOGS)
    assert before.text is not None
    if not os.path.isfile(origin.path):  # noqa: PTH113 - a name from the command line
        raise NotEditableError(f"`{origin.path}` is not a regular file")
    whole = read_source(Path(origin.path))
    if whole.removeprefix(_BOM) != before.text:
        raise NotEditableError(f"`{origin.path}` has changed since it was read")
    spot = PiecePlace(origin.path, None, origin.text, origin, raw=True)
    reader = Reader(lambda label, path: spot if (label, path) == (origin.part, origin.path) else None)
    edits = found_edits(reader, [Field((origin.part,), before.text, after.text, spots=(spot,))])
    values = edits.edits.get(spot, [])
    made, wanted = (text.replace("\r\n", "\n") for text in (apply_values(origin.text, values), str(after.text)))
    if made != wanted or not wanted.strip():
        raise NotEditableError("no edit of the file gives just the prompt that it makes")
    return _in_file(origin.path, whole, values, keep_line_ends)


def _origin_of(text: Traced | None) -> Origin | None:
    """Where the whole of a text stands in a file as it is; None where it does not."""
    origins = [] if text is None else [mark.origin for mark in text.marks]
    origin = origins[0] if len(origins) == 1 else None
    return origin if origin is not None and origin.verbatim and not origin.pointer else None
