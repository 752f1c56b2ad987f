"""How good kvtool's diagnoses and fixes are, on workloads whose causes were planted (see `planted.py`).

    python benchmarks/advisor.py --scenarios 200 --seed 1000
    python benchmarks/advisor.py --scenarios 40 --seed 1000 --kind all --verbose

`--kind` takes the cases of `scenarios/` instead: values inside of structure, scripts, repeated values, forms, hidden causes, and
traps, judged by cause, place and fix together, with the units that a fix tears (`scenarios/judge.py`). The rest is about slots.

Each scenario is written as a chat log and profiled like any other. The table compares kvtool with what simpler tools do on the same
logs: patterns only (every match of a detector in the first prompt is a finding), the first divergence only (of each request and the
one before it), and a stable-first sort of the segments; and with the package promptcachelint where it is installed.

Spans: a finding is right where its value covers a planted one with an IoU of at least 0.5 in characters. Gain captured: (after -
before) / (oracle - before), where the oracle is the best order of the segments (exact, by dynamic programming) in its canonical
form. Predicted: the rate that the alignment promised, against that of the rerun. Harm: held-out traffic of the same templates on
which the fixes lower the hit rate. Warned: fixes that move text away from "stated above", or examples, and say so. Only figures
of seeds that were not looked at while developing count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import peer_promptcachelint
from advisor_bench import LEAST_GAIN, Bench, plan_of
from advisor_bench import bench as shared_bench
from planted import PlantedSlot, Scenario, scenario
from scenarios import table
from scenarios.kinds import KINDS

from kvtool.accounting.plan import Plan
from kvtool.diagnose.values.classify import DETECTORS, classify_in
from kvtool.fixes.fix import Fix
from kvtool.results.finding import Finding

IOU = 0.5

Span = tuple[str, int, int]
"""A line of a prompt and the range of a value in it."""


@dataclass(slots=True)
class Marks:
    """What one tool said about one scenario, against the truth."""

    spans_right: int = 0
    spans_told: int = 0
    slots_found: int = 0
    slots: int = 0
    codes_right: Counter[str] = field(default_factory=Counter)
    codes_told: Counter[str] = field(default_factory=Counter)
    codes_true: Counter[str] = field(default_factory=Counter)
    traps: int = 0
    traps_flagged: int = 0
    gains: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    held_out: int = 0
    harmed: int = 0
    risky: int = 0
    warned: int = 0

    def add(self, other: Marks) -> None:
        for name in (
            "spans_right",
            "spans_told",
            "slots_found",
            "slots",
            "traps",
            "traps_flagged",
            "held_out",
            "harmed",
            "risky",
            "warned",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("codes_right", "codes_told", "codes_true", "gains", "errors"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def macro_f1(self) -> float:
        """The mean over the codes that were planted."""
        scores = []
        for code, true in self.codes_true.items():
            right = self.codes_right[code]
            precision = right / self.codes_told[code] if self.codes_told[code] else 0.0
            recall = right / true
            scores.append(2 * precision * recall / (precision + recall) if right else 0.0)
        return statistics.fmean(scores) if scores else 0.0


def _plan(bench: Bench, case: Scenario, log: Path) -> Plan:
    """The scenario's block size and, where it has one, a capacity: a share of what an unlimited cache would fill."""
    plan = plan_of(case.block_size)
    if case.capacity_share is None:
        return plan
    filled = bench.account(plan, log).filled_blocks
    longest = 4096 // case.block_size
    return plan_of(case.block_size, max(round(filled * case.capacity_share), longest) + 1)


def evaluate(seed: int) -> dict[str, Marks]:
    """All tools on the scenario of a seed."""
    bench = shared_bench()
    case = scenario(seed)
    with tempfile.TemporaryDirectory() as folder:
        log, held_out = Path(folder) / "log.jsonl", Path(folder) / "held_out.jsonl"
        case.write(log)
        case.write(held_out, first=case.requests)
        plan = _plan(bench, case, log)
        before = bench.rate(plan, log)
        oracle = before
        for variant in _oracles(bench, case):
            variant_log = Path(folder) / "oracle.jsonl"
            variant_log.write_text("".join(json.dumps(row) + "\n" for row in variant), encoding="utf-8")
            oracle = max(oracle, bench.rate(plan, variant_log))
        truth = _causes(bench, case, plan, Path(folder))
        found = {"kvtool": _kvtool(bench, case, truth, plan, log, held_out, before, oracle)}
        for name, told in _peers(case):
            found[name] = _told(case, truth, told)
        naive = Path(folder) / "naive.jsonl"
        naive.write_text("".join(json.dumps(row) + "\n" for row in _stable_first(case)), encoding="utf-8")
        sort = Marks()
        _note_gain(sort, before, bench.rate(plan, naive), oracle)
        found["stable-first sort"] = sort
        return found


def _causes(bench: Bench, case: Scenario, plan: Plan, folder: Path) -> frozenset[int]:
    """What was planted and costs hits: with everything else held steady, steadying it, too, wins a point or more."""
    log = folder / "steady.jsonl"

    def rate(steady: Sequence[int]) -> float:
        rows = (json.dumps(case.record(number, steady)) for number in range(case.requests))
        log.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        return bench.rate(plan, log)

    if not case.planted:
        return frozenset()
    best = rate(case.planted)
    return frozenset(
        planted
        for planted in case.planted
        if best - rate([other for other in case.planted if other != planted]) >= LEAST_GAIN
    )


def _kvtool(
    bench: Bench,
    case: Scenario,
    truth: frozenset[int],
    plan: Plan,
    log: Path,
    held_out: Path,
    before: float,
    oracle: float,
) -> Marks:
    profiler = bench.profiler(plan, log)
    profile = profiler.run()
    told = [finding for finding in profile.findings if not finding.code.startswith(("KV3", "KV203", "KV204"))]
    marks = _told(case, truth, [(finding.code, _span(finding)) for finding in told])
    advice = profiler.advice
    fixes = advice.fixes if advice is not None else []
    after = bench.rate(plan, log, fixes)
    _note_gain(marks, before, after, oracle)
    if advice is not None:
        marks.errors += [abs(steps[-1].predicted - steps[-1].after) for steps in advice.kept.values() if steps]
    _note_warnings(marks, case, fixes)
    if fixes:
        marks.held_out += 1
        marks.harmed += bench.rate(plan, held_out, fixes) < bench.rate(plan, held_out) - 1e-9
    return marks


def _note_warnings(marks: Marks, case: Scenario, fixes: Sequence[Fix]) -> None:
    """Fixes that a person has to look at: examples in another order, and text moved away from what refers to it."""
    for fix in fixes:
        risky = fix.code == "KV114" or (fix.key.startswith("move") and _refers_above(case, fix))
        marks.risky += risky
        marks.warned += risky and bool(fix.warnings)


def _refers_above(case: Scenario, fix: Fix) -> bool:
    """Whether the fix moves a slot over the sentence that says "stated above"."""
    if "stated_above" not in case.traps or fix.cause is None:
        return False
    slot = _slot_of(case, (fix.cause.excerpt, fix.cause.value_start, fix.cause.value_stop))
    trap = next(at for at, part in enumerate(case.passages) if isinstance(part, str) and "stated above" in part)
    return slot is not None and slot < trap


def _span(finding: Finding) -> Span | None:
    return None if finding.snippet is None else (finding.snippet.text, finding.snippet.start, finding.snippet.stop)


def _note_gain(marks: Marks, before: float, after: float, oracle: float) -> None:
    if oracle >= before + LEAST_GAIN:
        marks.gains.append(min((after - before) / (oracle - before), 1.0))


def _told(case: Scenario, truth: frozenset[int], told: Sequence[tuple[str, Span | None]]) -> Marks:
    """Compare what a tool said with what was planted; to name something planted that costs nothing is neither right nor wrong."""
    marks = Marks(traps=len(case.traps))
    slots = {index for index in truth if index >= 0 and isinstance(case.passages[index], PlantedSlot)}
    forms = {case.code_of(index) for index in case.planted if index not in _slots_of(case)}
    true_forms = {case.code_of(index) for index in truth - slots}
    marks.slots = len(slots)
    marks.codes_true.update(case.code_of(index) for index in truth)
    found: set[int] = set()
    for code, span in told:
        index = _slot_of(case, span)
        if index is not None and index not in slots:
            continue
        if index is None and code in forms and code not in true_forms:
            continue
        marks.codes_told[code] += 1
        if index is not None:
            marks.spans_told += 1
            marks.spans_right += 1
            if index not in found:
                found.add(index)
                marks.codes_right[code] += case.code_of(index) == code
        elif code in true_forms:
            true_forms.discard(code)
            marks.codes_right[code] += 1
        else:
            marks.spans_told += 1
            marks.traps_flagged += _is_trap(case, span)
    marks.slots_found = len(found)
    return marks


def _slots_of(case: Scenario) -> dict[int, PlantedSlot]:
    return {index: part for index, part in enumerate(case.passages) if isinstance(part, PlantedSlot)}


def _slot_of(case: Scenario, span: Span | None) -> int | None:
    """The passage of the planted slot that a span covers."""
    if span is None:
        return None
    line, start, stop = span
    for index, slot in _slots_of(case).items():
        if slot.before not in line or not line.endswith(slot.after):
            continue
        true_start, true_stop = line.index(slot.before) + len(slot.before), len(line) - len(slot.after)
        overlap = min(stop, true_stop) - max(start, true_start)
        union = max(stop, true_stop) - min(start, true_start)
        if union and overlap / union >= IOU:
            return index
    return None


def _is_trap(case: Scenario, span: Span | None) -> bool:
    if span is None:
        return False
    lines = {line for part in case.passages if isinstance(part, str) for line in part.split("\n")}
    return span[0] in lines


def _peers(case: Scenario) -> Iterator[tuple[str, list[tuple[str, Span | None]]]]:
    """What simpler tools would say."""
    first = "\n".join(case.parts(0))
    yield "patterns only", [(code, span) for code, span in _matches(first)]
    yield "first divergence only", _first_divergences(case)
    if peer_promptcachelint.installed():
        yield "promptcachelint", peer_promptcachelint.findings(case)


def _matches(text: str) -> Iterator[tuple[str, Span]]:
    for line in text.split("\n"):
        taken: list[tuple[int, int]] = []
        for kind, pattern in DETECTORS:
            for match in pattern.finditer(line):
                if not any(match.start() < stop and start < match.end() for start, stop in taken):
                    taken.append(match.span())
                    yield kind.code, (line, *match.span())


def _first_divergences(case: Scenario) -> list[tuple[str, Span | None]]:
    """The most usual first difference of a request and the one before it, named by the detectors."""
    seen: Counter[tuple[str, str]] = Counter()
    example: dict[tuple[str, str], Span] = {}
    before = "\n".join(case.parts(0))
    for number in range(1, case.requests):
        text = "\n".join(case.parts(number))
        at = next((index for index, (a, b) in enumerate(zip(before, text, strict=False)) if a != b), None)
        if at is not None:
            kind, start, stop = classify_in(text, at, at)
            low = text.rfind("\n", 0, at) + 1
            line = text[low:].split("\n", 1)[0]
            key = kind.code, line[: max(start - low, 0)]
            seen[key] += 1
            example.setdefault(key, (line, start - low, stop - low))
        before = text
    return [(key[0], example[key]) for key, _ in seen.most_common(1)]


def _canonical(case: Scenario, number: int) -> dict[str, Any]:
    """Request `number` with every planted form undone."""
    body = case.record(number)
    if case.tools:
        body["tools"] = json.loads(
            json.dumps(sorted(body["tools"], key=lambda tool: tool["function"]["name"]), sort_keys=True)
        )
    return body


def _units(case: Scenario, number: int) -> list[str]:
    """The passages of a request in canonical form, an empty one where an optional passage is left out."""
    session = case.session_of(number)
    shown = []
    for part in case.passages:
        if isinstance(part, str):
            shown.append(part)
        elif isinstance(part, PlantedSlot):
            shown.append(part.line(number, session))
        elif part[0].name == "optional":
            shown.append(part[1][0] if part[1][0] in case.parts(number) else "")
        elif part[0].name == "documents":
            shown.append("\n".join(f"<document>\n{item}\n</document>" for item in part[1]))
        elif part[0].name == "examples":
            shown.append("\n\n".join(part[1]))
        else:
            shown.append(part[1][0])
    return shown


def _oracles(bench: Bench, case: Scenario) -> Iterator[list[dict[str, Any]]]:
    """The requests with their segments in the best order and, to be sure that it is a bound, in the order they came in, and with
    what varies behind the question."""
    rows = [_units(case, number) for number in range(case.requests)]
    order = best_order(rows, bench.tokens)
    slots = _slots_of(case)
    yield [
        _asked_before(
            _with_system(
                _canonical(case, number), "\n".join(text for at, text in enumerate(row) if text and at not in slots)
            ),
            [row[at] for at in slots],
        )
        for number, row in enumerate(rows)
    ]
    for chosen in (order, list(range(len(order)))):
        yield [
            _with_system(_canonical(case, number), "\n".join(row[index] for index in chosen if row[index]))
            for number, row in enumerate(rows)
        ]


def _with_system(body: dict[str, Any], system: str) -> dict[str, Any]:
    body["messages"][0]["content"] = system
    return body


def _asked_before(body: dict[str, Any], lines: list[str]) -> dict[str, Any]:
    body["messages"][-1]["content"] = "\n".join([body["messages"][-1]["content"], *lines])
    return body


def best_order(rows: Sequence[Sequence[str]], tokens: Callable[[str], int]) -> list[int]:
    """The order of segments with the smallest trie, by dynamic programming over subsets (written apart from kvtool's own)."""
    count = len(rows[0])
    length = {text: tokens(text) for row in rows for text in row}
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    for subset in range(1, 1 << count):
        members = [index for index in range(count) if subset >> index & 1]
        tuples = {tuple(row[index] for index in members): row for row in rows}
        choices = []
        for last in members:
            cost, order = best[subset & ~(1 << last)]
            choices.append((cost + sum(length[row[last]] for row in tuples.values()), [*order, last]))
        best[subset] = min(choices)
    return best[(1 << count) - 1][1]


def _stable_first(case: Scenario) -> list[dict[str, Any]]:
    """Segments sorted by how many values they take, nothing canonicalized: the naive rule."""
    raw = [_raw_units(case, number) for number in range(case.requests)]
    distinct = [len({row[index] for row in raw}) for index in range(len(raw[0]))]
    order = sorted(range(len(distinct)), key=lambda index: distinct[index])
    return [
        _with_system(case.record(number), "\n".join(row[index] for index in order if row[index]))
        for number, row in enumerate(raw)
    ]


def _raw_units(case: Scenario, number: int) -> list[str]:
    shown = list(case.parts(number))
    units = []
    for part, canonical in zip(case.passages, _units(case, number), strict=True):
        missing = not isinstance(part, str | PlantedSlot) and part[0].name == "optional" and not canonical
        units.append("" if missing else shown.pop(0))
    return units


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first scenario")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--kind",
        choices=("slots", *KINDS, "all"),
        nargs="+",
        default=["slots"],
        help="kinds of scenarios; all: those beside slots",
    )
    parser.add_argument("--verbose", action="store_true", help="what kvtool got wrong, scenario by scenario")
    arguments = parser.parse_args()
    started = time.perf_counter()
    seeds = range(arguments.seed, arguments.seed + arguments.scenarios)
    if arguments.kind != ["slots"]:
        kinds = list(KINDS) if "all" in arguments.kind else arguments.kind
        found = table.run(kinds, seeds, arguments.processes, verbose=arguments.verbose)
        table.show(found)
        print(f"{len(seeds)} cases of each kind in {time.perf_counter() - started:.0f} s")
        if arguments.json is not None:
            told = {tool: {kind: table.figures(cases) for kind, cases in by.items()} for tool, by in found.items()}
            arguments.json.write_text(json.dumps(told, indent=2) + "\n")
        return
    sums: dict[str, Marks] = {}
    with ProcessPoolExecutor(arguments.processes) as pool:
        for seed, found in zip(seeds, pool.map(evaluate, seeds), strict=True):
            for name, marks in found.items():
                sums.setdefault(name, Marks()).add(marks)
            if arguments.verbose:
                _explain(seed, found["kvtool"])
    _print(sums, arguments.scenarios, time.perf_counter() - started)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({name: _figures(marks) for name, marks in sums.items()}, indent=2) + "\n")


def _explain(seed: int, marks: Marks) -> None:
    wrong = marks.codes_true != marks.codes_right or marks.spans_right < marks.spans_told or marks.harmed
    gain = marks.gains[0] if marks.gains else 1.0
    if wrong or gain < 0.9 or any(error > 0.01 for error in marks.errors):
        true, told = dict(marks.codes_true), dict(marks.codes_told)
        errors = ", ".join(f"{error:.3f}" for error in marks.errors)
        print(
            f"{scenario(seed).name}: true {true}, told {told}, gain {gain:.2f}, off by [{errors}], harmed {marks.harmed}"
        )


def _figures(marks: Marks) -> dict[str, float | None]:
    return {
        "span_precision": _ratio(marks.spans_right, marks.spans_told),
        "span_recall": _ratio(marks.slots_found, marks.slots),
        "cause_macro_f1": marks.macro_f1 if marks.codes_told else None,
        "traps_flagged": _ratio(marks.traps_flagged, marks.traps),
        "gain_captured": statistics.fmean(marks.gains) if marks.gains else None,
        "predicted_off": statistics.fmean(marks.errors) if marks.errors else None,
        "predicted_off_most": max(marks.errors, default=None),
        "harm": _ratio(marks.harmed, marks.held_out),
        "warned": _ratio(marks.warned, marks.risky),
    }


def _ratio(part: int, of: int) -> float | None:
    return part / of if of else None


def _print(sums: dict[str, Marks], scenarios: int, seconds: float) -> None:
    heads = ["", "span P", "span R", "cause F1", "traps", "gain", "pred. off", "most", "harm", "warned"]
    show = partial(_shown, width=9)
    print("".join(f"{head:>9}" if head else f"{head:<24}" for head in heads))
    for name, marks in sums.items():
        print(f"{name:<24}" + "".join(show(value) for value in _figures(marks).values()))
    print(f"{scenarios} scenarios in {seconds:.0f} s")


def _shown(value: float | None, *, width: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:>{width}.3f}"


if __name__ == "__main__":
    main()
