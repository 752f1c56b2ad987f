"""Options: one declaration with its flag, its variable, its key in the configuration, its default and its bounds.

Options are the annotated fields of frozen dataclasses, one for each concern; a command or a run is a dataclass of those. A field
that is None was not given: a lower place may give it, and `default` is the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
Value = str | int | float | bool | list[str] | None
Table = Literal["", "engine", "check", "lint"]
"""A table of the configuration; "" is its top."""
PREFIX = "KVTOOL_"
NO_DEFAULT = "none"
"""Words for the default of an option that is off until it is given; help leaves them out."""
Check = Callable[[str, Any], None]
"""Raises KvtoolError where a flag may not have that value."""


class Decides(Enum):
    """The part of a command that an option decides; options of the verdict and of the output stay with their command."""

    RESULT = "the result"
    SPEED = "the time that the command takes"
    VERDICT = "the exit code"
    OUTPUT = "the format and the place of the output"


class Panel(Enum):
    """A section of the help of a command, in the order of the help."""

    COMMON = "Common"
    CACHE = "Cache and server"
    MODEL = "Model and engine"
    LOGS = "Log input"
    OUTPUT = "Output"
    ADVANCED = "Advanced"
    VLLM = "vLLM (--rules vllm)"
    SGLANG = "SGLang (--rules sglang)"
    TENSORRT = "TensorRT-LLM (--rules trtllm)"
    LLAMA_CPP = "llama.cpp (--rules llamacpp)"

    @property
    def only_in_full_help(self) -> bool:
        """Return whether `--help` leaves it to `--help-all`."""
        return self not in (Panel.COMMON, Panel.CACHE, Panel.MODEL, Panel.LOGS, Panel.OUTPUT)


_ENGINE_PANELS = {
    "vllm": Panel.VLLM,
    "sglang": Panel.SGLANG,
    "trtllm": Panel.TENSORRT,
    "llamacpp": Panel.LLAMA_CPP,
}


@dataclass(frozen=True, slots=True)
class Option:
    """A flag. Its help does not say its default: the help of a command adds that."""

    help: str
    metavar: str | None = None
    flag: str | None = ""
    """Left out: made of the field's name; None: only files say it."""
    also: str = ""
    """Other flags with the same meaning, with a space between them; only the full help shows them."""
    short: str = ""
    variable: bool = False
    """True: a variable KVTOOL_NAME gives it, too. All options at the top and in the table of the engine have one."""
    table: Table | None = None
    """Table in which `kvtool config` shows it; all but four at the top are keys of the configuration file, too."""
    default: Value = None
    """The default; left out: that of the field."""
    words: str = ""
    """For a default that is no value."""
    shown: str = "{}"
    """How help writes the default or its words."""
    check: Check | None = None
    least: int | None = None
    """The smallest number that the command line takes at all, and says so."""
    rules: str = ""
    """The rules that it needs; help shows it in their panel."""
    see: tuple[str, ...] = ()
    """Names of options with the same meaning; help names those that the command takes."""
    panel: Panel | None = None
    """None: the panel of its rules, or `PANEL` of its concern."""
    decides: Decides | None = None
    """None: what `DECIDES` of its concern says, and else the result."""

    def __post_init__(self) -> None:
        if self.table in ("", "engine"):
            object.__setattr__(self, "variable", self.flag is not None)

    def flags(self, name: str) -> tuple[str, ...]:
        """Return the short form and the long forms; a form that negates it follows a slash."""
        flag = f"--{name.replace('_', '-')}" if self.flag == "" else self.flag
        return tuple(each for each in (self.short, flag or "", *self.also.split()) if each)

    def long_flag(self, name: str) -> str:
        """Return the flag as messages name it."""
        return self.flags(name)[1 if self.short else 0].partition("/")[0]

    def default_words(self, own: object) -> str:
        """Return the default as help writes it, "" for none; `own` is that of the field."""
        value = own if self.default is None else self.default
        if self.words:
            return "" if self.words == NO_DEFAULT else self.shown.format(self.words)
        if isinstance(value, bool):
            return ("off", "on")[value] if "/" in (self.flag or "") else ""
        if value in (None, (), MISSING):
            return ""
        return self.shown.format(int(value) if isinstance(value, float) and value.is_integer() else value)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a command, which has no flag."""

    help: str
    metavar: str
    variable: bool = False
    configured: bool = False
    """Without it on the command line, the only workload that kvtool.toml names takes its place."""


@dataclass(frozen=True, slots=True)
class Only:
    """Names of a concern's options that a command takes, in the order of its help; the others have their defaults."""

    names: tuple[str, ...]


def only(*names: str) -> Only:
    return Only(names)


class Origins(Enum):
    """Contents of fields that are no options."""

    COMMAND_LINE = "the words after `kvtool`; reports make the next command from them"
    GIVEN = "the options from flags and variables, each with its flag or variable"


@dataclass(frozen=True, slots=True)
class OptionField:
    """A field of options: an option or an argument with its type, or (`part`) options of another concern."""

    name: str
    kind: Any
    mark: Option | Argument | Origins | None
    default: Any
    part: type | None = None
    taken: tuple[str, ...] = ()
    decides: Decides = Decides.RESULT
    panel: Panel | None = None
    """The section of the help; None for arguments and for fields that are no options."""


@cache
def option_fields(cls: type) -> tuple[OptionField, ...]:
    """Return the fields of a dataclass of options, in order; of parts those that are taken from them."""
    hints = get_type_hints(cls, include_extras=True)
    found = []
    for each in fields(cls):
        kind: Any = hints[each.name]
        marks: list[Any] = []
        if get_origin(kind) is Annotated:
            kind, *marks = get_args(kind)
        part = kind if isinstance(kind, type) and is_dataclass(kind) else None
        chosen = next((mark.names for mark in marks if isinstance(mark, Only)), None)
        if part is not None and chosen is None:
            chosen = tuple(inner.name for inner in option_fields(part))
        mark = next((mark for mark in marks if isinstance(mark, Option | Argument | Origins)), None)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        decides: Decides = getattr(cls, "DECIDES", Decides.RESULT)
        panel: Panel | None = None
        if isinstance(mark, Option):
            decides = mark.decides or decides
            panel = mark.panel or _ENGINE_PANELS.get(mark.rules) or getattr(cls, "PANEL", None)
        found.append(OptionField(each.name, kind, mark, default, part, chosen or (), decides, panel))
    return tuple(found)


def walk(cls: type, names: tuple[str, ...] | None = None) -> Iterator[OptionField]:
    """Yield all options and arguments of a command, those of its parts in their place."""
    found = {each.name: each for each in option_fields(cls)}
    for each in found.values() if names is None else map(found.__getitem__, names):
        if each.part is not None:
            yield from walk(each.part, each.taken)
        elif each.mark is not None:
            yield each


def made(cls: type[T], /, **values: object) -> T:
    """Return a command, or options of one concern or of several, of values by their names; what is not named has its default."""
    left = dict(values)
    found = _made(cls, left, None)
    if left:
        raise TypeError(f"{cls.__name__} has no options {', '.join(left)}")
    assert isinstance(found, cls)
    return found


def _made(cls: type, left: dict[str, object], names: tuple[str, ...] | None) -> object:
    """Takes what it needs out of `left`."""
    given: dict[str, object] = {}
    for each in option_fields(cls):
        if names is not None and each.name not in names:
            continue
        if each.part is not None:
            if each.default is not MISSING and left.keys().isdisjoint(each.taken):
                continue
            given[each.name] = _made(each.part, left, each.taken)
        elif each.name in left:
            given[each.name] = left.pop(each.name)
    return cls(**given)


def check_values(options: object) -> None:
    """Hold every option against its bounds; KvtoolError for the first that is outside of them."""
    cls: type = type(options)
    for each in option_fields(cls):
        value = getattr(options, each.name)
        if each.part is not None:
            check_values(value)
        elif isinstance(each.mark, Option) and each.mark.check is not None and value is not None:
            each.mark.check(each.mark.long_flag(each.name), value)


def keyed(concerns: tuple[type, ...], table: Table) -> Mapping[str, OptionField]:
    """Return the options of a table of the configuration, by name."""
    return {
        each.name: each
        for concern in concerns
        for each in walk(concern)
        if isinstance(each.mark, Option) and each.mark.table == table
    }
