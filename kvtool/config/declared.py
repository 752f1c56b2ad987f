"""All options, and the tables of the configuration file that contain them."""

from __future__ import annotations

from typing import TypeVar

from kvtool.config.option import Option, OptionField, Table, Value, keyed
from kvtool.config.options.agent_options import ProbedAgent
from kvtool.config.options.bench_options import Benching
from kvtool.config.options.clock_options import Clocking
from kvtool.config.options.edit_options import Editing
from kvtool.config.options.judged_options import Judging
from kvtool.config.options.lint_options import Probing, Selecting, Walking
from kvtool.config.options.pricing_options import Pricing
from kvtool.config.options.routing_options import Routed
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.config.options.run_options import (
    Caching,
    Measuring,
    Mirroring,
    Predicting,
    Reading,
    Rendering,
    Serving,
    Tracing,
)
from kvtool.config.options.shown_options import Configured, Showing, Writing
from kvtool.config.options.sweep_options import Fixing, Sweeping
from kvtool.config.options.tier_options import Splitting, Tiering

T = TypeVar("T")
CONCERNS = (
    *(Predicting, Rendering, Serving, Mirroring, Caching, Tracing, RuleFlags, Pricing, Reading, Measuring),
    *(Judging, Selecting, Walking, Probing, Editing, Benching, Writing, Configured, Showing),
    *(Sweeping, Fixing, Routed, Clocking, Tiering, Splitting, ProbedAgent),
)
"""All options but those of single commands; a name has the same flag in each."""


def in_table(table: Table) -> dict[str, tuple[Value, str]]:
    """Return the options of a table by name: the default of each, and words for one that is no value."""
    return {
        name: (_default(each), each.mark.words)
        for name, each in keyed(CONCERNS, table).items()
        if isinstance(each.mark, Option)
    }


def default_of(table: Table, name: str, kind: type[T]) -> T:
    """Return the default of an option, which is a value."""
    value = _default(keyed(CONCERNS, table)[name])
    assert isinstance(value, kind)
    return value


def _default(each: OptionField) -> Value:
    assert isinstance(each.mark, Option)
    if each.mark.words:
        return None
    own: Value = each.default
    return own if each.mark.default is None else each.mark.default
