"""A text in a YAML file changed where it stands: in its own style where that can say it, else in the next one that can."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from kvtool.errors import KvtoolError
from kvtool.fixes.edits.edits_moves import ValueEdit
from kvtool.fixes.edits.edits_template import NotEditableError
from kvtool.text.files.yaml_document import Path, YamlDocument, parse_yaml
from kvtool.text.files.yaml_nodes import Mapping, Scalar, YamlNode
from kvtool.text.files.yaml_nodes import Sequence as List

_PROPERTIES = re.compile(r"(?:[!&]\S*+\s++)++")
_HEADER = re.compile(r"([|>])([0-9+-]*)([^\r\n]*)(\r\n|\n|\r)")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", "\b": "\\b", "\x1b": "\\e"}
_NOT_PLAIN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_NOT_IN_BLOCK = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


class SourceEdit(NamedTuple):
    """Replace `[start, stop)` of a document's source."""

    start: int
    stop: int
    text: str


def line_end_of(source: str) -> str:
    """Return the line end that most lines of a file have."""
    return "\r\n" if 2 * source.count("\r\n") > source.count("\n") else "\n"


def properties_end(source: str, node: YamlNode) -> int:
    """Return where a node's value begins, after its tag and anchor."""
    found = _PROPERTIES.match(source, node.start)
    return found.end() if found else node.start


def in_flow(document: YamlDocument, path: Path) -> bool:
    """Return whether the node is inside `[…]` or `{…}`."""
    for length in range(len(path)):
        node = document.find(path[:length])
        if isinstance(node, Mapping | List) and document.source[properties_end(document.source, node)] in "[{":
            return True
    return False


def edit_scalar(document: YamlDocument, at: Path, edits: Sequence[ValueEdit]) -> list[SourceEdit]:
    """Return the edits of the file that edit the text at `at`; what is around it stays, and of it as much as its style allows."""
    node = document.find(at)
    if not isinstance(node, Scalar):
        raise NotEditableError("the text is not written in the file itself")
    new = apply_values(node.value, edits)
    flow = in_flow(document, at)
    parent = document.find(at[:-1])
    indent = (parent.column - 1 if parent else 0) + 2
    for candidate in _candidates(document.source, node, new, edits, flow=flow, indent=indent):
        raw = _raw_after(document.source, node, candidate)
        if _reads_as(raw, new, flow=flow):
            return candidate
    raise NotEditableError("the text cannot be written at its place in the YAML file")


def apply_values(text: str, edits: Sequence[ValueEdit]) -> str:
    pieces: list[str] = []
    at = 0
    for start, stop, replacement in edits:
        if start < at:
            raise NotEditableError("two changes of one text overlap")
        pieces += [text[at:start], replacement]
        at = stop
    return "".join([*pieces, text[at:]])


def _candidates(
    source: str, node: Scalar, new: str, edits: Sequence[ValueEdit], *, flow: bool, indent: int
) -> Iterator[list[SourceEdit]]:
    """Yield ways to write the text, the least change first; the last one can say anything."""
    start = properties_end(source, node)
    block = node.style in ("|", ">")
    if block:
        yield from _block_edits(source, node, start, new)
        whole = SourceEdit(start, _block_stop(source, node, start), quoted(new))
        yield [whole]
        return
    raw = source[start : node.end]
    if node.style == '"':
        inside = _double_edits(raw, node.value, edits)
        if inside is not None:
            yield [SourceEdit(start + low, start + high, text) for low, high, text in inside]
    elif not _NOT_PLAIN.search(new):
        yield [SourceEdit(start, node.end, new if not node.style else "'" + new.replace("'", "''") + "'")]
        yield [SourceEdit(start, node.end, quoted(new))]
    elif not flow and _ends_line(source, node.end):
        lines = _as_literal(new, indent, line_end_of(source))
        if lines is not None:
            yield [SourceEdit(start, node.end, lines)]
    yield [SourceEdit(start, node.end, quoted(new))]


def quoted(text: str) -> str:
    """Return the text in double quotes."""
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if _NOT_PLAIN.match(character):
        code = ord(character)
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    return character


def _ends_line(source: str, at: int) -> bool:
    """Return whether nothing, and no comment, follows on the line."""
    found = _LINE.match(source, at)
    return found is None or not found[0].strip()


def _double_edits(raw: str, value: str, edits: Sequence[ValueEdit]) -> list[SourceEdit] | None:
    """Return the edits of a text in double quotes, within them; None where it runs over several lines."""
    if "\n" in raw or "\r" in raw:
        return None
    places: list[int] = []  # where each character of the value stands
    at = 1
    while at < len(raw) - 1:
        places.append(at)
        found = _ESCAPE.match(raw, at)
        at = found.end() if found else at + 1
    places.append(at)
    if len(places) != len(value) + 1:
        return None  # pairs of surrogates
    return [
        SourceEdit(places[start], places[stop], "".join(_escaped(character) for character in text))
        for start, stop, text in edits
    ]


def _as_literal(text: str, indent: int, end: str) -> str | None:
    """Return the text as a literal block; None where that cannot say it."""
    body = text.rstrip("\n")
    chomp = _chomping(text)
    if chomp is None or not body or body[0] in " \n" or _NOT_IN_BLOCK.search(text):
        return None
    return f"|{chomp}" + "".join(f"{end}{' ' * indent}{line}" if line else end for line in body.split("\n"))


def _chomping(text: str) -> str | None:
    """Return the indicator for the newlines at the end of a block's text; None for more of them than one."""
    newlines = len(text) - len(text.rstrip("\n"))
    return None if newlines > 1 else "" if newlines else "-"


def _block_lines(source: str, node: Scalar, start: int) -> tuple[re.Match[str], list[str]] | None:
    header = _HEADER.match(source, start)
    if header is None:
        return None
    lines = _LINE.findall(source[header.end() : node.end])
    while lines and not lines[-1].strip():
        lines.pop()
    return header, lines


def _block_stop(source: str, node: Scalar, start: int) -> int:
    """Return where a block's last line ends, its line end left out."""
    found = _block_lines(source, node, start)
    if found is None:
        return node.end
    header, lines = found
    stop = header.end() + len("".join(lines))
    return stop - (len(lines[-1]) - len(lines[-1].rstrip("\r\n"))) if lines else header.end(3)


def _block_edits(source: str, node: Scalar, start: int, new: str) -> Iterator[list[SourceEdit]]:
    found = _block_lines(source, node, start)
    chomp = _chomping(new)
    body = new.rstrip("\n")
    if found is None or not found[1] or not body or _NOT_IN_BLOCK.search(new):
        return
    header, lines = found
    old = node.value
    same_end = len(old) - len(old.rstrip("\n")) == len(new) - len(body)
    if chomp is None and not same_end:
        return
    head: list[SourceEdit] = []
    if not same_end:
        indicators = re.sub("[+-]", "", header[2]) + (chomp or "")
        head = [SourceEdit(header.start(2), header.end(2), indicators)] if indicators != header[2] else []
    end = header[4]
    first = next((line for line in lines if line.strip()), "")
    indent = len(first) - len(first.lstrip(" "))
    if header[2].strip("+-"):
        indent = _indent_by(lines, old)
    if body[0] in " \n" and not header[2].strip("+-"):
        return
    raw = [line.rstrip("\r\n") for line in lines]
    if header[1] == ">":
        wrapped = _wrapped(raw, old.rstrip("\n"), indent)
        if wrapped is not None and not re.search(r"(?m)^[ \t]", body):
            yield [*head, *_line_edits(lines, _folded(body, wrapped, indent), header.end(), end)]
        literal = f"|{chomp or ''}" if chomp is not None else "|+"
        text = [f"{' ' * indent}{line}" if line else "" for line in body.split("\n")]
        yield [SourceEdit(header.start(1), header.end(2), literal), *_line_edits(lines, text, header.end(), end)]
        return
    kept = dict(zip(old.split("\n"), raw, strict=False))  # lines of blanks as they are written
    text = [kept.get(line, f"{' ' * indent}{line}" if line else "") for line in body.split("\n")]
    yield [*head, *_line_edits(lines, text, header.end(), end)]


def _indent_by(lines: list[str], value: str) -> int:
    """Return the indent of a block that says itself how deep it is."""
    line, text = next(((a, b) for a, b in zip(lines, value.split("\n"), strict=False) if b.strip()), ("", ""))
    return max(len(line.rstrip("\r\n")) - len(text), 0)


def _wrapped(raw: list[str], value: str, indent: int) -> dict[str, list[list[str]]] | None:
    """Return for each line of a folded text, the lines that it is written in; None where some are indented further."""
    groups: list[list[str]] = [[]]
    for line in raw:
        if not line.strip():
            groups.append([])
        elif line[indent : indent + 1] in (" ", "\t"):
            return None
        else:
            groups[-1].append(line)
    found: dict[str, list[list[str]]] = {}
    lines = [line for line in value.split("\n") if line]
    groups = [group for group in groups if group]
    if len(lines) != len(groups):
        return None
    for line, group in zip(lines, groups, strict=True):
        found.setdefault(line, []).append(group)
    return found


def _folded(body: str, wrapped: dict[str, list[list[str]]], indent: int) -> list[str]:
    """Return the lines of a folded block: each newline of the text is an empty one."""
    result: list[str] = []
    for number, line in enumerate(body.split("\n")):
        if number:
            result.append("")
        if line:
            known = wrapped.get(line)
            result += known[0] if known else [" " * indent + line]
    return result


def _line_edits(lines: list[str], new: list[str], start: int, end: str) -> list[SourceEdit]:
    """Return the edits that make the lines those of `new`; `lines` have their line ends, which stay as they are."""
    old = [line.rstrip("\r\n") for line in lines]
    begins, ends = [], []
    for line, content in zip(lines, old, strict=True):
        begins.append(start)
        ends.append(start + len(content))
        start += len(line)
    found: list[SourceEdit] = []
    for tag, low, high, first, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        text = end.join(new[first:stop])
        if tag == "replace":
            found.append(SourceEdit(begins[low], ends[high - 1], text))
        elif tag == "delete" and high < len(lines):
            found.append(SourceEdit(begins[low], begins[high], ""))
        elif tag == "delete":
            found.append(SourceEdit(ends[low - 1], ends[high - 1], ""))
        elif tag == "insert" and low < len(lines):
            found.append(SourceEdit(begins[low], begins[low], text + end))
        elif tag == "insert":
            found.append(SourceEdit(ends[-1], ends[-1], end + text))
    return found


def _raw_after(source: str, node: Scalar, edits: Sequence[SourceEdit]) -> str:
    """Return the node as it would be written, from the begin of its value on."""
    start = properties_end(source, node)
    pieces: list[str] = []
    at = start
    for low, high, text in sorted(edits):
        pieces += [source[at:low], text]
        at = high
    return "".join([*pieces, source[at : max(node.end, at)]])


def _reads_as(raw: str, value: str, *, flow: bool) -> bool:
    """Return whether YAML reads the value out of what would be written; a block that gives its own indent is left to the last
    check.
    """
    if re.match(r"[|>][+-]?[1-9]", raw):
        return True
    try:
        root = parse_yaml(f"a: [{raw}]\n" if flow else f"a: {raw}", "").root
    except KvtoolError:
        return False
    node = root.values["a"]
    if isinstance(node, List):
        node = node.items[0] if len(node.items) == 1 else node
    return isinstance(node, Scalar) and node.value == value and node.kind != "null"
