"""`lint --probe`: a prompt builder run several times with one circumstance changed at a time; what reaches the prompt is named."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from kvtool.config.options.lint_options import Probing
from kvtool.diagnose.causes.pair_causes import PairCause
from kvtool.diagnose.codes import varies
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.structure.kv113 import KV113
from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.diagnose.codes.values.kv107 import OPTIONAL
from kvtool.diagnose.severity import severity_of
from kvtool.diff.diff_texts import DiffTexts, Range, Region
from kvtool.diff.prompts import Difference, difference_in, reusable, texts_of
from kvtool.diff.side_inputs import side_of, side_of_value
from kvtool.diff.sides import Rendered, pair_causes
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError
from kvtool.lint.probe.probe_factors import FACTORS, RANDOMNESS, Factor, circumstances, fix_of
from kvtool.lint.probe.probe_runner import Circumstances, ProbeOutput, ProbeRunner, RunError
from kvtool.results.documents.lint import Leak, Probe, Skipped
from kvtool.results.documents.parts import Kind
from kvtool.results.finding import Finding
from kvtool.text.align import EqualRun, align
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.tokenizer import load_tokenizer
from kvtool.workload.render import Renderer

GROUP = "probe"
_ORDER = DifferenceKind("order", "order of entries", KV113.code)
_DAY = 86_400
_AT = 10 * 3600 + 20 * 60 + 30.123456
"""The time of day (UTC) at which the clock of Python is: a second, an hour more is still the same day."""
_APART = 1.1
"""Seconds between the two runs of a builder whose clock we cannot set, so that one that shows seconds is seen to run."""
_SEED = 1
_MOST_REGIONS = 32


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Options of a probe. `timeout` is for each run, in seconds; `on_run` gets the name of each run before it starts."""

    timeout: float = Probing.probe_timeout
    tokenizer: str | None = None
    chat_template: str | None = None
    block_size: int = EngineConfig.block_size
    offline: bool = False
    on_run: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True)
class FoundLeak:
    """A circumstance that reaches the prompt, and where it does so first.

    `when` says what change of it was enough. `same_tokens` are after the difference and are the same in both prompts, so that a
    cache loses them; `lost_blocks` are all blocks from the difference on. `places` counts the places of this kind.
    """

    factor: Factor
    when: str
    difference: Difference
    same_tokens: int
    lost_blocks: int
    places: int
    fix: str

    @property
    def kind(self) -> DifferenceKind:
        return self.difference.kind

    def document(self) -> Leak:
        """Without any prompt text."""
        spot = self.difference.a
        return Leak(
            factor=self.factor.key,
            when=self.when,
            kind=Kind.taken_from(self.kind),
            token=self.difference.token,
            block=self.difference.block,
            line=None if spot is None else spot.line,
            column=None if spot is None else spot.column,
            part="" if spot is None else spot.part,
            character=None if spot is None else spot.character,
            same_tokens=self.same_tokens,
            lost_blocks=self.lost_blocks,
            places=self.places,
            fix=self.fix,
        )


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe. `without_effect` are circumstances that changed nothing, `skipped` those that could not be changed."""

    spec: str
    runs: int
    tokens: int
    block_size: int
    tokenizer: str
    leaks: tuple[FoundLeak, ...]
    without_effect: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]

    def document(self) -> Probe:
        """Without any prompt text."""
        return Probe(
            spec=self.spec,
            runs=self.runs,
            tokens=self.tokens,
            block_size=self.block_size,
            tokenizer=self.tokenizer,
            leaks=[leak.document() for leak in self.leaks],
            without_effect=list(self.without_effect),
            skipped=[Skipped(factor=name, reason=reason) for name, reason in self.skipped],
        )


def run_probe(spec: str, options: ProbeOptions = ProbeOptions()) -> ProbeResult:
    """Run the builder `spec` (a command that prints the prompt, or `module:function`) and compare what it makes.

    This executes code of the user's. Raises KvtoolError where the builder cannot be started, fails, hangs or gives no prompt when
    nothing is changed; what fails only with a circumstance changed is `skipped`.
    """
    if options.timeout <= 0:
        raise KvtoolError(f"--probe-timeout {options.timeout:g} is not above 0 seconds")
    if options.block_size < 1:
        raise KvtoolError(
            f"block size {options.block_size} is not positive", hint=f"vLLM uses {EngineConfig.block_size}"
        )
    renderer = Renderer(
        lambda: load_tokenizer(options.tokenizer, offline=options.offline),
        lambda tokenizer: ChatTemplate.load(options.chat_template, tokenizer),
    )
    with ProbeRunner(spec, timeout=options.timeout) as runner:
        return _Probe(runner, renderer, options).result()


def probe_findings(result: ProbeResult) -> list[Finding]:
    """The leaks as findings, the costliest first; their path is the spec, and they have no line of a file."""
    findings: list[Finding] = []
    for leak in sorted(result.leaks, key=lambda leak: -leak.same_tokens):
        points = leak.same_tokens / result.tokens if result.tokens else 0.0
        first = f"first at token {leak.difference.token:,}, block {leak.difference.block:,}"
        findings.append(
            Finding.of(
                code=leak.kind.code,
                severity=severity_of(leak.same_tokens, result.tokens),
                group=GROUP,
                path=result.spec,
                line=0,
                column=0,
                message=f"{leak.factor.name} reaches the prompt ({leak.when}): {leak.kind.name}, {first}",
                tokens_lost=leak.same_tokens,
                fix=leak.fix,
                points=points,
            )
        )
    return findings


@dataclass(slots=True)
class _Base:
    """The output of the builder when nothing is changed, and the ranges of its text that differ all the same."""

    made: Rendered
    how: Circumstances
    noise: list[Range] = field(default_factory=list)


class _Probe:
    def __init__(self, runner: ProbeRunner, renderer: Renderer, options: ProbeOptions) -> None:
        self._runner = runner
        self._renderer = renderer
        self._options = options
        self._runs = 0
        self._hooked = False
        self._leaks: dict[_Key, FoundLeak] = {}
        self._skipped: dict[str, str] = {}
        self._tried: dict[str, None] = {}

    def result(self) -> ProbeResult:
        base = self._baseline()
        for factor in FACTORS:
            self._try(factor, base)
        leaks = _merged(self._leaks)
        leaking = {key.factor for key in self._leaks}
        return ProbeResult(
            spec=self._runner.spec,
            runs=self._runs,
            tokens=len(base.made.prompt),
            block_size=self._options.block_size,
            tokenizer=self._renderer.tokenizer.name,
            leaks=tuple(leaks),
            without_effect=tuple(
                factor.name
                for factor in (RANDOMNESS, *FACTORS)
                if factor.key in self._tried and factor.key not in leaking
            ),
            skipped=tuple((name, why) for name, why in self._skipped.items() if name not in leaking),
        )

    def _made(self, how: Circumstances, name: str) -> Rendered:
        return self._rendered(self._output(how, name))

    def _output(self, how: Circumstances, name: str) -> ProbeOutput:
        if self._options.on_run is not None:
            self._options.on_run(name)
        self._runs += 1
        return self._runner.run(how)

    def _rendered(self, output: ProbeOutput) -> Rendered:
        read = side_of_value if output.is_value else side_of
        return Rendered.of(read(self._runner.spec, output.data), self._renderer)

    def _baseline(self) -> _Base:
        """Two runs with nothing changed; where they differ, what is random is reported and from there on repeats, if it can."""
        today = time.time() // _DAY * _DAY + _AT
        how = Circumstances(clock=today)
        first = self._output(how, "unchanged")
        self._hooked = first.hooked
        if not first.hooked:  # the clock runs, and shows in two runs a second apart
            how = Circumstances()
            time.sleep(_APART)
        made, again = self._rendered(first), self._made(how, "unchanged, again")
        self._tried[RANDOMNESS.key] = None
        texts = texts_of(made.prompt, again.prompt)
        if texts is None:
            return _Base(made, how)
        self._note(RANDOMNESS, "between two equal runs", _Base(made, how), again)
        if not first.hooked:
            return _Base(made, how, _message_parts(texts))
        how = replace(how, random=_SEED)
        try:
            made, again = self._made(how, "unchanged, seeded"), self._made(how, "unchanged, seeded, again")
        except RunError:
            return _Base(made, replace(how, random=None), _message_parts(texts))
        texts = texts_of(made.prompt, again.prompt)
        return _Base(made, how, [] if texts is None else _message_parts(texts))

    def _try(self, factor: Factor, base: _Base) -> None:
        reason = self._impossible(factor)
        if reason is not None:
            self._skipped[factor.name] = reason
            return
        for variant in factor.variants(os.environ):
            try:
                other = self._made(
                    circumstances(variant, base.how, self._runner.home()), f"{factor.name}: {variant.when}"
                )
            except RunError as error:
                self._skipped[f"{factor.name} ({variant.when})"] = error.message
                continue
            self._tried[factor.key] = None
            self._note(factor, variant.when, base, other)

    def _impossible(self, factor: Factor) -> str | None:
        """Why a circumstance cannot be changed for this command; None where it can."""
        if self._hooked or not factor.needs_python:
            return None
        if factor.key == "clock":
            return (
                None
                if self._runner.faketime is not None
                else "the command runs no Python; install faketime to change its clock"
            )
        return "the command runs no Python"

    def _note(self, factor: Factor, when: str, base: _Base, other: Rendered) -> None:
        """Take down what differs, once for each kind and line; the mildest change of a circumstance comes first and stays."""
        for leak in _leaks(factor, when, base, other, self._renderer, self._options.block_size, self._hooked):
            text = base.made.prompt.text
            line = -1 if text is None or leak.difference.a is None else text.count("\n", 0, leak.difference.a.start)
            self._leaks.setdefault(_Key(leak.factor.key, leak.kind.code, line), leak)


class _Key(NamedTuple):
    factor: str
    code: str
    line: int
    """Of the text of the prompt."""


def _merged(found: Mapping[_Key, FoundLeak]) -> list[FoundLeak]:
    """The leaks in the order of the prompt: of several places of one kind the first, with their number.

    What the time zone or the locale changes in a line that follows the clock anyway is left to the clock.
    """
    clock = {key.line for key in found if key.factor == "clock"}
    groups: dict[tuple[str, DifferenceKind, str], list[FoundLeak]] = {}
    for key, leak in found.items():
        if key.factor in ("time_zone", "locale") and key.line in clock:
            continue
        groups.setdefault((key.factor, leak.kind, leak.when), []).append(leak)
    firsts = [
        replace(min(group, key=lambda leak: leak.difference.token), places=len(group)) for group in groups.values()
    ]
    return sorted(firsts, key=lambda leak: (leak.difference.token, leak.factor.key, leak.kind.code))


def _leaks(
    factor: Factor, when: str, base: _Base, other: Rendered, renderer: Renderer, block_size: int, hooked: bool
) -> Iterator[FoundLeak]:
    """Find the differences from the base beyond its noise, line by line where both have the same lines."""
    a, b = base.made.prompt, other.prompt
    texts = texts_of(a, b)
    if texts is None:
        return
    lines = (line for region in texts.regions for line in texts.by_line(region))
    lines = (line for line in lines if not any(_touch(line.a, noise) for noise in base.noise))
    regions = list(islice(lines, _MOST_REGIONS))
    if not regions:
        return
    runs = align(a.ids, b.ids, newline=renderer.tokenizer.newline_mask)
    causes = pair_causes(base.made, other, renderer)
    names = (base.made.side.name, other.side.name)
    most = reusable(len(a), len(a), block_size).blocks
    for region in regions:
        start = texts.chunks(region)[0].a[0]
        first = difference_in(texts, region, a.token_at(start), block_size, names)
        first = replace(first, kind=_kind(factor, _judged(causes, texts, region) or first.kind, texts, region))
        own = factor
        if factor is RANDOMNESS and not hooked and first.kind.code == KV101.code:
            own = next(each for each in FACTORS if each.key == "clock")  # it was left running between the two runs
        yield FoundLeak(
            factor=own,
            when=when,
            difference=first,
            same_tokens=_behind(runs, first.token),
            lost_blocks=max(most - first.block, 0),
            places=1,
            fix=fix_of(own, first.kind, when),
        )


def _judged(causes: Sequence[PairCause], texts: DiffTexts, region: Region) -> DifferenceKind | None:
    """Return the kind of the cause in a region; of lines that are elsewhere in the other prompt, that of an order."""
    for each in causes:
        if each.touches(texts.b, *region.b) or each.touches(texts.a, *region.a):
            return each.kind
    orders = (each.kind for each in causes if varies(each.kind.code) == "order")
    moved = texts.plain[0][slice(*region.a)] in texts.plain[1] or texts.plain[1][slice(*region.b)] in texts.plain[0]
    return next(orders, None) if moved else None


def _kind(factor: Factor, kind: DifferenceKind, texts: DiffTexts, region: Region) -> DifferenceKind:
    """The kind of a difference whose circumstance is known: its own where that fits the circumstance, else the factor's."""
    if kind.code in factor.codes or varies(kind.code) == "order":
        return kind
    if factor.is_order and _same_words(texts.a[slice(*region.a)], texts.b[slice(*region.b)]):
        return _ORDER
    name = factor.what if kind in (OTHER, OPTIONAL) else kind.name
    return DifferenceKind(kind.key, name, factor.code)


def _same_words(a: str, b: str) -> bool:
    """Return whether two texts are made of the same words in another order, marks of punctuation aside."""
    bare = [sorted(word.strip("\"'`,;:.()[]{}<>*-") for word in str.split(text)) for text in (a, b)]
    return bare[0] == bare[1]


def _behind(runs: Sequence[EqualRun], token: int) -> int:
    """Count the tokens after `token` of the base that are the same in the other prompt."""
    return sum(
        max(run.a_start + run.length - max(run.a_start, token), 0) for run in runs if run.a_start + run.length > token
    )


def _message_parts(texts: DiffTexts) -> list[Range]:
    """The lines of the first text that differ."""
    return [line.a for region in texts.regions for line in texts.by_line(region)]


def _touch(one: Range, other: Range) -> bool:
    """Return whether two stretches overlap; an empty one also where it is at the other's edge."""
    if one[0] == one[1] or other[0] == other[1]:
        return one[0] <= other[1] and other[0] <= one[1]
    return one[0] < other[1] and other[0] < one[1]
