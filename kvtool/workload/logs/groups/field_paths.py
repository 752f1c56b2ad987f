"""Paths to fields of JSON records, as `--group-by` has them: `service`, `metadata.service`, `$.metadata["service"]`, `tags[0]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kvtool.errors import KvtoolError

_LONGEST = 500  # characters of a path: a bound for hostile options
_MOST_STEPS = 16  # deeper fields group nothing
_NAME = r"""[^\s.,\[\]"'$]+"""
_QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*\'"""
_STEP = re.compile(rf"""\.?(?P<name>{_NAME})|\[\s*(?P<index>\d{{1,9}})\s*\]|\[\s*(?P<quoted>{_QUOTED})\s*\]""")
_COMMA = re.compile(rf"""(?:{_QUOTED}|[^,"'])*""")
_FORM = 'write a path like service, metadata.service, $.metadata["service"] or tags[0]'
_DEPTH = 4
"""To which fields are listed."""
_MOST_LISTED = 200  # fields of a record that are listed for a hint


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A way into a record. `text` is as it was written, without `$.`: a field of that very name counts, too, dots and all."""

    text: str
    steps: tuple[str | int, ...]

    def value(self, record: object) -> object:
        """Return the value at the path; None where there is none."""
        if isinstance(record, dict) and self.text in record:
            return record[self.text]
        for step in self.steps:
            if isinstance(step, str) and isinstance(record, dict):
                record = record.get(step)
            elif isinstance(step, int) and isinstance(record, list) and step < len(record):
                record = record[step]
            else:
                return None
        return record


def parse_fields(text: str, flag: str) -> tuple[FieldPath, ...]:
    """Return the paths in a text, between commas; KvtoolError, which names `flag`, for what is none."""
    if len(text) > _LONGEST:
        raise KvtoolError(f"{flag} has more than {_LONGEST} characters", hint=_FORM)
    paths: list[FieldPath] = []
    at = 0
    while True:
        found = _COMMA.match(text, at)
        assert found is not None
        paths.append(_parsed(found[0].strip(), flag))
        at = found.end()
        if at == len(text):
            return tuple(paths)
        if text[at] != ",":
            raise KvtoolError(f"{flag}: a quote in `{text}` is never closed", hint=_FORM)
        at += 1


def _parsed(text: str, flag: str) -> FieldPath:
    path = text.removeprefix("$")
    if not path.strip("."):
        raise KvtoolError(f"{flag} names no field: `{text}`", hint=_FORM)
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or (found["name"] is not None and at and path[at] != "."):
            raise KvtoolError(f"{flag}: `{text}` is not a path: error at `{path[at:][:20]}`", hint=_FORM)
        if found["index"] is not None:
            steps.append(int(found["index"]))
        elif found["quoted"] is not None:
            steps.append(re.sub(r"\\(.)", r"\1", found["quoted"][1:-1]))
        else:
            steps.append(found["name"])
        at = found.end()
    if len(steps) > _MOST_STEPS:
        raise KvtoolError(f"{flag}: more than {_MOST_STEPS} steps in `{text}`", hint=_FORM)
    return FieldPath(path.removeprefix("."), tuple(steps))


def fields_of(record: object) -> Iterator[str]:
    """Yield the paths to the texts, numbers and truth values of a record, without those in lists."""
    listed = 0
    waiting: list[tuple[str, object, int]] = [("", record, 0)]
    while waiting and listed < _MOST_LISTED:
        path, value, depth = waiting.pop()
        if isinstance(value, dict) and depth < _DEPTH:
            waiting += [(joined_path(path, key), inner, depth + 1) for key, inner in reversed(value.items())]
        elif isinstance(value, str | int | float):
            listed += 1
            yield path


def joined_path(path: str, key: str) -> str:
    """Return the path to a field inside the object at a path."""
    if not re.fullmatch(_NAME, key):
        quoted = key.replace("\\", "\\\\").replace('"', '\\"')
        return f'{path}["{quoted}"]'
    return f"{path}.{key}" if path else key
