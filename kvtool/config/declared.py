"""All options that the configuration may say, by the tables in which they stand there."""

from __future__ import annotations

from typing import TypeVar

from kvtool.config.option import Option, OptionField, Table, Value, keyed
from kvtool.config.options.judged_options import Judging
from kvtool.config.options.lint_options import Selecting, Walking
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.config.options.run_options import Caching, Predicting, Reading, Rendering, Serving, Tracing
from kvtool.config.options.shown_options import Showing, Writing

T = TypeVar("T")
_CONCERNS = (
    Predicting,
    Rendering,
    Serving,
    Caching,
    Tracing,
    RuleFlags,
    Reading,
    Judging,
    Selecting,
    Walking,
    Writing,
    Showing,
)


def in_table(table: Table) -> dict[str, tuple[Value, str]]:
    """The options of a table by name: the default of each, and words for one that is no value."""
    return {
        name: (_default(each), each.mark.words)
        for name, each in keyed(_CONCERNS, table).items()
        if isinstance(each.mark, Option)
    }


def default_of(table: Table, name: str, kind: type[T]) -> T:
    """The default of an option that is a value."""
    value = _default(keyed(_CONCERNS, table)[name])
    assert isinstance(value, kind)
    return value


def _default(each: OptionField) -> Value:
    assert isinstance(each.mark, Option)
    if each.mark.words:
        return None
    own: Value = each.default
    return own if each.mark.default is None else each.mark.default
