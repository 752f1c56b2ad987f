"""The result of edits: what became of each step, the files before and after, and the runs that prove them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvtool.fixes.edits.edits_yaml import quoted
from kvtool.fixes.fix import Tier
from kvtool.profiler.advice.kept_fixes import KeptFix
from kvtool.profiler.advice.trials import total_rate
from kvtool.profiler.optimize.disk_lines import Place
from kvtool.profiler.optimize.other_prompts import other_prompts
from kvtool.profiler.run.run_result import RunResult
from kvtool.results.documents.parts import PromptEdit
from kvtool.text.terminal.numbers import plural
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.yaml_source import YamlSource

_LEAST_LINE = 8
"""Characters of a line by which it is known again in another file."""
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Done:
    """A step and what came of it in the files: `reason` says why they were not edited; empty where they were.

    `before` and `rate` are hit rates of the step's group, without it and with it: measured on the edited files or, where those
    were not edited, on changed prompts.
    """

    step: KeptFix
    reason: str
    before: float
    rate: float
    place: Place = ("", 0, 0)
    """Where it is in the files on disk, before all edits; no line where an earlier edit wrote the line."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A file's text before and after; `path` is as the user knows it."""

    path: str
    before: str
    after: str


def edit_notes(workload: str, files: Sequence[Changed], edits: Iterable[PromptEdit]) -> list[str]:
    """Return what code outside of the files must do after the edits, so that no prompt loses a line and no copy is taken for its
    original.
    """
    notes: list[str] = []
    if moved := moved_into(workload, files):
        named = moved[0] if len(moved) == 1 else plural(len(moved), "file")
        must = f"Send them from your code where {workload} has them, or your prompts lose them."
        notes.append(f"Lines move from {named} into {workload}. {must}")
    if others := other_prompts(workload, [each.path for each in files]):
        shown = ", ".join(others[:_MOST_SHOWN]) + (
            f" and {len(others) - _MOST_SHOWN:,} more" * (len(others) > _MOST_SHOWN)
        )
        notes.append(
            f"These prompts include an edited file, but {workload} does not run them: {shown}. Check them too."
        )
    if copied := list(dict.fromkeys(edit.copied_from for edit in edits if edit.copied_from)):
        changes = f"Your service changes only when you edit {', '.join(copied)}."
        notes.append(f"{workload} contains copies. {changes}")
    return notes


def moved_into(workload: str, files: Sequence[Changed]) -> list[str]:
    """Return the files of which lines went into the workload: an application that fills these files has to send them, too."""
    into = next((each for each in files if each.path == workload), None)
    if into is None:
        return []
    added = "\n".join(line for line in into.after.split("\n") if line not in into.before.split("\n"))
    return [
        each.path
        for each in files
        if each is not into and any(form in added for line in _gone(each) for form in (line, quoted(line)[1:-1]))
    ]


def _gone(file: Changed) -> list[str]:
    """Return the lines and sentences that a file has no more, without the space around them; short ones are anywhere."""
    before, after = file.before.split("\n"), file.after.split("\n")
    left, known = {line.strip() for line in after}, {line.strip() for line in before}
    lost = [line.strip() for line in before if line.strip() not in left]
    kept = [line for line in left - known if line]  # of a line that lost its end or its beginning
    rests = [line.removeprefix(part).removesuffix(part).strip() for line in lost for part in kept]
    return [text for text in dict.fromkeys((*lost, *rests)) if len(text) >= _LEAST_LINE]


@dataclass(slots=True)
class Optimized:
    """The edits and their proof: the runs of the files as they are and as they would be, and the source of the latter."""

    before: RunResult
    after: RunResult
    source: YamlSource | LogSource
    done: list[Done] = field(default_factory=list)
    files: list[Changed] = field(default_factory=list)
    refused: Mapping[str, str] = field(default_factory=dict)
    """By the keys of fixes that no round made, why."""
    tried: frozenset[Tier] = frozenset()
    """The tiers of all fixes that were tried on the way."""
    later: frozenset[str] = frozenset()
    """Keys of fixes that edits may make once those of this plan are in the files, or where more tiers are allowed."""

    @property
    def rates(self) -> tuple[float, float]:
        """Return hit rates of all groups together, before and after."""
        return total_rate(self.before), total_rate(self.after)

    @property
    def edited(self) -> list[Done]:
        """Return the steps that were carried out in files."""
        return [each for each in self.done if not each.reason]

    @property
    def count(self) -> int:
        """Count the steps that the edited files contain."""
        return sum(not each.reason for each in self.final_steps)

    @property
    def final_steps(self) -> list[Done]:
        """Return the steps; moves of a line that follow each other in a group are one, to its last place."""
        found: list[Done] = []
        for each in self.done:
            group = each.step.cause.group
            at = next((at for at in reversed(range(len(found))) if found[at].step.cause.group == group), None)
            earlier = each if at is None else found[at]
            if at is None or not (_moves(each) and _moves(earlier) and each.place == earlier.place):
                found.append(each)
                continue
            step = replace(each.step, before=earlier.step.before)
            found[at] = replace(each, before=earlier.before, step=step)
        return found


def _moves(done: Done) -> bool:
    return not done.reason and done.step.fix.kind.startswith("move") and done.place[1] > 0
