"""Template variables: each is a function of a number (of the request, of the session), so any order of asking gives the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.yaml_document import Path
from kvtool.text.templates.application import Fields, FixedFunction
from kvtool.workload.logs.field_names import fields_shown
from kvtool.workload.yaml.fields import Pick
from kvtool.workload.yaml.load_state import MOST_ENTRIES, Key, Loading, Picker, Weighted, below, bits, fraction
from kvtool.workload.yaml.schema import Scope, Variable

CLOCK_START = datetime(2026, 1, 5, 9, tzinfo=UTC)
_FORMATS = ("iso", "date", "time", "unix")
_OBJECTS = ("object", "date-object")

_USUAL_ITEMS = (1, 3)
"""The least and the most items of a list that does not say it."""

Draw = Callable[[int], object]
_MOST_VALUES = 100_000
"""Values in one value of a variable."""


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

    def value(self, moment: Moment) -> object:
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
    if variable.object_ is not None:
        return _object(variable.object_, loading, (*at, "object"), key)
    if variable.items is not None:
        each = [_drawn(one, loading, (*at, "items", n), (*key, n)) for n, one in enumerate(variable.items)]
        return _in_order([*each], variable.orders, key)
    if variable.list_ is not None:
        return _list(variable, variable.list_, loading, at, key)
    if variable.function is not None:
        returned = _drawn(variable.function, loading, (*at, "function"), key)
        return lambda number: FixedFunction(returned(number))
    if variable.bool_ is not None:
        share = variable.bool_
        return lambda number: fraction(*key, number) < share
    if variable.datetime is not None:
        return _clock(variable, variable.datetime, loading, at)
    if variable.uuid is not None:
        dashes = variable.uuid == "4"
        return lambda number: str(_uuid(number, *key)) if dashes else _uuid(number, *key).hex
    if variable.counter is not None:
        return _counter(variable, variable.counter, loading, at)
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


def _counter(variable: Variable, first: int, loading: Loading, at: Path) -> Draw:
    step = 1 if variable.step is None else variable.step
    if variable.format is None:
        return lambda number: first + number * step
    before, mark, after = variable.format.partition("{}")
    if not mark or "{}" in after:
        hint = "write the number as `{}`: `question {}`"
        raise loading.error(f"`{variable.format}` has no single place for the number", (*at, "format"), hint)
    return lambda number: f"{before}{first + number * step}{after}"


def _object(fields: Mapping[str, Variable], loading: Loading, at: Path, key: tuple[Key, ...]) -> Draw:
    drawn = {name: _drawn(one, loading, (*at, name), (*key, name)) for name, one in fields.items()}
    return lambda number: Fields({name: draw(number) for name, draw in drawn.items()})


def _list(variable: Variable, item: Variable, loading: Loading, at: Path, key: tuple[Key, ...]) -> Draw:
    """Return lists whose items are the values of so many numbers in a row, so that no two lists are alike by accident."""
    if _most_values(variable) > _MOST_VALUES:
        raise loading.error(f"a value has more than {_MOST_VALUES:,} values in it", at, "lower a `count`")
    low, high = variable.count or _USUAL_ITEMS
    draw = _drawn(item, loading, (*at, "list"), (*key, "item"))

    def values(number: int) -> list[object]:
        count = low + below(high - low + 1, *key, "count", number)
        return [draw(number * max(high, 1) + at) for at in range(count)]

    return values


def _in_order(each: list[Draw], orders: int | None, key: tuple[Key, ...]) -> Draw:
    """Return lists of one value of each: as written, or in one of so many random orders."""
    if orders is None:
        return lambda number: [draw(number) for draw in each]

    def values(number: int) -> list[object]:
        return [each[at](number) for at in places_in_order(len(each), number % orders, *key)]

    return values


def places_in_order(count: int, order: int, *key: Key) -> list[int]:
    """Return the places of a list's items in one of its random orders."""
    return sorted(range(count), key=lambda at: bits(8, *key, "order", order, at))


def _most_values(variable: Variable) -> int:
    """Return how many values one value of a variable contains at most."""
    if variable.list_ is not None:
        return 1 + (variable.count or _USUAL_ITEMS)[1] * _most_values(variable.list_)
    inner = [*(variable.items or ()), *(variable.object_ or {}).values()]
    inner += [] if variable.function is None else [variable.function]
    return 1 + sum(map(_most_values, inner))


def _uuid(number: int, *key: Key) -> UUID:
    return UUID(bytes=bits(16, *key, number), version=4)


def _choice(variable: Variable, choices: list[object], loading: Loading, at: Path, key: tuple[Key, ...]) -> Draw:
    if variable.weights is None:
        return _of(choices, variable.pick or Pick("random"), loading, at, key)
    if not sum(variable.weights) > 0:
        raise loading.error("the weights are all zero", (*at, "weights"))
    weighted = Weighted(variable.weights)
    return lambda number: _value_of(choices[weighted.index(*key, number)])


def _of(entries: Sequence[object], pick: Pick, loading: Loading, at: Path, key: tuple[Key, ...]) -> Draw:
    picker = _picker(len(entries), pick, loading, at, key)
    return lambda number: _value_of(entries[picker.index(number)])


def _value_of(data: object) -> object:
    """Return data as a template gets it, made anew: fields of a mapping are attributes, too."""
    if isinstance(data, dict):
        return Fields({key: _value_of(value) for key, value in data.items()})
    return [_value_of(item) for item in data] if isinstance(data, list) else data


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
    if form in _OBJECTS:
        return _moments(start, step, loading, at, only_date=form == "date-object")
    if form not in _FORMATS and "%" not in form:
        hint = f"one of {', '.join((*_FORMATS, *_OBJECTS))}, or a strftime format such as `%d %B %Y`"
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


def _moments(start: datetime, step: float, loading: Loading, at: Path, *, only_date: bool) -> Draw:
    def moment(number: int) -> date:
        try:
            time = start + timedelta(seconds=step * number)
            return time.date() if only_date else time
        except OverflowError:
            message = f"the clock leaves the calendar at request {number:,}"
            raise loading.error(message, at, "take a smaller step") from None

    return moment


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


def _entries(variable: Variable, loading: Loading, at: Path) -> list[object]:
    """Return the non-empty lines of a text file, or every record of a `.jsonl` file, or one value of each."""
    assert variable.file is not None
    shown, text = loading.read(variable.file, (*at, "file"))
    lines = [(number, line.removesuffix("\r")) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not shown.endswith((".jsonl", ".ndjson")):
        if variable.key is not None:
            raise loading.error("`key` is for `.jsonl` files", (*at, "key"))
        return [line for _, line in lines]
    return [_value(line, variable.key, Place(shown, number, 1, line[:200])) for number, line in lines]


def _value(line: str, key: str | None, place: Place) -> object:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        column = error.colno if isinstance(error, json.JSONDecodeError) else 1
        raise KvtoolError("not JSON", place=Place(place.path, place.line, column, place.excerpt)) from None
    if key is None:
        if isinstance(record, str | dict | list):
            return record
        raise KvtoolError("this line is neither text nor a record", hint="put it in quotes", place=place)
    if not isinstance(record, dict) or key not in record:
        known = fields_shown("key", record, 8) if isinstance(record, dict) and record else None
        raise KvtoolError(f"this record has no `{key}`", hint=known, place=place)
    value = record[key]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
