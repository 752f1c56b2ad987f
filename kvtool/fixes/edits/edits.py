"""An accepted fix as edits of the user's own files, checked by reading the workload again with the edits in place."""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from itertools import product
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.fixes.edits.apply import apply_edits
from kvtool.fixes.edits.edit import FileEdit
from kvtool.fixes.edits.edits_check import Sample, differing_group, sampled
from kvtool.fixes.edits.edits_clock import clock_edits
from kvtool.fixes.edits.edits_moves import ValueEdit
from kvtool.fixes.edits.edits_pieces import PiecePlace
from kvtool.fixes.edits.edits_template import NotEditableError
from kvtool.fixes.edits.edits_turns import GroupEdits
from kvtool.fixes.edits.edits_yaml import SourceEdit, apply_values, edit_scalar, line_end_of
from kvtool.fixes.fix import Fix
from kvtool.fixes.proofs import NAMED_ONCE
from kvtool.text.files.text_files import Overlay, read_source
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.yaml_source import YamlSource, load_yaml_workload

_LOGS = "logs are records of what was sent: change what writes them"
_NOT_TEXT = "it changes how requests are run, not what they say"
_BY_HAND = "the sentences that hold the value are to be written anew by hand"
_BOM = "\ufeff"


def edits_for(fixes: Sequence[Fix], source: YamlSource | LogSource) -> list[FileEdit] | str:
    """The edits of the user's files that do in them what the fixes, in this order, do to turns, or why there are none.

    Edits count in the whole text of a file (`read_source`), or in the text that the source's overlay has for it. They are checked:
    the workload is read again with them, and the first requests of every group (50, more where the fixes change few of them) must
    say what the transformed ones say, and those that no fix concerns what they said before. Line ends do not count in
    that, as Jinja makes those of a file LF where it has an expression. No edits: the files need no change.
    """
    if any(fix.make is None for fix in fixes):
        return _NOT_TEXT
    if any(fix.kind == NAMED_ONCE for fix in fixes):
        return _BY_HAND
    try:
        return _LOGS if isinstance(source, LogSource) else _workload_edits(fixes, source)
    except NotEditableError as error:
        return str(error)
    except KvtoolError as error:
        return error.message


def _workload_edits(fixes: Sequence[Fix], source: YamlSource) -> list[FileEdit]:
    whole = _read_again(source, source.overlay)
    if whole.document.source != source.document.source:
        raise NotEditableError(f"`{source.path}` has changed since it was read")
    groups = {fix.group for fix in fixes}
    if any(group.import_ is not None and group.name in groups for group in whole.spec.groups):
        raise NotEditableError(_LOGS)
    clocks = [fix for fix in fixes if fix.kind == "coarsen"]
    texts = [fix for fix in fixes if fix.kind != "coarsen"]
    keep_line_ends = all(map(_keeps_line_ends, fixes))
    sample = sampled(whole, fixes, texts, exact=not keep_line_ends)
    if not sample.changed:
        return []
    files = _Files(whole)
    failed: str | None = None
    for of_clocks in product(*(clock_edits(fix, whole) for fix in clocks)):
        for merge in (False, True):
            edits = files.edits(sample, keep_line_ends, merge=merge)
            edits += files.in_workload([edit for each in of_clocks for edit in each])
            why = _failure(edits, whole, sample, groups, exact=not keep_line_ends)
            if why is None:
                return edits
            failed = failed or why
    raise NotEditableError(failed or "no format of a clock writes the times that it makes")


def _read_again(source: YamlSource, overlay: Overlay | None) -> YamlSource:
    """The whole workload, with all its groups, as its files would be."""
    return load_yaml_workload(source.path, seed=source.seed, overlay=overlay, allow_outside=source.allow_outside)


def _keeps_line_ends(fix: Fix) -> bool:
    """Whether what comes into a file gets the line ends of that file."""
    return fix.kind != "normalize"


def _failure(
    edits: Sequence[FileEdit], source: YamlSource, sample: Sample, groups: Container[str | None], *, exact: bool
) -> str | None:
    """None where the edited files give the transformed prompts, else why the edits are no good."""
    texts = {edit.path: read_source(Path(edit.path), overlay=source.overlay) for edit in edits}
    overlay = dict(source.overlay or {})
    try:
        overlay |= {os.path.realpath(path): text for path, text in apply_edits(texts, edits).items()}
        edited = _read_again(source, overlay)
        group = differing_group(edited, sample, exact=exact)
    except KvtoolError as error:
        return f"the edited files could not be read: {error.message}"
    if group is None:
        return None
    if None not in groups and group not in groups:
        return f"group `{group}` reads the same text, and its prompts would change as well"
    return "no edit of the files gives just the prompts that it makes"


class _Files:
    """Turns edits of texts into edits of the files that hold them."""

    def __init__(self, source: YamlSource) -> None:
        self._source = source
        self._overlay: Overlay | None = source.overlay

    def edits(self, sample: Sample, keep_line_ends: bool, *, merge: bool) -> list[FileEdit]:
        """The edits that the sampled changes come from, those of one text taken from the first request that shows them.

        `merge`: those of one text are taken from all requests, as the first one may not have all that is moved.
        """
        spots: dict[PiecePlace, list[ValueEdit]] = {}
        lists: list[SourceEdit] = []
        found: list[FileEdit] = []
        for name, pairs in sample.pairs.items():
            group = GroupEdits(self._source, name, merge=merge)
            for before, after in pairs:
                if before is not after:
                    group.add(before, after)
            for spot, edits in group.spots.items():
                known = spots.setdefault(spot, edits)
                known += [edit for edit in edits if merge and edit not in known]
            lists += [edit for edit in group.lists if edit not in lists]
            for path, (start, stop, text) in group.files:
                shift = self._shift(path)
                edit = FileEdit(path, start + shift, stop + shift, text)
                found += [edit] if edit not in found else []
        for spot, values in spots.items():
            values.sort(key=lambda edit: edit[:2])
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
