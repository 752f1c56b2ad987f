"""A clock of a workload file that tells less: its `format` edited or added."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvtool.fixes.edits.edits_order import yaml_tree
from kvtool.fixes.edits.edits_template import NotEditableError
from kvtool.fixes.edits.edits_yaml import SourceEdit, line_end_of, properties_end, quoted
from kvtool.fixes.fix import Fix
from kvtool.text.files.yaml_document import Path
from kvtool.text.files.yaml_nodes import Mapping, Scalar
from kvtool.workload.yaml.schema import Variable
from kvtool.workload.yaml.yaml_source import YamlSource

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


def clock_edits(fix: Fix, source: YamlSource) -> Iterator[list[SourceEdit]]:
    """The edits for each format that tells less than the clock of the fix's variable does now.

    NotEditableError where the fix is about no clock that is written in the workload file.
    """
    name = fix.cause.slot.variable if fix.cause is not None else None
    at, variable = _find(name, fix.group, source)
    if variable.datetime is None:
        raise NotEditableError(f"`{name}` is no clock of the workload: its values are written out")
    for form in _coarser(variable.format or "iso"):
        yield _with_format(source, at, form)


def _find(name: str | None, group: str | None, source: YamlSource) -> tuple[Path, Variable]:
    for number, each in enumerate(source.spec.groups):
        if each.name == group and name in each.vars:
            return ("groups", number, "vars", name), each.vars[name]
    if name is None or name not in source.spec.vars:
        raise NotEditableError("it is no variable of the workload that would tell less")
    return ("vars", name), source.spec.vars[name]


def _coarser(form: str) -> Iterator[str]:
    """Formats that tell less: the fields below a minute, an hour, a day at zero, or left out with what is behind them."""
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


def _with_format(source: YamlSource, at: Path, form: str) -> list[SourceEdit]:
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
