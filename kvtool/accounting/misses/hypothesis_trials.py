"""Rerun requests under hypotheses that a log does not state: replicas, hosts with caches of their own, dropped reasoning, a form
or a place of messages that counts.

A hypothesis counts if it gives the reported read of nearly every request, hits included, not only of the misses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kvtool.accounting.misses.field_search import MissesAndHits, chance_of
from kvtool.accounting.misses.prefix_cuts import NO_CUTS, CutName, PrefixCuts
from kvtool.accounting.misses.prompt_states import CHUNK, NO_NAMES, CacheKey
from kvtool.results.misses import DroppedReasoning, Hypothesis, MissCause

_MOST_REPLICAS = 8
_MOST_NAMES = 200_000
"""Names of pieces of prompts that are kept: a bound on memory and time; a longer log is not rerun."""
_AGREE = 0.9
"""Least share of the requests whose read a hypothesis gives; and of the misses, where it chooses a number of replicas."""
_EXPLAINED = 0.75
"""Least share of the misses whose read a hypothesis without such a choice gives: other causes may be among them."""
_OVER_READ = 0.02
"""Largest share of the requests that read more than any replica has under a hypothesis: nothing but a warm start explains it."""
_FEWEST = 3
"""Least misses that are worth a hypothesis: fewer agree by chance."""
_LEVEL = 0.01
"""The chance, over all hosts together, of a host that only seems to read nothing."""

Routing = Literal["round-robin", "any", "host"]
_OF_FORM: dict[CutName, MissCause] = {"form": "wire_form", "hoisted": "system_changed", "front": "system_changed"}
RERUN_CAUSES: tuple[MissCause, ...] = (
    *("unknown", "provider", "host_changed", "answer_not_kept"),
    *("wire_form", "system_changed"),
)
"""Causes of misses that a rerun may explain better."""
_TEXT_CAUSES: tuple[MissCause, ...] = ("prompt_changed", "history_edited", "compaction", "tools_changed")
"""Causes that a rerun knows: the text of the prompt shows them."""
JUDGED_CAUSES = frozenset((*RERUN_CAUSES, *_TEXT_CAUSES))
UNEXPLAINED: tuple[MissCause, ...] = ("unknown", "provider")

Explained = Mapping[int, tuple[MissCause, MissCause]]
"""Misses that a hypothesis explains: by number, the cause before and the cause under the hypothesis."""


@dataclass(frozen=True, slots=True)
class KeptRead:
    """A request with its reported read. `names` are those of the beginnings of its prompt, `answer` those that its answer adds.

    Tokens are ours: the read, the difference that is still rounding, and `minimum`, below which nothing is read.
    `unread` are the server's tokens of the rest of its prompt.
    """

    key: CacheKey
    session: str | None
    names: Sequence[int]
    answer: Sequence[int]
    read: float
    least: float
    numbers: Mapping[MissCause, tuple[int, ...]]
    """The numbers of its misses by cause, for causes that a rerun may explain better."""
    minimum: float = 0.0
    stored: int | None = None
    """How many names its marks store; None: all, and the answer where answers are kept."""
    cuts: PrefixCuts = NO_CUTS
    prompt: tuple[int, int] = (0, 0)
    """All of its tokens: ours, and the server's. Ours are without reasoning."""
    unread: int = 0
    answered: int = 0
    """Tokens of its answer."""
    reasons: bool = False
    """Whether a template may write reasoning since the last question into it."""
    judged: bool = True
    """Whether it is compared: not one whose read a cause changes that no rerun knows, as its time to live."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """What is assumed. `explains` are the causes of the misses that it may explain."""

    cause: MissCause
    explains: tuple[MissCause, ...]
    replicas: int = 1
    routing: Routing = "round-robin"
    answers: bool = True
    dropped: DroppedReasoning | None = None
    cut: CutName | None = None
    """The places up to which requests read; None: nothing cuts them short."""
    silent: frozenset[str | None] = frozenset()
    """Hosts that read nothing from a cache."""


@dataclass(slots=True)
class _Outcome:
    """For each request: whether its read is that of the hypothesis, whether only an old replica gives it, what it gives, and
    whether it read more.
    """

    trial: _Trial
    agrees: list[bool] = field(default_factory=list)
    stale: list[bool] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    over: list[bool] = field(default_factory=list)


class HypothesisTrials:
    """Keep requests in their order, and test hypotheses on all of them."""

    def __init__(self) -> None:
        self._kept: list[KeptRead] = []
        self._names = 0

    @property
    def has_given_up(self) -> bool:
        """Whether the log is too long to be rerun: then nothing is kept."""
        return self._names > _MOST_NAMES

    def add(self, kept: KeptRead) -> None:
        """Enter the next request."""
        self._names += 1 + len(kept.names) + len(kept.answer)
        if self.has_given_up:
            self._kept.clear()
        else:
            self._kept.append(kept)

    def found(self, *, hosted: bool) -> tuple[Hypothesis, Explained] | None:
        """Return the hypothesis that agrees with the reports, and the misses that it explains.

        `hosted`: a provider serves the requests, whose replicas nobody knows.
        """
        best: tuple[int, Hypothesis, Explained] | None = None
        for trial in self._trials(hosted=hosted):
            if best is not None and trial.cause == "replicas":
                break  # these have more freedom: they count where nothing else agrees
            outcome = self._run(trial)
            if trial.cause == "host_changed" and (silent := self._silent(outcome)):
                outcome = self._run(replace(trial, silent=silent))
            found = self._judged(outcome)
            if found is None:
                continue
            if trial.cause == "replicas":
                return found[1:]
            if best is None or found[0] > best[0]:
                best = found
        return None if best is None else best[1:]

    def _trials(self, *, hosted: bool) -> Iterator[_Trial]:
        """Yield what is assumed, the first of two that agree as well first."""
        kinds: tuple[DroppedReasoning, ...] = ("client", "question", "always")
        for dropped in kinds:
            if sum(kept.cuts.of(dropped) is not None for kept in self._kept) >= _FEWEST:
                yield _Trial("reasoning_dropped", (*UNEXPLAINED, "answer_not_kept"), dropped=dropped, cut=dropped)
        for cut, cause in _OF_FORM.items():
            if sum(kept.cuts.of(cut) is not None for kept in self._kept) >= _FEWEST:
                for answers in (True, False):
                    yield _Trial(cause, (cause, *UNEXPLAINED), routing="host", answers=answers, cut=cut)
        if not hosted:
            yield _Trial("answer_not_kept", ("answer_not_kept",), answers=False)
        if len({kept.key.host for kept in self._kept}) > 1:
            for answers in (True, False):
                yield _Trial("host_changed", ("host_changed",), routing="host", answers=answers)
        if hosted:
            return
        routings: tuple[Routing, ...] = ("round-robin", "any")
        for routing in routings:
            for replicas in range(2, _MOST_REPLICAS + 1):
                yield _Trial("replicas", UNEXPLAINED, replicas, routing)

    def _judged(self, outcome: _Outcome) -> tuple[int, Hypothesis, Explained] | None:
        """Return how many requests agree, and what that shows; None where it is too few."""
        trial, missed, agree, count, explained, stale = outcome.trial, 0, 0, 0, 0, 0
        numbers: dict[int, tuple[MissCause, MissCause]] = {}
        for kept, agrees, old in zip(self._kept, outcome.agrees, outcome.stale, strict=True):
            if not kept.judged:
                continue
            cut = trial.cut is None or kept.cuts.of(trial.cut) is not None
            causes: dict[MissCause, MissCause] = dict.fromkeys(trial.explains if cut else UNEXPLAINED, trial.cause)
            if kept.key.host in trial.silent:
                causes |= dict.fromkeys(UNEXPLAINED, "host_uncached")
            found = {number: (was, cause) for was, cause in causes.items() for number in kept.numbers.get(was, ())}
            count += 1
            agree += agrees
            missed += bool(found)
            stale += old and bool(found)
            if agrees and found:
                explained += 1
                numbers |= found
        least = _AGREE if trial.cause == "replicas" else _EXPLAINED
        if missed < _FEWEST or agree < _AGREE * count or explained < least * missed:
            return None
        if trial.cause == "replicas" and sum(outcome.over) > _OVER_READ * count:
            return None
        if trial.routing == "any" and 2 * stale < missed:
            return None
        hypothesis = Hypothesis(
            cause=trial.cause,
            replicas=trial.replicas,
            routing="round-robin" if trial.cause == "replicas" and trial.routing == "round-robin" else None,
            dropped=trial.dropped,
            silent_hosts=sorted(str(host) for host in trial.silent),
            explained=explained,
            misses=missed,
            agree=agree,
            requests=count,
        )
        return agree, hypothesis, numbers

    def _silent(self, outcome: _Outcome) -> frozenset[str | None]:
        """Return the hosts that read nothing wherever their cache has something, if chance alone does not explain that."""
        total, hosts = MissesAndHits(), defaultdict[str | None, MissesAndHits](MissesAndHits)
        for kept, tokens in zip(self._kept, outcome.tokens, strict=True):
            if kept.judged and tokens > kept.least:
                for sums in (total, hosts[kept.key.host]):
                    sums.add(missed=kept.read <= kept.least)
        return frozenset(
            host
            for host, sums in hosts.items()
            if not sums.hits and sums.misses >= _FEWEST and chance_of(sums, total) * len(hosts) <= _LEVEL
        )

    def _ours_of_plain(self) -> float:
        """Return our tokens for one of the server's, by the prompts that have no reasoning: it is no part of our count."""
        own, theirs = (sum(kept.prompt[side] for kept in self._kept if not kept.reasons) for side in (0, 1))
        return own / max(theirs, 1)

    def _run(self, trial: _Trial) -> _Outcome:
        """Return what each request reads from the cache that it is sent to: in turn, by host, or whichever gives its read.

        A free choice explains any read of nothing by a replica that is still empty. Only a read of an old state of the session,
        of more than other sessions have, is evidence then: it is `stale`.
        """
        ours = None if trial.dropped is None else self._ours_of_plain()
        replicas: list[dict[int, str | None]] = [{} for _ in range(trial.replicas)]
        hosts: defaultdict[CacheKey, dict[int, str | None]] = defaultdict(dict)
        answered: dict[int, int] = {}
        """Tokens of the answer after a prompt, by its last name: how a provider writes an answer into a prompt, nobody knows."""
        scales: dict[int, float] = {}
        """Our tokens for one of the server's in a whole prompt, by its last name: a text is denser than another one."""
        outcome = _Outcome(trial)
        for number, kept in enumerate(self._kept):
            if trial.routing == "any":
                lengths = [_longest(kept.names, cache) for cache in replicas]
                at = min(range(len(replicas)), key=lambda each: abs(lengths[each] * CHUNK - kept.read))
                cache, length, latest = replicas[at], lengths[at], max(lengths)
            else:
                cache = hosts[kept.key] if trial.routing == "host" else replicas[number % trial.replicas]
                length = latest = _longest(kept.names, cache)
            ends = trial.routing == "host" and trial.answers and 0 < length < len(kept.names)
            after = answered.get(kept.names[length - 1], 0) if ends else 0
            tokens = _read(kept, length * CHUNK + after, trial)
            outcome.tokens.append(tokens)
            read = kept.read if ours is None else kept.prompt[0] - kept.unread * ours
            if ours is None and length and trial.cut is not None and (scale := scales.get(kept.names[length - 1])):
                read *= scale * kept.prompt[1] / max(kept.prompt[0], 1)
            outcome.agrees.append(abs(tokens - read) <= kept.least)
            outcome.over.append(kept.judged and read > tokens + kept.least)
            owner = cache[kept.names[length - 1]] if length else None
            outcome.stale.append(owner is not None and owner == kept.session and length < latest)
            if kept.names:
                answered[kept.names[-1]] = kept.answered
                scales[kept.names[-1]] = kept.prompt[0] / max(kept.prompt[1], 1)
            answer = kept.answer if trial.answers and kept.stored is None else NO_NAMES
            for name in (*kept.names[: kept.stored], *answer):
                cache[name] = kept.session if cache.get(name, kept.session) == kept.session else None
        return outcome


def _read(kept: KeptRead, tokens: int, trial: _Trial) -> float:
    """Return what a request reads, of a cache with so many of its tokens."""
    cut = None if trial.cut is None else kept.cuts.of(trial.cut)
    if cut is not None:
        tokens = min(tokens, cut)
    return 0 if tokens < kept.minimum - kept.least or kept.key.host in trial.silent else tokens


def _longest(names: Sequence[int], cache: Mapping[int, str | None]) -> int:
    """Return how many pieces of the longest beginning are in a cache."""
    low, high = 0, len(names)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if names[middle - 1] in cache else (low, middle - 1)
    return low
