"""Command lines that kvtool proposes: the one that was given with other options, or the same options for another command.

An option is called by its name here; its flag, and whether it takes a value, are read from its declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from kvtool.config.option import Decides, Option, OptionField, option_fields, walk

Takes = Callable[[str], Collection[str]]
"""Returns the names of the options that a command takes."""
_SHORT = len("-o")
_INPUTS = "--"
"""No word after it is a flag."""


@dataclass(frozen=True, slots=True)
class LinePart:
    """One input, or one flag with its value; `option` is None for an input and for a flag that is not declared in config."""

    words: tuple[str, ...]
    option: OptionField | None = None

    def is_of(self, names: Collection[str]) -> bool:
        return self.option is not None and self.option.name in names

    def decides(self, *what: Decides) -> bool:
        return self.option is not None and self.option.decides in what


class CommandLine(tuple[str, ...]):
    """The words after `kvtool`. Without `takes`, no option is carried to another command."""

    takes: Takes

    def __new__(cls, words: Iterable[str], takes: Takes | None = None) -> CommandLine:
        line = super().__new__(cls, words)
        line.takes = takes or (words.takes if isinstance(words, CommandLine) else _no_options)
        return line

    def to(self, command: str, *inputs: str) -> CommandLine:
        """Return the line of another command with the options that both have, but not those of verdict and output.

        Without `inputs` it has the same ones.
        """
        taken = self.takes(command)
        kept = [
            part
            for part in parts(self[1:])
            if (part.is_of(taken) and part.decides(Decides.RESULT, Decides.SPEED))
            or (part.option is None and not inputs)
        ]
        return self._made((command, *inputs, *_words(kept)))

    def with_(self, **values: object) -> CommandLine:
        """Return the line with these values of options in place of its own; None removes an option."""
        return self._made((*self.without(*values), *flags(**values)))

    def with_flags(self, words: Iterable[str]) -> CommandLine:
        """Return the line with options as they are written, in place of its own values of them."""
        added = list(parts(words))
        return self._made((*self.without(*(part.option.name for part in added if part.option)), *_words(added)))

    def without(self, *names: str) -> CommandLine:
        """Return the line without these options."""
        return self._made(_words(part for part in parts(self) if not part.is_of(names)))

    def without_output(self) -> CommandLine:
        """Return the line without the options that decide how and where a result is shown: those were for once."""
        return self._made(_words(part for part in parts(self) if not part.decides(Decides.OUTPUT)))

    def has(self, name: str) -> bool:
        """Return whether the line gives an option."""
        return any(part.is_of((name,)) for part in parts(self))

    def beside(self, other: CommandLine) -> tuple[str, ...]:
        """Return the words that `other` does not have; all words where `other` has an option that this line leaves out."""
        own, others = list(parts(self)), list(parts(other))
        more = [part for part in own if part not in others]
        changed = {_key(part) for part in more}
        left_out = any(part not in own and _key(part) not in changed for part in others)
        return tuple(_words(own if left_out else more))

    def _made(self, words: Iterable[str]) -> CommandLine:
        return CommandLine(words, self.takes)


def flag(name: str) -> str:
    """Return the long flag of an option, as errors and reports name it."""
    return _long(name).partition("/")[0]


def flags(**values: object) -> tuple[str, ...]:
    """Return the words that give options these values; None gives none."""
    words: list[str] = []
    for name, value in values.items():
        on, _, off = _long(name).partition("/")
        if isinstance(value, bool):
            words += [on] if value else [off] if off else []
        elif isinstance(value, tuple | list):
            words += [word for each in value for word in (on, str(each))]
        elif value is not None:
            words += [on, str(value)]
    return tuple(words)


def values_given(options: object, names: Collection[str], **instead: object) -> dict[str, object]:
    """Return the values of options that differ from their defaults, by name, for `flags`; those of `instead` replace values.

    Only options of `names` that decide a result are returned: those with a value, then repeated ones, then switches.
    """
    found = [
        (each, value)
        for each, own in _own_values(options)
        if each.name in names
        and each.decides is Decides.RESULT
        and (value := instead.get(each.name, own)) != each.default
    ]
    found.sort(key=lambda pair: (pair[0].kind is bool, isinstance(pair[1], tuple)))
    return {each.name: value for each, value in found}


def parts(words: Iterable[str]) -> Iterator[LinePart]:
    """Divide words into inputs and flags with their values."""
    options, left = _by_form(), iter(words)
    for word in left:
        if word == _INPUTS:
            yield LinePart((word,))
            yield from (LinePart((each,)) for each in left)
            return
        form = word.partition("=")[0] if word.startswith("--") else word[:_SHORT]
        option = options.get(form)
        if option is None or (word != form and not _has_value(option)):
            yield LinePart((word,))
        elif word == form and _has_value(option):
            yield LinePart((word, *(value for value in (next(left, None),) if value is not None)), option)
        else:
            yield LinePart((word,), option)


def _words(found: Iterable[LinePart]) -> list[str]:
    return [word for part in found for word in part.words]


def _key(part: LinePart) -> str:
    return part.words[0] if part.option is None else part.option.name


def _own_values(options: object) -> Iterator[tuple[OptionField, object]]:
    cls: type = type(options)
    for each in option_fields(cls):
        value = getattr(options, each.name)
        if each.part is not None:
            yield from (pair for pair in _own_values(value) if pair[0].name in each.taken)
        elif isinstance(each.mark, Option):
            yield each, value


def _no_options(_command: str) -> Collection[str]:
    return ()


def _has_value(option: OptionField) -> bool:
    return option.kind not in (bool, bool | None)


def _mark(option: OptionField) -> Option:
    assert isinstance(option.mark, Option)
    return option.mark


def _long(name: str) -> str:
    forms = _mark(_by_name()[name]).flags(name)
    return next(form for form in forms if form.startswith("--"))


@cache
def _by_form() -> dict[str, OptionField]:
    """Return all options by every form of their flags."""
    return {
        form: option
        for option in _by_name().values()
        for written in _mark(option).flags(option.name)
        for form in written.split("/")
    }


@cache
def _by_name() -> dict[str, OptionField]:
    """Return all options that are declared in config; a name means the same in every command."""
    from kvtool.config.declared import CONCERNS

    found: dict[str, OptionField] = {}
    for concern in CONCERNS:
        for each in walk(concern):
            if isinstance(each.mark, Option) and each.mark.flag is not None:
                found.setdefault(each.name, each)
    return found
