"""How the requests of logs are divided into groups: by their file, by fields of their records, or by how their prompts begin."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import blake2b
from typing import Protocol

from kvtool.errors import KvtoolError, Place
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import plural
from kvtool.workload.logs.field_names import fields_shown
from kvtool.workload.logs.files.log_file import LogEntry
from kvtool.workload.logs.files.plain_text_files import PLAIN_GROUP
from kvtool.workload.logs.groups.field_paths import FieldPath, fields_of
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.mapped_records import way_of
from kvtool.workload.logs.records.prompt_forms import PromptForms, beginning_of

MOST_GROUPS = 200
"""Groups that are distinguished; requests of further ones are one group together."""
OTHER = "(other)"
_LONGEST_NAME = 64  # characters of the name of a group
_KEPT_OF_LONG = 48  # characters of a longer name, before its digest
_MOST_COUNTED = 100_000  # values that are distinguished to count them
_MOST_PLACES = 4
"""Groups of prompts whose first record is reported."""
_PROMPT_FIELDS = frozenset(
    (
        *("messages", "prompt", "text", "text_input", "input", "inputs", "instructions", "system", "question"),
        *("conversations", "conversation", "traj", "trajectory", "history", "turns", "response", "completion"),
        "output",
    )
)
_CHANGE = "change with --group-by FIELD"
FLAG = "--tenant"
_LISTED = 16
"""Records whose fields are listed where none has the one that was named."""
_MOST_HINTED = 12  # fields that a hint names
_LONGEST = 60  # characters of a field that a message quotes


class Division(Protocol):
    """One pass's division of requests into groups; it goes by what it has seen so far in this pass."""

    def group_of(self, entry: LogEntry) -> str:
        """Return the name of the group of a record's requests."""
        ...

    def notes(self) -> list[str]:
        """Return how groups were made, and what did not fit, for the head of a report."""
        ...


class Grouping(Protocol):
    """A way to divide requests; each pass begins anew, and divides the same requests in the same way."""

    @property
    def values(self) -> bool:
        """Return whether it looks at the JSON values of records."""
        ...

    def begin(self) -> Division: ...


@dataclass(frozen=True, slots=True)
class ByFile:
    """Each request in the group of its file, as its source names it. `what` says after what, where there is anything to tell.

    `one_each`: every file holds one request, so that all of them are one group, as the same requests in one log are.
    """

    what: str = ""
    one_each: bool = False
    values: bool = False

    def begin(self) -> Division:
        return _SingleGroup() if self.one_each else _FileDivision(self.what)


BY_FILE = ByFile()


@dataclass(frozen=True, slots=True)
class _SingleGroup:
    def group_of(self, entry: LogEntry) -> str:
        del entry
        return PLAIN_GROUP

    def notes(self) -> list[str]:
        return [f"files with one request each form one group; {_CHANGE}"]


@dataclass(frozen=True, slots=True)
class _FileDivision:
    what: str

    def group_of(self, entry: LogEntry) -> str:
        return entry.first.group

    def notes(self) -> list[str]:
        return [f"groups by {self.what}; {_CHANGE}"] if self.what else []


@dataclass(frozen=True, slots=True)
class ByFields:
    """A group for each value that these fields have, or have together. `found`: kvtool chose them."""

    paths: Sequence[FieldPath]
    found: bool = False
    most: int = MOST_GROUPS
    values: bool = True

    def begin(self) -> Division:
        return _FieldDivision(self)


@dataclass(frozen=True, slots=True)
class ByPrompt:
    """A group for each form of system prompt or, where there is none, of what else comes first; `window` characters count."""

    window: int
    system: bool
    """Whether it is about system prompts: requests without one are then a group of their own."""
    found: bool = False
    most: int = MOST_GROUPS
    values: bool = False

    def begin(self) -> Division:
        return _PromptDivision(self)


@dataclass(slots=True)
class _Overflow:
    """Groups beyond the most that are distinguished."""

    requests: int = 0
    names: set[bytes] = field(default_factory=set)

    def add(self, name: str, requests: int) -> str:
        self.requests += requests
        if len(self.names) < _MOST_COUNTED:
            self.names.add(_digest(name))
        return OTHER


class _FieldDivision:
    def __init__(self, how: ByFields) -> None:
        self._how = how
        self._label = ", ".join(f"`{_shown(path.text)}`" for path in how.paths)
        self._names: dict[str, str] = {}
        """By the values, the name of the group."""
        self._neutral = [_leads_to_prompt(path) for path in how.paths]
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._overflow = _Overflow()
        self._missing = [0] * len(how.paths)
        self._converted = self._shortened = 0

    def group_of(self, entry: LogEntry) -> str:
        requests = len(entry.turns)
        parts = [self._part(at, path, entry.value, requests) for at, path in enumerate(self._how.paths)]
        name = " / ".join(parts)
        if name not in self._names and len(self._names) >= self._how.most:
            return self._overflow.add(name, requests)
        return self._names.setdefault(name, name)

    def _part(self, at: int, path: FieldPath, record: object, requests: int) -> str:
        value = path.value(record)
        if value is None:
            self._missing[at] += requests
            return f"(no {_shown(path.text)})"
        if self._neutral[at]:  # its text is of prompts, and names of groups are in every output
            key = at, _digest(_text_of(value))
            if key not in self._numbers and len(self._numbers) >= self._how.most:
                return OTHER
            return f"{_shown(path.text)}-{self._numbers.setdefault(key, len(self._numbers) + 1)}"
        if isinstance(value, dict | list):
            self._converted += requests
        text = _text_of(value)
        if len(text) > _LONGEST_NAME:
            self._shortened += requests
        return name_of_value(text)

    def notes(self) -> list[str]:
        told = [f"groups by {self._label}: {len(self._names)}" + (f"; {_CHANGE}" if self._how.found else "")]
        for path, count in zip(self._how.paths, self._missing, strict=True):
            if count:
                told.append(
                    f"{plural(count, 'request')} without `{_shown(path.text)}`: group `(no {_shown(path.text)})`"
                )
        if self._converted:
            told.append(
                f"{self._label} is a list or an object in {plural(self._converted, 'request')}: its JSON is the name"
            )
        if self._shortened:
            told.append(
                f"names of more than {_LONGEST_NAME} characters are shortened ({plural(self._shortened, 'request')})"
            )
        if self._overflow.requests:
            more = f"{len(self._overflow.names):,}" + (" or more" if len(self._overflow.names) >= _MOST_COUNTED else "")
            told.append(
                f"the first {self._how.most} values are groups; {more} others form the group `{OTHER}` "
                f"({plural(self._overflow.requests, 'request')})"
            )
        return told


class _PromptDivision:
    def __init__(self, how: ByPrompt) -> None:
        self._how = how
        self._word = "system" if how.system else "prompt"
        self._forms = PromptForms(how.window, how.most)
        self._places: list[Place | None] = []
        self._without = self._others = 0

    def group_of(self, entry: LogEntry) -> str:
        requests = len(entry.turns)
        beginning = beginning_of(entry.first, self._how.window)
        if beginning is None or (self._how.system and not beginning[0]):
            self._without += requests
            return f"(no {self._word} prompt)" if self._how.system else "(no text)"
        form = self._forms.form_of(beginning[1])
        if form is None:
            self._others += requests
            return OTHER
        if form == len(self._places):
            self._places.append(entry.first.place)
        return f"{self._word}-{form + 1}"

    def notes(self) -> list[str]:
        what = "system prompt" if self._how.system else "beginning of the prompt"
        names = [
            f"{self._word}-{number} {place.path}:{place.line}"
            for number, place in enumerate(self._places, 1)
            if place is not None
        ]
        first = (
            f" (first: {', '.join(names[:_MOST_PLACES])}{', …' if len(names) > _MOST_PLACES else ''})" if names else ""
        )
        told = [f"groups by {what}: {len(self._places)}{first}" + (f"; {_CHANGE}" if self._how.found else "")]
        if self._without and self._how.system:
            told.append(f"{plural(self._without, 'request')} without a system prompt: group `(no system prompt)`")
        if self._others:
            told.append(
                f"the first {self._how.most} are groups; the others form the group `{OTHER}` ({plural(self._others, 'request')})"
            )
        return told


def name_of_value(text: str) -> str:
    """Return a value as the name of a group: on one line, without characters that nobody sees, and not too long.

    What is shortened ends with a hash of all of it, so that two values never have one name by that.
    """
    if not text.strip():
        return "(empty)"
    name = sanitize(text[: _LONGEST_NAME + 1].strip())
    if len(text) <= _LONGEST_NAME and len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_KEPT_OF_LONG]}…{_digest(text).hex()[:8]}"


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shown(text: str) -> str:
    return sanitize(text)


def _leads_to_prompt(path: FieldPath) -> bool:
    """Return whether a field is a part of prompts or answers."""
    return any(step in _PROMPT_FIELDS for step in path.steps)


def _digest(text: str) -> bytes:
    return blake2b(text.encode(errors="replace"), digest_size=8).digest()


class TenantField:
    """Takes a tenant from each record of one pass; a record without the field has none, whatever else it names."""

    def __init__(self, path: str) -> None:
        """Raise KvtoolError for what is no path."""
        self.path = path
        self._way = way_of(path, FLAG)
        self._fields: dict[str, None] = {}
        self._there = self._without = 0

    def tenant_of(self, value: object) -> str | None:
        """Return the tenant of a record's JSON value."""
        tenant = names_of([self._way.value(value)])
        if tenant is not None:
            self._there += 1
        else:
            if self._without < _LISTED:
                self._fields |= dict.fromkeys(fields_of(value))
            self._without += 1
        return tenant

    def check(self) -> None:
        """Raise KvtoolError after a pass where no record had the field."""
        if self._there or not self._without:
            return
        known = list(self._fields)
        near = get_close_matches(self.path, known, n=1)
        listed = fields_shown("field", known, _MOST_HINTED)
        guess = f"did you mean `{_shown_field(near[0])}`? " if near else ""
        raise KvtoolError(
            f"{_none_of(self._without)} a field `{_shown_field(self.path)}` that names a tenant",
            hint=f"{guess}{listed}" if known else "the records have no fields beside their prompts",
        )

    def notes(self) -> list[str]:
        """Return notes on records without the field, for the head of a report."""
        if not self._there or not self._without:
            return []
        return [f"{plural(self._without, 'record')} without `{_shown_field(self.path)}`: no tenant"]


def _none_of(records: int) -> str:
    return "the record does not have" if records == 1 else f"none of {records:,} records has"


def _shown_field(name: str) -> str:
    return sanitize(name)[:_LONGEST]
