"""Template variables: each is a function of a number (of the request, of the session), so any order of asking gives the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.yaml_document import Path
from kvtool.workload.logs.field_names import fields_shown
from kvtool.workload.yaml.fields import Pick
from kvtool.workload.yaml.load_state import MOST_ENTRIES, Key, Loading, Picker, Weighted, bits
from kvtool.workload.yaml.schema import Scope, Variable

CLOCK_START = datetime(2026, 1, 5, 9, tzinfo=UTC)
_FORMATS = ("iso", "date", "time", "unix")

Draw = Callable[[int], str | int]


@dataclass(frozen=True, slots=True)
class Moment:
    """The request: its number and its session's, counted in the workload and in the group."""

    request: int
    session: int
    group_request: int
    group_session: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """A variable ready to be read; `in_group` ones count requests within their group."""

    draw: Draw
    per: Scope
    in_group: bool

    def value(self, moment: Moment) -> str | int:
        if self.per == "workload":
            return self.draw(0)
        if self.per == "session":
            return self.draw(moment.group_session if self.in_group else moment.session)
        return self.draw(moment.group_request if self.in_group else moment.request)


@dataclass(frozen=True, slots=True)
class VariableValues:
    """The variables that a group's templates can see."""

    drawn: Mapping[str, Drawn]

    def at(self, moment: Moment) -> dict[str, object]:
        return {name: drawn.value(moment) for name, drawn in self.drawn.items()}

    def only(self, names: Iterable[str]) -> VariableValues:
        wanted = set(names)
        return VariableValues({name: drawn for name, drawn in self.drawn.items() if name in wanted})


def load_variables(
    variables: Mapping[str, Variable], loading: Loading, at: Path, group: str | None = None
) -> dict[str, Drawn]:
    """Return the variables written at `at` (those of a `group` count in it); mistakes are noted in `loading`."""
    drawn: dict[str, Drawn] = {}
    for name, variable in variables.items():
        drawn[name] = Drawn(
            lambda _: "", variable.per, in_group=False
        )  # so that a bad variable is not undefined as well
        with loading.guard():
            key = (loading.seed, "variable", group or "", name)
            drawn[name] = Drawn(_drawn(variable, loading, (*at, name), key), variable.per, in_group=group is not None)
    return drawn


def _drawn(variable: Variable, loading: Loading, at: Path, key: tuple[Key, ...]) -> Draw:
    if variable.datetime is not None:
        return _clock(variable, variable.datetime, loading, at)
    if variable.uuid is not None:
        dashes = variable.uuid == "4"
        return lambda number: str(_uuid(number, *key)) if dashes else _uuid(number, *key).hex
    if variable.counter is not None:
        first, step = variable.counter, 1 if variable.step is None else variable.step
        return lambda number: first + number * step
    if variable.choice is not None:
        return _choice(variable, variable.choice, loading, at, key)
    if variable.file is not None:
        return _of(_entries(variable, loading, at), variable.pick or Pick("cycle"), loading, at, key)
    if variable.range is not None:
        low, high = variable.range
        if low > high:
            raise loading.error(f"the range ends at {high}, before its start {low}", (*at, "range"))
        picker = _picker(high - low + 1, variable.pick or Pick("random"), loading, at, key)
        return lambda number: low + picker.index(number)
    text = variable.text
    assert text is not None
    return lambda _: text


def _uuid(number: int, *key: Key) -> UUID:
    return UUID(bytes=bits(16, *key, number), version=4)


def _choice(variable: Variable, choices: list[str], loading: Loading, at: Path, key: tuple[Key, ...]) -> Draw:
    if variable.weights is None:
        return _of(choices, variable.pick or Pick("random"), loading, at, key)
    if not sum(variable.weights) > 0:
        raise loading.error("the weights are all zero", (*at, "weights"))
    weighted = Weighted(variable.weights)
    return lambda number: choices[weighted.index(*key, number)]


def _of(entries: list[str], pick: Pick, loading: Loading, at: Path, key: tuple[Key, ...]) -> Draw:
    picker = _picker(len(entries), pick, loading, at, key)
    return lambda number: entries[picker.index(number)]


def _picker(count: int, pick: Pick, loading: Loading, at: Path, key: tuple[Key, ...]) -> Picker:
    if pick.how == "zipf" and count > MOST_ENTRIES:
        raise loading.error(f"zipf picks from at most {MOST_ENTRIES:,} entries, not {count:,}", (*at, "pick"))
    return Picker(count, pick, *key)


def _clock(variable: Variable, step: float, loading: Loading, at: Path) -> Draw:
    start = CLOCK_START
    if variable.start is not None:
        try:
            start = datetime.fromisoformat(variable.start)
        except ValueError:
            hint = "write it like `2026-01-05T09:00:00Z`"
            raise loading.error(f"`{variable.start}` is not a date and time", (*at, "start"), hint) from None
        start = start if start.tzinfo else start.replace(tzinfo=UTC)
    form = variable.format or "iso"
    if form not in _FORMATS and "%" not in form:
        hint = f"one of {', '.join(_FORMATS)}, or a strftime format such as `%d %B %Y`"
        raise loading.error(f"`{form}` is not a date format", (*at, "format"), hint)
    fine = step % 1 > 0 or start.microsecond > 0

    def show(number: int) -> str:
        try:
            return _formatted(start + timedelta(seconds=step * number), form, fine)
        except OverflowError:
            raise loading.error(
                f"the clock exceeds the calendar at request {number:,}", at, "take a smaller step"
            ) from None

    try:
        show(0)
    except (ValueError, UnicodeError):
        raise loading.error(f"`{form}` is not a date format", (*at, "format")) from None
    return show


def _formatted(time: datetime, form: str, fine: bool) -> str:
    if form == "unix":
        return f"{time.timestamp():.3f}" if fine else str(int(time.timestamp()))
    if form == "date":
        return time.date().isoformat()
    precision = "milliseconds" if fine else "seconds"
    if form == "time":
        return time.time().isoformat(precision)
    if form == "iso":
        return time.isoformat(timespec=precision).replace("+00:00", "Z")
    return time.strftime(form)


def _entries(variable: Variable, loading: Loading, at: Path) -> list[str]:
    """Return the non-empty lines of a text file, or one value of every record of a `.jsonl` file."""
    assert variable.file is not None
    shown, text = loading.read(variable.file, (*at, "file"))
    lines = [(number, line.removesuffix("\r")) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not shown.endswith((".jsonl", ".ndjson")):
        if variable.key is not None:
            raise loading.error("`key` is for `.jsonl` files", (*at, "key"))
        return [line for _, line in lines]
    return [_value(line, variable.key, Place(shown, number, 1, line[:200])) for number, line in lines]


def _value(line: str, key: str | None, place: Place) -> str:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        column = error.colno if isinstance(error, json.JSONDecodeError) else 1
        raise KvtoolError("not JSON", place=Place(place.path, place.line, column, place.excerpt)) from None
    if key is None:
        if isinstance(record, str):
            return record
        raise KvtoolError("this line is not a string", hint="name the key of the record with `key:`", place=place)
    if not isinstance(record, dict) or key not in record:
        known = fields_shown("key", record, 8) if isinstance(record, dict) and record else None
        raise KvtoolError(f"this record has no `{key}`", hint=known, place=place)
    value = record[key]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
