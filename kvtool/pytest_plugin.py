"""The pytest plugin: the marker `kv_hit_rate` and the fixtures `kv_profile`, `kv_record` and `kv_agent`.

pytest imports this module in every project of an environment that has kvtool, so nothing else of kvtool is imported before a test
uses it.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kvtool.results.documents.agent_probe import AgentProbe
    from kvtool.results.finding import Finding
    from kvtool.results.report import Group, Report, Totals

MARKER = "kv_hit_rate"
_FIXTURES = ("kv_profile", "kv_record")
_MOST_FINDINGS = 3
_MARKER_HELP = (
    f"{MARKER}(min, group=None): minimum prefix-cache hit rate, from 0 to 1, of the profiles that the test makes with kv_profile "
    "or kv_record. `group` limits it to one group."
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER_HELP)


@dataclass(slots=True)
class _Made:
    """Reports and prompts of one test."""

    reports: list[Report] = field(default_factory=list)
    recorder: KvRecord | None = None


_made = pytest.StashKey[_Made]()


@dataclass(frozen=True, slots=True)
class _Limit:
    """One marker: the least hit rate, and whose."""

    least: float
    group: str | None

    def __str__(self) -> str:
        return f"{MARKER}(min={self.least:g}{'' if self.group is None else f', group={self.group!r}'})"


class KvProfile:
    """The fixture `kv_profile`: profiles what it is called with, and has the marker's limit checked when the test ends."""

    def __init__(self, made: _Made) -> None:
        self._made = made

    def __call__(self, inputs: Any, **options: Any) -> Report:
        """`kvtool.profile(inputs, **options)`. Raises KvtoolError for inputs that cannot be profiled."""
        import kvtool

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the libraries that tokenize say nothing about the test
            report = kvtool.profile(inputs, **options)
        self._made.reports.append(report)
        return report


class KvRecord:
    """The fixture `kv_record`: takes an application's prompts in the order in which it sends them."""

    def __init__(self, made: _Made) -> None:
        self._made = made
        self._recorded: list[Any] = []

    def __call__(self, prompt: Any = None, **body: Any) -> None:
        """Record a text or a list of messages; or the keyword arguments of a chat API's call, alone or beside the messages.

        It is copied: a list of messages that grows from call to call is a different prompt each time.
        """
        if isinstance(prompt, Mapping):
            body = {**prompt, **body}
        elif body and prompt is not None:
            body = {"prompt" if isinstance(prompt, str) else "messages": prompt, **body}
        if prompt is None and not body:
            raise TypeError("pass kv_record a prompt, a list of messages or the arguments of a call")
        self._recorded.append(copy.deepcopy(body or prompt))

    def __len__(self) -> int:
        """Return the number of recorded prompts."""
        return len(self._recorded)

    @property
    def prompts(self) -> list[Any]:
        """Return the recorded prompts."""
        return list(self._recorded)

    def profile(self, **options: Any) -> Report:
        """Profile the recorded prompts, with options of `kvtool.profile`; without a call the marker does it at the end."""
        return KvProfile(self._made)(self._recorded, **options)


@pytest.fixture
def kv_profile(request: pytest.FixtureRequest) -> KvProfile:
    """`kv_profile(prompts_or_paths, **options)` gives a `kvtool.Report`; `@pytest.mark.kv_hit_rate` checks each that is made."""
    return KvProfile(_of(request.node))


@pytest.fixture
def kv_record(request: pytest.FixtureRequest) -> KvRecord:
    """`kv_record(messages)` records a prompt; `@pytest.mark.kv_hit_rate` checks all of them together when the test ends."""
    made = _of(request.node)
    made.recorder = KvRecord(made)
    return made.recorder


@pytest.fixture
def kv_agent() -> Callable[..., AgentProbe]:
    """`kv_agent("my-agent -p {prompt}", **options)` or `kv_agent(make)` gives a probe: `assert not kv_agent(…).steps.broken`."""

    def probe(
        agent: str | Callable[[str], Callable[[str], object]],
        *,
        vary: str = "",
        tokenizer: str | None = None,
        **options: Any,
    ) -> AgentProbe:
        from kvtool.profiler.agents.prefix_stability import AgentProbeOptions, probe_agent, probe_function
        from kvtool.text.tokens.tokenizer import load_tokenizer

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not isinstance(agent, str):
                return probe_function(agent, lambda: load_tokenizer(tokenizer), **options)
            return probe_agent(AgentProbeOptions(agent, vary=vary, **options), lambda: load_tokenizer(tokenizer))

    return probe


def _of(node: pytest.Item) -> _Made:
    return node.stash.setdefault(_made, _Made())


def _misuse(message: str) -> BaseException:
    """Before a test runs, its failure is what pytest calls an error."""
    return pytest.fail.Exception(message, pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marker that can check nothing, before the test runs."""
    limits = _limits(item)
    if limits and not set(_FIXTURES) & set(getattr(item, "fixturenames", ())):
        raise _misuse(f"{MARKER} checks what {' or '.join(_FIXTURES)} profile, and this test uses neither")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check the profiles of a test that has passed so far."""
    result = yield
    limits = _limits(item)
    if limits:
        made = _of(item)
        if not made.reports and made.recorder is not None and len(made.recorder):
            made.recorder.profile()
        if not made.reports:
            pytest.fail(f"{MARKER}: the test made no profile, so there is nothing to check", pytrace=False)
        problems = [text for report in made.reports for limit in limits for text in _problems(report, limit)]
        if problems:
            pytest.fail("\n\n".join(problems), pytrace=False)
    return result


def _limits(item: pytest.Item) -> list[_Limit]:
    """Return the demands of the markers of a test, its class and its module. Fails for a marker without any."""
    return [_limit(marker) for marker in item.iter_markers(MARKER)]


def _limit(marker: pytest.Mark) -> _Limit:
    options = dict(marker.kwargs)
    if len(marker.args) > 1 or (marker.args and "min" in options) or set(options) - {"min", "group"}:
        raise _misuse(f"{MARKER} takes only min and group")
    least = marker.args[0] if marker.args else options.get("min")
    if least is None:
        raise _misuse(f"{MARKER} needs a minimum: @pytest.mark.{MARKER}(min=0.8)")
    number = isinstance(least, int | float) and not isinstance(least, bool)
    if not number or not math.isfinite(least) or not 0 <= least <= 1:
        raise _misuse(f"{MARKER}: min is a ratio from 0 to 1, not {least!r}; 0.8 is 80 %")
    group = options.get("group")
    if group is not None and not isinstance(group, str):
        raise _misuse(f"{MARKER}: group is a name, not {group!r}")
    return _Limit(float(least), group)


def _problems(report: Report, limit: _Limit) -> list[str]:
    """Return the message for a report that misses a limit: by how much, the costliest cause, and its fix."""
    from kvtool.gate.evaluate import exact, rate
    from kvtool.text.terminal.console import sanitize
    from kvtool.text.terminal.numbers import percent, plural
    from kvtool.workload.prompts_in_memory import MEMORY

    about: Totals | Group = report.totals
    if limit.group is not None:
        found = next((group for group in report.groups if group.name == limit.group), None)
        if found is None:
            return [f"{limit}: no group {limit.group!r}; there are {', '.join(one.name for one in report.groups)}"]
        about = found
    if rate(about.hit_tokens, about.prompt_tokens) >= exact(limit.least):
        return []
    whose = "" if limit.group is None else f" of group {sanitize(limit.group)}"
    where = "prompts of this test" if report.workload == MEMORY else sanitize(report.workload)
    hits = f"{about.hit_tokens:,} of {plural(about.prompt_tokens, 'token')} hit"
    reachable = f"{percent(about.reachable_hit_rate)} with an unlimited cache"
    lines = [
        f"prefix-cache hit rate{whose} is {percent(about.hit_rate)}, below the {percent(limit.least)} of {limit}",
        f"  {where}: {plural(about.requests, 'request')}, {hits}; {reachable}",
    ]
    findings = [one for one in report.findings if limit.group in (None, one.group)]
    for finding in findings[:_MOST_FINDINGS]:
        lines += _told(finding)
    if len(findings) > _MOST_FINDINGS:
        lines.append(f"  and {plural(len(findings) - _MOST_FINDINGS, 'more finding')}")
    return ["\n".join(lines)]


def _told(finding: Finding) -> list[str]:
    from kvtool.text.terminal.console import sanitize
    from kvtool.text.terminal.numbers import percent
    from kvtool.workload.prompts_in_memory import MEMORY

    place = sanitize(finding.path)
    if finding.path == MEMORY:
        place = f"prompt {finding.line}" if finding.line else "prompts"
    elif finding.line:
        place += f":{finding.line}:{finding.column}"
    lines = [
        f"  {place}: {finding.code} {finding.severity}: {sanitize(finding.message)} ({finding.tokens_lost:,} tokens lost)"
    ]
    gain = ""
    if finding.rerun is not None:
        gain = f"; {percent(finding.rerun.total_before)} -> {percent(finding.rerun.total_after)}, verified by a run"
    if finding.fix:
        lines.append(f"    help: {sanitize(finding.fix)}{gain}")
    return lines
