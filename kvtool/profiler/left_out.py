"""Describe the requests that a pass left out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.config.command_line import CommandLine, flag, flags
from kvtool.profiler.run.run_result import NO_MODEL, RunResult, UnservedRequests
from kvtool.text.templates.built_in import BUILT_IN_TEMPLATES, HOSTED_TEMPLATE
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal.numbers import plural
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.turn import Source, Turn

if TYPE_CHECKING:
    from kvtool.accounting.caches.provider_cache import ProviderCache

_MOST = 5
"""Items that a sentence names; the rest is counted."""


@dataclass(frozen=True, slots=True)
class LeftOutRequests:
    """Requests that a pass left out. `alone` are the options with which `kvtool profile` has only them; `otherwise` is said
    where there are none."""

    what: str
    alone: tuple[str, ...] = ()
    otherwise: str = ""

    def said(self, command: CommandLine | None = None) -> str:
        """Say it with the whole command, or with the options where these are added to the user's own `profile`."""
        then = f"Profile them alone with {shlex.join(self.alone)}" if self.alone else self.otherwise
        if self.alone and command is not None:
            then = f"Profile them alone: {shlex.join(('kvtool', *command.with_flags(self.alone)))}"
        return f"{self.what}. {then}" if then else self.what


def left_out(found: UnservedRequests, source: Source, *, hosted: bool) -> list[LeftOutRequests]:
    """Describe failed requests by status, and requests of other servers than the run's; the commonest first.

    `hosted`: the run has the rules of providers.
    """
    told = []
    if found.failed:
        total = sum(found.failed.values())
        told.append(LeftOutRequests(f"{plural(total, 'failed request')} left out: {_counted(found.failed, 'status ')}"))
    if found.uncached:
        total = sum(found.uncached.values())
        said = f"{plural(total, 'request')} without a cache: OpenAI caches no prompt of {_counted(found.uncached, '')}"
        told.append(LeftOutRequests(said))
    if found.unpredicted:
        total = sum(found.unpredicted.values())
        why = "kvtool knows no API for" if hosted else "a provider's cache served"
        otherwise = (
            "If your own server ran these, profile a log with only them" if hosted else "Profile a log with only them"
        )
        said = f"{plural(total, 'request')} not predicted: {why} {_counted(found.unpredicted, '')}"
        told.append(LeftOutRequests(said, _alone(found, source), otherwise))
    return told


def hosted_left_out(count: int) -> list[str]:
    """Return a note on requests of hosted models in a plan of the user's own server."""
    return [f"{plural(count, 'request')} left out: a provider's cache served them"] if count else []


def _alone(found: UnservedRequests, source: Source) -> tuple[str, ...]:
    """Return the options that select what is left out: its groups, where these have nothing else, or the models' field."""
    names = sorted(found.unpredicted, key=lambda model: (-found.unpredicted[model], model))
    if found.groups.keys() == found.unpredicted.keys():
        return flags(groups=names)
    if isinstance(source, LogSource) and not source.options.groups and NO_MODEL not in found.unpredicted:
        from kvtool.workload.logs.groups.grouping import name_of_value
        from kvtool.workload.logs.groups.model_field import model_field

        if (field := model_field(source)) is not None:
            return flags(group_by=field, groups=[name_of_value(name) for name in names])
    return ()


def _counted(counts: dict[int, int] | dict[str, int], before: str) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    shown = [f"{before}{name} ({count:,})" for name, count in ordered[:_MOST]]
    return ", ".join([*shown, *([f"{len(ordered) - _MOST:,} more"] if len(ordered) > _MOST else [])])


def reasoning_left_out(template: ChatTemplate, turns: Sequence[Turn]) -> list[str]:
    """Return a note if earlier answers have reasoning and kvtool's own chat template, which leaves it out, renders the prompts."""
    if not template.name.startswith(BUILT_IN_TEMPLATES) or template.name == HOSTED_TEMPLATE:
        return []
    names = ("reasoning_content", "reasoning")
    if not any(message.get(name) for turn in turns for message in turn.messages or [] for name in names):
        return []
    own = "kvtool's own chat template leaves out the reasoning of earlier answers"
    return [f"{own}: give the model's template with {flag('chat_template')}"]


def notes_on_rules(result: RunResult) -> list[str]:
    """Return notes on models without documented rules, and on requests with more marks than their provider takes."""
    hosted = result.counts.hosted
    if hosted is None:
        return []
    named = ", ".join(sorted(hosted.undocumented)[:_MOST])
    told = [f"No cache rules are documented for {named}: any earlier prefix is predicted as cached"] if named else []
    return [*told, *_refused_marks(hosted)]


def _refused_marks(hosted: ProviderCache) -> list[str]:
    if not hosted.too_many_marks:
        return []
    most = max(one.rules.most for one in hosted.trees.values())
    count, marks = sum(hosted.too_many_marks.values()), max(hosted.too_many_marks)
    return [
        f"{plural(count, 'request')} with {marks} cache breakpoints (cache_control), {most} are allowed: the provider refuses them"
    ]
