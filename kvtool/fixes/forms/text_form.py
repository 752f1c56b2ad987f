"""Text in one form where readers see none: white space, line ends, Unicode, look-alike letters, quotes (tier P1)."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kvtool.fixes.turn_texts import edited, lines_with_places, map_texts, texts_of
from kvtool.text.look_alike import FORMAT, JOINERS, KINDS_OF_SPACE, compatible_letters, in_one_script, signs_in_ascii
from kvtool.text.structure.masking import fenced_ranges
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

_MOST_ROUNDS = 8
_MOST_TEXTS = 512
_MOST_LINES = 20_000
_INVISIBLE = re.compile(f"[{FORMAT}]++|(?<![^\x00-\u024f])[{JOINERS}]++(?![^\x00-\u024f])")
"""Joiners only where no letters other than Latin ones, and no emoji, are beside them."""
_COMPOSED = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]++")
_INDENT = re.compile(r"[ \t]*+")
Edit = tuple[int, int, str]
"""Characters `[start, stop)`, and what to put there."""


def _each(pattern: str | re.Pattern[str], replacement: Callable[[re.Match[str]], str]) -> Callable[[str], list[Edit]]:
    compiled = re.compile(pattern)
    return lambda text: [(found.start(), found.end(), replacement(found)) for found in compiled.finditer(text)]


def _composed(text: str) -> list[Edit]:
    if unicodedata.is_normalized("NFC", text):
        return []
    return [(found.start(), found.end(), unicodedata.normalize("NFC", found[0])) for found in _COMPOSED.finditer(text)]


_EDITS: dict[str, Callable[[str], list[Edit]]] = {
    "bom": _each("(?m)^\ufeff", lambda _: ""),
    "line_endings": _each(r"\r\n?+", lambda _: "\n"),
    "final_newline": _each(r"(?<![\r\n])[\r\n]++\Z", lambda _: ""),
    "trailing_space": _each(r"(?<![ \t])[ \t]++(?=\r?(?:\n|\Z))", lambda _: ""),
    "unicode_form": _composed,
    "invisible": _each(_INVISIBLE, lambda _: ""),
    "compatible": compatible_letters,
    "look_alike": in_one_script,
    "signs": signs_in_ascii,
    "space_kind": _each(f"[{KINDS_OF_SPACE}]", lambda _: " "),
    "whitespace": _each(
        rf"(?<=[^\s])[ \t{KINDS_OF_SPACE}]{{2,}}+(?=\S)|\n{{3,}}+",
        lambda found: "\n\n" if found[0][0] == "\n" else " ",
    ),
    "tab": _each(r"\t", lambda _: " "),
}
_OWN = {"space_kind": ("space_kind", "tab"), "whitespace": ("whitespace", "tab")}
"""Kinds that are more than one step: a log may differ in one of these alone."""
COSMETIC_KINDS = tuple(kind for kind in _EDITS if kind != "tab")
"""The kinds of `kvtool.diagnose.invisible_differences`, the mildest first."""
IN_CODE = ("bom", "line_endings", "unicode_form")
"""Kinds that say nothing in fenced code either."""


@dataclass(frozen=True, slots=True)
class SingleForm:
    """Takes differences of these kinds, and nothing else, out of texts of these roles.

    What a template variable produced stays as it is, and but for line endings and Unicode forms fenced code does.
    """

    steps: tuple[str, ...]
    roles: Collection[str]
    indents: Mapping[str, str] = field(default_factory=dict)
    """White space to begin lines with, by what else is on them."""

    @classmethod
    def learn(cls, samples: Iterable[Turn], kind: str, roles: Collection[str]) -> SingleForm:
        """Return this kind, with the milder ones in which lines differ that differ in this one."""
        texts: Counter[str] = Counter()
        for turn in samples:
            for at in texts_of(turn):
                if at.role in roles and (at.text in texts or len(texts) < _MOST_TEXTS):
                    texts[str.__str__(at.text)] += 1
        own = _OWN.get(kind, (kind,))
        up_to = COSMETIC_KINDS[: COSMETIC_KINDS.index(kind)]
        milder = tuple(step for step in up_to if step != "final_newline")
        indents = _indents(texts) if kind == "whitespace" else {}
        groups = list(_alike(texts, (*milder, *own), own, indents))
        steps = _needed((*milder, *own), groups)
        if not indents and not any(step in own for step in steps):
            steps = (*steps, kind)
        if kind == "whitespace" and len({text[len(text.rstrip("\r\n")) :] for text in texts}) > 1:
            steps = (*steps, "final_newline")
        return cls(steps, roles, indents)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of difference that it takes out, the mildest first."""
        own = {"whitespace"} if self.indents else {"space_kind"} if "tab" in self.steps else set()
        return tuple(kind for kind in COSMETIC_KINDS if kind in own.union(self.steps))

    def __call__(self, turn: Turn) -> Turn:
        return map_texts(turn, self._settled, self.roles)

    def _settled(self, text: str) -> str:
        text = self._indented(text) if self.indents else text
        return _settled(text, self.steps)

    def _indented(self, text: str) -> str:
        plain = str.__str__(text)
        edits: list[Edit] = []
        for start, stop in lines_with_places(plain):
            want = self.indents.get(plain[start:stop].strip())
            found = _INDENT.match(plain, start, stop)
            if want is not None and found is not None and found[0] != want:
                edits.append((*found.span(), want))
        edits = outside(edits, list(_left_alone(text, code=True)))
        return edited(text, edits) if edits else text


def _indents(texts: Mapping[str, int]) -> dict[str, str]:
    """Return how most texts indent lines that they indent differently; a line that one text has twice, indented differently,
    stays.
    """
    found: dict[str, Counter[str]] = {}
    twice: set[str] = set()
    for text, times in texts.items():
        here: dict[str, str] = {}
        for line in text.split("\n"):
            said = line.strip()
            indent = line[: len(line) - len(line.lstrip(" \t"))]
            if here.setdefault(said, indent) != indent:
                twice.add(said)
        for said, indent in here.items():
            if said and (said in found or len(found) < _MOST_LINES):
                found.setdefault(said, Counter())[indent] += times
    return {
        said: min(counts, key=lambda each: (-counts[each], "\t" in each, each))
        for said, counts in found.items()
        if len(counts) > 1 and said not in twice
    }


def _alike(
    texts: Collection[str], steps: tuple[str, ...], own: tuple[str, ...], indents: Mapping[str, str]
) -> Iterator[list[str]]:
    """Yield lines that are equal after all of the steps and, without the own ones or how they are indented, are not."""
    count = Counter(line for text in texts for line in dict.fromkeys(text.split("\n")))
    groups: dict[str, list[str]] = {}
    varying = [line for line, number in count.items() if number < len(texts)]
    for line in varying[:_MOST_LINES]:
        body = line.lstrip(" \t") if line.strip() in indents else line
        groups.setdefault(_settled(body, steps), []).append(body)
    without = [step for step in steps if step not in own]
    for lines in groups.values():
        if len(set(lines)) > 1 and (indents or len({_settled(line, without) for line in lines}) > 1):
            yield lines


def _needed(steps: tuple[str, ...], groups: list[list[str]]) -> tuple[str, ...]:
    """Return the fewest and mildest of the steps that make the lines of each group equal."""
    if not groups:
        return ()
    for one in reversed(steps):
        fewer = tuple(step for step in steps if step != one)
        if all(len({_settled(line, fewer) for line in lines}) == 1 for lines in groups):
            steps = fewer
    return steps


def _settled(text: str, steps: Collection[str]) -> str:
    """Normalize until nothing changes: what one step leaves out may bring work for another."""
    for _ in range(_MOST_ROUNDS):
        before = text
        text = _normalized(text, steps)
        if text is before:
            break
    return text


def _normalized(text: str, steps: Collection[str]) -> str:
    for step in steps:
        plain = str.__str__(text)
        found = [edit for edit in _EDITS[step](plain) if plain[edit[0] : edit[1]] != edit[2]]
        if found and (found := outside(found, list(_left_alone(text, code=step not in IN_CODE)))):
            text = edited(text, found)
    return text


def outside(edits: list[Edit], ranges: list[tuple[int, int]]) -> list[Edit]:
    """Return the edits that touch none of the ranges; both are in order."""
    kept: list[Edit] = []
    at = 0
    for edit in edits:
        while at < len(ranges) and ranges[at][1] <= edit[0]:
            at += 1
        if at == len(ranges) or edit[1] <= ranges[at][0]:
            kept.append(edit)
    return kept


def _left_alone(text: str, *, code: bool) -> Iterator[tuple[int, int]]:
    """Yield the values of variables, and fenced code where that is asked for, in order and not overlapping."""
    ranges = fenced_ranges(text) if code else []
    at = 0
    for length, origin, _ in text.marks if isinstance(text, Traced) else ():
        if origin is not None and origin.variable is not None:
            ranges.append((at, at + length))
        at += length
    last = 0
    for start, stop in sorted(ranges):
        if stop > last:
            yield max(start, last), stop
            last = stop
