"""Result files: what `--json` and `-o …json` wrote, read again and checked value by value."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from re import fullmatch
from typing import Any, BinaryIO, NoReturn

import orjson
from pydantic import TypeAdapter, ValidationError

from kvtool.errors import KvtoolError, Place, ProblemsError
from kvtool.results.check import SCHEMA as CHECK
from kvtool.results.check import CheckResult
from kvtool.results.documents.agent_probe import SCHEMA as PROBE
from kvtool.results.documents.agent_probe import AgentProbe
from kvtool.results.documents.what_if import SCHEMA as WHAT_IF
from kvtool.results.documents.what_if import WhatIfDocument
from kvtool.results.finding import Finding
from kvtool.results.report import SCHEMA as REPORT
from kvtool.results.report import Report
from kvtool.results.wrap import check_of, lint_check
from kvtool.text.files.compressed import open_bytes, refuse_bomb
from kvtool.text.files.json_file import place_in
from kvtool.text.files.json_position import nearest_start
from kvtool.text.files.text_files import decode
from kvtool.text.terminal.streams import STDIN
from kvtool.version import __version__

LINT = "kvtool.lint/1"
_RESULTS = (REPORT, CHECK, LINT)
MOST_BYTES = 256 << 20
"""Of a result file, unpacked: a report on a million requests has half of them."""
_READ = 1 << 20
_FREE = 8 << 20
"""Bytes that any file may unpack to."""
_MOST_PLACED = 16 << 20
"""Bytes of a file in which the lines of wrong values are looked for; each of them reads it once more."""
_MOST_PROBLEMS = 20
"""Errors of one file that are reported."""
_MISSING = "it is missing"
_WINDOW = 60
_MAKE = "write one with kvtool profile WORKLOAD -o result.json"
_OTHERS = {
    "kvtool.bench/": "a result of kvtool bench",
    "kvtool.compare/": "a comparison of two results",
    "kvtool.optimize/": "a result of kvtool optimize",
    "kvtool.baseline/": "a baseline, which has only rates",
    "kvtool-calibration": "a calibration",
    "kvtool.what-if/": "a result of kvtool what-if",
}


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the bytes came from, as messages name it."""

    name: str

    def error(self, message: str, *, hint: str | None = None, place: Place | None = None) -> KvtoolError:
        return KvtoolError(message, hint=hint, place=place or Place(self.name))


def load_result(path: str) -> CheckResult:
    """Return a saved profile (`kvtool.report/1`), check (`kvtool.check/1`) or lint run (`kvtool.lint/1`); `-` is standard input.

    The file may be compressed (.gz, .zst). Keys that a newer kvtool added are passed over. KvtoolError, or ProblemsError with a
    pointer to each wrong value, for what is no such file.
    """
    found = _load(path, _RESULTS)
    assert isinstance(found, CheckResult)
    return found


def load_saved(path: str) -> CheckResult | WhatIfDocument:
    """Return the same, or what `kvtool what-if` found (`kvtool.what-if/1`)."""
    found = _load(path, (*_RESULTS, WHAT_IF))
    assert not isinstance(found, AgentProbe)
    return found


def load_agent_probe(path: str) -> AgentProbe:
    """Return a probe of an agent (`kvtool.agent-probe/1`). KvtoolError, or ProblemsError, for what is no such file."""
    try:
        found = _load(path, (PROBE,))
    except ProblemsError:
        raise
    except KvtoolError as error:
        hint = "write it with kvtool probe --agent NAME --write-baseline FILE"
        raise KvtoolError(error.message, hint=hint, place=error.place) from None
    assert isinstance(found, AgentProbe)
    return found


def _load(path: str, known: Sequence[str]) -> CheckResult | WhatIfDocument | AgentProbe:
    source = _Source("<stdin>" if path == STDIN else path)
    data = _read(path, source)
    document = _parsed(data, source)
    text = data.decode(errors="replace") if len(data) <= _MOST_PLACED else ""
    del data
    schema = _schema(document, source, known)
    try:
        if schema == REPORT:
            return check_of(Report.model_validate(document))
        if schema == CHECK:
            return CheckResult.model_validate(document)
        if schema == PROBE:
            return AgentProbe.model_validate(document)
        if schema == WHAT_IF:
            return WhatIfDocument.model_validate(document)
        findings = TypeAdapter(list[Finding]).validate_python(_lint_findings(document))
        return lint_check(findings, **_lint_rest(document))
    except ValidationError as error:
        raise _problems(error, source, ("findings",) if schema == LINT else (), text) from error
    except RecursionError as error:
        raise source.error("its values are nested too deeply") from error


def _read(path: str, source: _Source) -> bytes:
    """Return the bytes of the file, unpacked; KvtoolError where there are too many."""
    if path == STDIN:
        stream: BinaryIO = getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode())
        packed = _limited(stream, source)
        return packed.removeprefix(b"\xef\xbb\xbf")
    with open_bytes(path) as reader:
        return _limited(reader, source)


def _limited(stream: BinaryIO | io.BufferedReader, source: _Source) -> bytes:
    pieces: list[bytes] = []
    count = 0
    while piece := stream.read(_READ):
        count += len(piece)
        if count > MOST_BYTES:
            raise source.error(
                f"it is larger than {MOST_BYTES >> 20} MiB", hint="write the result without --per-request"
            )
        if isinstance(stream, io.BufferedReader):
            refuse_bomb(stream, source.name, count, free=_FREE)
        pieces.append(piece)
    return b"".join(pieces)


def _parsed(data: bytes, source: _Source) -> Mapping[str, Any]:
    """Return the JSON object in the file; KvtoolError with line and column where it is none."""
    if not data.strip():
        raise source.error("the file is empty", hint=_MAKE)
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        document = _with_odd_names(data) if "surrogate" in error.msg else None
        if document is None:
            raise _not_json(error, data, source) from error
    if not isinstance(document, dict):
        raise source.error(f"this is not a result of kvtool: it is {_kind(document)}", hint=_MAKE)
    return document


def _with_odd_names(data: bytes) -> object | None:
    """JSON with halves of surrogate pairs in it, by which Python names files whose names are no text; None where it is none."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(word)

    try:
        found: object = json.loads(
            data.decode(), parse_constant=refuse
        )  # of bytes it takes halves of pairs as they are
    except (ValueError, RecursionError):
        return None
    return found


def _not_json(error: orjson.JSONDecodeError, data: bytes, source: _Source) -> KvtoolError:
    try:
        data.decode()
    except UnicodeDecodeError:
        try:
            decode(data, shown=source.name)
        except KvtoolError as not_text:
            return not_text
    rest = data[_byte_offset(data, error) :].strip()
    if not rest:
        return source.error("the file is truncated", hint="write or copy it again")
    if data[:1] != b"{" and not data.lstrip().startswith((b"{", b"[")):
        return source.error("this is not JSON", hint=f"--json or -o FILE.json writes a result: {_MAKE}")
    if rest.startswith((b"NaN", b"Infinity", b"-Infinity")):
        what = "NaN and Infinity are not JSON; kvtool writes null"
    else:
        what = f"not JSON: {error.msg}"
    line = data.split(b"\n", error.lineno)[error.lineno - 1].decode(errors="replace").rstrip("\r")
    start = max(error.colno - 1 - _WINDOW // 2, 0)
    shown = line if len(line) <= 2 * _WINDOW else None
    return KvtoolError(
        what if shown is not None else f"{what}, near {line[start : start + _WINDOW]!a}",
        place=Place(source.name, error.lineno, error.colno, shown),
    )


def _byte_offset(data: bytes, error: orjson.JSONDecodeError) -> int:
    """orjson counts characters; of text that is no UTF-8 it says where that ends."""
    if error.pos <= 0:
        return 0
    try:
        return len(data.decode()[: error.pos].encode())
    except UnicodeDecodeError:
        return min(error.pos, len(data) - 1)


def _schema(document: Mapping[str, Any], source: _Source, known: Sequence[str]) -> str:
    """Return the schema of the document, one of those that are `known` here; KvtoolError for any other."""
    schema = document.get("schema")
    if isinstance(schema, str) and schema in known:
        return schema
    if isinstance(schema, str):
        name, _, version = schema.partition("/")
        if any(name == each.partition("/")[0] for each in known) and fullmatch(r"[0-9]{1,9}", version):
            raise source.error(
                f"its schema is `{schema}`: written by a newer kvtool than {__version__}",
                hint="update kvtool to read it",
            )
    for prefix, what in _OTHERS.items():
        if str(schema or document.get("kind", "")).startswith(prefix):
            raise source.error(f"this is {what}, not the result of a profile, a check or lint", hint=_MAKE)
    if not isinstance(schema, str):
        raise source.error("this is not a result of kvtool: it has no `schema`", hint=_MAKE)
    near = get_close_matches(schema[:100], known, n=1)
    raise source.error(
        f"its schema is `{schema[:100]}`, which is not the schema of a result",
        hint=f"did you mean `{near[0]}`?" if near else _MAKE,
    )


def _lint_findings(document: Mapping[str, Any]) -> list[Any]:
    """The findings of `kvtool.lint/1` in the fields of a report's; what is missing or wrong is left for the model to find."""
    found = document.get("findings")
    if not isinstance(found, list):
        return [found]
    return [_as_report(each) if isinstance(each, dict) else each for each in found]


def _as_report(found: dict[str, Any]) -> dict[str, Any]:
    rerun = found.get("rerun")
    if isinstance(rerun, dict):
        rerun = rerun | {"group_alone": rerun.get("alone"), "group_predicted": rerun.get("predicted")}
    return found | {
        "group": found.get("group") or "",
        "in_source": found.get("in_source", found.get("evidence") == "static"),
        "share_tokens": found.get("share"),
        "rerun": rerun,
        "tried": None,
    }


def _lint_rest(document: Mapping[str, Any]) -> dict[str, Any]:
    ignored, inputs = document.get("ignored"), document.get("inputs")
    named = [each.get("path") for each in inputs if isinstance(each, dict)] if isinstance(inputs, list) else []
    return {
        "inputs": [path for path in named if isinstance(path, str)],
        "ignored": ignored if isinstance(ignored, int) and ignored >= 0 else 0,
        "partial": document.get("partial") is True,
    }


def _problems(error: ValidationError, source: _Source, within: tuple[str, ...], text: str) -> KvtoolError:
    """What is wrong, each with its place and a pointer to it (RFC 6901); of what is missing the place is that of its owner."""
    found: dict[tuple[str | int, ...], str] = {}
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        path, said = one["loc"], _said(one["type"], one["msg"])
        value = path.index("config") + 2 if "config" in path else len(path)
        if len(path) > value:  # pydantic tells of each type that the value may have
            path, said = path[:value], "it should be a text, a number, true, false or null"
        found.setdefault((*within, *path), said)
    problems = []
    for at, said in list(found.items())[:_MOST_PROBLEMS]:
        pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in at)
        place = place_in(text, source.name, nearest_start(text, at)) if text else None
        if place is not None and said == _MISSING:
            place = replace(place, excerpt=None)  # the line shows what is there
        problems.append(source.error(f"{pointer or 'the document'}: {said}", place=place))
    return problems[0] if len(problems) == 1 else ProblemsError(problems)


def _said(kind: str, message: str) -> str:
    if kind == "missing":
        return _MISSING
    message = message.replace("Input ", "it ", 1).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")
