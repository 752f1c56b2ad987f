"""An accepted fix as edits of the user's own files, checked by reading the workload again with the edits in place."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.fixes.edits.apply import FileEdit, apply_edits
from kvtool.fixes.edits.edits_moves import ValueEdit
from kvtool.fixes.edits.edits_order import yaml_tree
from kvtool.fixes.edits.edits_pieces import PiecePlace
from kvtool.fixes.edits.edits_template import NotEditableError
from kvtool.fixes.edits.edits_turns import GroupEdits
from kvtool.fixes.edits.edits_yaml import SourceEdit, apply_values, edit_scalar, line_end_of, properties_end, quoted
from kvtool.fixes.edits.whole_workload import Sample, WholeWorkload
from kvtool.fixes.fix import Fix
from kvtool.results.finding import TRIED_WITH_MARK, TRIED_WITHOUT
from kvtool.text.files.text_files import Overlay, read_source
from kvtool.text.files.yaml_document import Path as NodePath
from kvtool.text.files.yaml_nodes import Mapping, Scalar
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.schema import Variable
from kvtool.workload.yaml.yaml_source import YamlSource, load_yaml_workload

_NAMED = {"iso": "%Y-%m-%dT%H:%M:%SZ", "date": "%Y-%m-%d", "time": "%H:%M:%S"}
_DIRECTIVE = re.compile("%-?[a-zA-Z%]")
_COMPOUND = {
    "%T": "%H:%M:%S",
    "%R": "%H:%M",
    "%X": "%H:%M:%S",
    "%c": "%a %b %e %H:%M:%S %Y",
    "%D": "%m/%d/%y",
    "%F": "%Y-%m-%d",
}
_FINER = (("%f",), ("%f", "%S"), ("%f", "%S", "%M"), ("%f", "%S", "%M", "%H", "%I", "%p"))
"""What tells less than a second, a minute, an hour and a day."""
_ZERO = {"%f": "000000", "%I": "12", "%p": "AM"}
_LOGS = "a log is a record: fix the code that writes it"
_NOT_TEXT = "it changes a setting of the run, not a prompt"
_NO_MARKS = "it wins only with a cache breakpoint, for which the file has no message"
_BY_HAND = "rewrite the sentences with the value by hand"
_BOM = "\ufeff"


def edits_for(fixes: Sequence[Fix], source: YamlSource | LogSource) -> list[FileEdit] | str:
    """Return the edits of the user's files that do in them what the fixes, in this order, do to turns, or why there are none.

    Edits count in the whole text of a file (`read_source`), or in the text that the source's overlay has for it. They are checked:
    the workload is read again with them, and the first requests of every group (50, more where the fixes change few of them) must
    say what the transformed ones say, and those that no fix concerns what they said before. Line ends do not count in
    that, as Jinja makes those of a file LF where it has an expression. No edits: the files need no change.
    """
    if any(fix.make is None for fix in fixes):
        return _NOT_TEXT
    if any(TRIED_WITHOUT in fix.warnings for fix in fixes):
        return _BY_HAND
    if any(TRIED_WITH_MARK in fix.warnings for fix in fixes):
        return _NO_MARKS
    try:
        return _LOGS if isinstance(source, LogSource) else _workload_edits(fixes, source)
    except NotEditableError as error:
        return str(error)
    except KvtoolError as error:
        return error.message


def _workload_edits(fixes: Sequence[Fix], source: YamlSource) -> list[FileEdit]:
    workload = _whole(source)
    whole = workload.source
    groups = {fix.group for fix in fixes}
    if any(group.import_ is not None and group.name in groups for group in whole.spec.groups):
        raise NotEditableError(_LOGS)
    clocks = [fix for fix in fixes if fix.kind == "coarsen"]
    texts = [fix for fix in fixes if fix.kind != "coarsen"]
    keep_line_ends = all(map(_keeps_line_ends, fixes))
    sample = workload.sampled(fixes, texts, exact=not keep_line_ends)
    if not sample.changed:
        return []
    files = _Files(whole)
    failed: str | None = None
    for of_clocks in product(*(clock_edits(fix, whole) for fix in clocks)):
        for merge in (False, True):
            edits = files.edits(sample, keep_line_ends, merge=merge)
            edits += files.in_workload([edit for each in of_clocks for edit in each])
            why = _failure(edits, workload, sample, groups)
            if why is None:
                return edits
            failed = failed or why
    raise NotEditableError(failed or "no clock format writes these times")


@lru_cache(maxsize=2)
def _whole(source: YamlSource) -> WholeWorkload:
    """Return all of a workload, once for all the fixes that are tried in its files."""
    whole = _read_again(source, source.overlay)
    if whole.document.source != source.document.source:
        raise NotEditableError(f"`{source.path}` has changed since it was read")
    return WholeWorkload(whole)


def _read_again(source: YamlSource, overlay: Overlay | None) -> YamlSource:
    """Return the whole workload, with all its groups, as its files would be."""
    return load_yaml_workload(source.path, seed=source.seed, overlay=overlay, allow_outside=source.allow_outside)


def _keeps_line_ends(fix: Fix) -> bool:
    """Return whether what comes into a file gets the line ends of that file."""
    return fix.kind != "normalize"


def _failure(
    edits: Sequence[FileEdit], workload: WholeWorkload, sample: Sample, groups: Container[str | None]
) -> str | None:
    """Return None where the edited files give the transformed prompts, else why the edits are no good."""
    source = workload.source
    texts = {edit.path: read_source(Path(edit.path), overlay=source.overlay) for edit in edits}
    overlay = dict(source.overlay or {})
    try:
        overlay |= {os.path.realpath(path): text for path, text in apply_edits(texts, edits).items()}
        edited = _read_again(source, overlay)
        group = workload.differing_group(edited, sample, set(map(os.path.realpath, texts)))
    except KvtoolError as error:
        return f"the edited files could not be read: {error.message}"
    if group is None:
        return None
    if None not in groups and group not in groups:
        return f"group `{group}` reads the same text, so its prompts would change too"
    return "kvtool found no edit of the files that gives exactly the prompts of this step"


class _Files:
    """Turns edits of texts into edits of the files that hold them."""

    def __init__(self, source: YamlSource) -> None:
        self._source = source
        self._overlay: Overlay | None = source.overlay

    def edits(self, sample: Sample, keep_line_ends: bool, *, merge: bool) -> list[FileEdit]:
        """Return the edits that the sampled changes come from, those of one text taken from the first request that shows them.

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
            raise NotEditableError(f"`{spot.path}` would be empty: remove the file from the workload")


def _in_file(path: str, whole: str, edits: Sequence[ValueEdit], keep_line_ends: bool) -> list[FileEdit]:
    """Return edits that count in the text of a file as it is read, its byte order mark dropped."""
    shift = int(whole.startswith(_BOM))
    if any("\ud800" <= character <= "\udfff" for _, _, text in edits for character in text):
        raise NotEditableError(f"`{path}` cannot contain half of a surrogate pair")
    end = line_end_of(whole) if keep_line_ends else "\n"
    return [
        FileEdit(path, start + shift, stop + shift, text.replace("\r\n", "\n").replace("\n", end))
        for start, stop, text in edits
    ]


def clock_edits(fix: Fix, source: YamlSource) -> Iterator[list[SourceEdit]]:
    """Yield the edits for each format that tells less than the clock of the fix's variable does now.

    NotEditableError where the fix is about no clock that is written in the workload file.
    """
    name = fix.cause.slot.variable if fix.cause is not None else None
    at, variable = _find(name, fix.group, source)
    if variable.datetime is None:
        raise NotEditableError(f"`{name}` is not a clock: the workload lists its values")
    if variable.format in ("object", "date-object"):
        raise NotEditableError("the template writes this time: shorten the format in its `strftime` by hand")
    for form in _coarser(variable.format or "iso"):
        yield _with_format(source, at, form)


def _find(name: str | None, group: str | None, source: YamlSource) -> tuple[NodePath, Variable]:
    for number, each in enumerate(source.spec.groups):
        if each.name == group and name in each.vars:
            return ("groups", number, "vars", name), each.vars[name]
    if name is None or name not in source.spec.vars:
        raise NotEditableError("its value is not a variable of the workload")
    return ("vars", name), source.spec.vars[name]


def _coarser(form: str) -> Iterator[str]:
    """Yield formats that tell less: the fields below a minute, an hour, a day at zero, or left out with what is after them."""
    form = _NAMED.get(form, form)
    form = _DIRECTIVE.sub(lambda found: _COMPOUND.get(found[0], found[0]), form)
    found = ["date"] if "%d" in form else []
    for finer in _FINER:
        found.append(_DIRECTIVE.sub(lambda each: _zero(each[0]) if _plain(each[0]) in finer else each[0], form))  # noqa: B023
        first = next((each.start() for each in _DIRECTIVE.finditer(form) if _plain(each[0]) in finer), len(form))
        found.append(form[:first].rstrip(" :.,-T"))
    yield from dict.fromkeys(each for each in found if each and each != form)


def _plain(directive: str) -> str:
    return directive.replace("-", "")


def _zero(directive: str) -> str:
    return "0" if directive.startswith("%-") and directive != "%-I" else _ZERO.get(_plain(directive), "00")


def _with_format(source: YamlSource, at: NodePath, form: str) -> list[SourceEdit]:
    document = source.document
    node = document.find(at)
    if not isinstance(node, Mapping):
        raise NotEditableError("the clock is not written in the file itself")
    text = form if re.fullmatch(r"\w+", form) else quoted(form)
    written = node.values.get("format")
    if isinstance(written, Scalar):
        return [SourceEdit(properties_end(document.source, written), written.end, text)]
    tree = yaml_tree(document, node)
    assert tree.entries is not None
    stop = tree.entries[-1].stop
    if document.source[tree.start] == "{":
        return [SourceEdit(stop, stop, f", format: {text}")]
    indent = " " * (node.column - 1)
    return [SourceEdit(stop, stop, f"{line_end_of(document.source)}{indent}format: {text}")]
