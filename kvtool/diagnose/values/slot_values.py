"""The values of a slot, and the kind that follows from all of them together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import KV201, NUMBER, OTHER
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import REQUEST_ID
from kvtool.diagnose.codes.values.kv104 import USER
from kvtool.diagnose.codes.values.kv105 import COUNTER, KV105
from kvtool.diagnose.codes.values.kv106 import ENVIRONMENT, FILE
from kvtool.diagnose.codes.values.kv107 import FLAG, OPTIONAL
from kvtool.diagnose.compare.units import common_prefix
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.diagnose.values.classify import classify
from kvtool.diagnose.values.labels import kind_by_label, kind_of_label, kind_of_variable, label_before
from kvtool.diagnose.values.value_shapes import shape_of
from kvtool.diagnose.values.variable_names import names_only_time
from kvtool.diagnose.word_lists import word_pattern

_pattern = partial(word_pattern, __file__)
"""Return a pattern of the TOML file beside this module."""

_ENDS = "/?&=#;,:@."
"""What parts a URL."""
_NAME = re.compile(r"(?:[?&#;]|\A|/)([A-Za-z][\w.-]{0,40})[=/]\Z")
VERSION = DifferenceKind("version", "version", KV105.code)
MOST_VALUES = 100_000
MOST_EXAMPLES = 32
MOST_CHARACTERS = 256
_MOST_STEPS = 64
_MOST_SESSIONS = 4096
_INTEGER = re.compile(r"(?<![\d.,])-?(?:\d{1,3}(?:[,.\u2019]\d{3}){1,4}|\d{1,15})(?![\d.]|,\d)")
_DOTTED = re.compile(r"(?:19|20)\d\d\.\d{1,2}\.\d{1,2}(?![\d.])")
_VERSIONED = re.compile(r"(?i:(?:^|[\W_])(?:version|ver|build|release|revision|rev|tag|v)(?:$|[\W_]))")
_LEFT_OPEN = ("number", "ip")
"""Forms that do not say whose a value is."""
_AT = re.compile(r"(?i:(?:^|[\W_])(?:at|since|until|epoch|unix|stamp|iat|exp|nbf|seen)$)")
_PLACE = re.compile(r"[^\W\d_a-z][^\W\d_]+(?:[ '\u2019-][^\W\d_]+){0,4}")
_LETTERED = re.compile(r"(?:^|[^A-Za-z0-9-])[A-Z]{2,10}[-_#]$")
"""The letters that numbers of one register begin with: `HELP-48058`."""
_COUNT = re.compile(r"\s*\d{1,3}\s*\W?")
_GROUPED = re.compile(r"[,.\u2019]")

_FLAG_WORDS = frozenset(
    (
        *("on", "off", "true", "false", "yes", "no", "enabled", "disabled", "active", "inactive", "none"),
        *("control", "treatment", "a", "b", "variant_a", "variant_b"),
    )
)
_SWITCHES = re.compile(
    r"(?:[\s\"'{},;|\[\]()]*+(?:[\w.-]{1,64}+[\"']?\s?[:=]\s?[\"']?)?+(?i:true|false|on|off|yes|no|enabled|disabled)\b)++[\s\"'{},;|\[\]().]*+"
)
"""One switch or several, each after its name but the first: `true, "beta": false`."""
_EXACT_TIME = ("timestamp", "unix")
_ANY_ID = REQUEST_ID.code


def _are_switches(value: str) -> bool:
    """Return whether a value is the word of a switch, or the words of several."""
    return value.strip().lower() in _FLAG_WORDS or _SWITCHES.fullmatch(value) is not None


class Resolved(NamedTuple):
    """A kind, and how sure it is: 0 (a guess) to 1 (proven)."""

    kind: DifferenceKind
    confidence: float


@dataclass(slots=True)
class Series:
    """The differences between integers, each and the one before it."""

    last: int | None = None
    steps: Counter[int] = field(default_factory=Counter)
    rises: int = 0
    falls: int = 0
    count: int = 0

    def add(self, number: int) -> None:
        if self.last is not None:
            self.step(number - self.last)
        self.last = number

    def step(self, step: int) -> None:
        """Count one difference."""
        self.count += 1
        self.rises += step > 0
        self.falls += step < 0
        if step in self.steps or len(self.steps) < _MOST_STEPS:
            self.steps[step] += 1

    def regular(self) -> float:
        """Return the share of the most usual step that is not zero; 0 where there were fewer than two differences."""
        steps = [count for step, count in self.steps.items() if step]
        return max(steps) / self.count if steps and self.count > 1 else 0.0

    def single_form(self) -> bool:
        """Return whether the numbers only rise, or only fall, as what is left of a budget does."""
        return self.count >= THRESHOLDS.rises and self.count in (self.rises, self.falls)


@dataclass(slots=True)
class SlotValues:
    """Counts of a slot's values, in bounded memory: hashes of them, some examples, and what follows what."""

    seen: int = 0
    absent: int = 0
    """How often the value was on one side only."""
    missing: int = 0
    """How often only the prompt that was compared with had a value."""
    distinct: set[int] = field(default_factory=set)
    examples: list[str] = field(default_factory=list)
    """The first 32 values, at most 256 characters of each."""
    kinds: Counter[DifferenceKind] = field(default_factory=Counter)
    """What detectors made of each value that was new."""
    labels: Counter[str] = field(default_factory=Counter)
    """Words before the value that may be its name."""
    in_order: Series = field(default_factory=Series)
    in_session: Series = field(default_factory=Series)
    sessions: dict[int, int] = field(default_factory=dict)
    """The first value of each session, both hashed."""
    mixed: set[int] = field(default_factory=set)
    """Sessions that had more than one value."""
    _numbers: dict[int, int] = field(default_factory=dict)
    _donors: set[int] = field(default_factory=set)
    """Values of earlier prompts, which nothing but their number is told by."""

    @property
    def taken(self) -> int:
        """Return how many values were seen in any prompt, also in one that was only compared with."""
        return len(self.distinct | self._donors)

    def add_donors(self, value: str | None) -> None:
        """Count the value of the prompt that was compared with: of a group's first prompt, nothing else counts it."""
        if value is not None and (key := hash(value)) not in self.distinct and len(self._donors) < MOST_VALUES:
            self._donors.add(key)

    def add(
        self,
        value: str,
        kind: DifferenceKind,
        label: str,
        session: str | None,
        *,
        absent: bool,
        other: str | None = None,
    ) -> None:
        """Enter one value, which a gap of a request of this session holds; empty where only the other side has it.

        `other` is what the other side has, where it counts as a value of the slot, too.
        """
        self.seen += 1
        self.absent += absent
        self.missing += absent and not value
        self._enter(value, kind)
        if other is not None:
            self._enter(other, kind)
        key = hash(value)
        if label and (label in self.labels or len(self.labels) < MOST_EXAMPLES):
            self.labels[label] += 1
        of = None if session is None else hash(session)
        self._count_session(of, key)
        if (found := _INTEGER.search(value[:MOST_CHARACTERS])) is not None:
            number = int(_GROUPED.sub("", found[0]))
            self.in_order.add(number)
            if of is not None:
                if of in self._numbers:
                    self.in_session.step(number - self._numbers[of])
                if of in self._numbers or len(self._numbers) < _MOST_SESSIONS:
                    self._numbers[of] = number

    def _enter(self, value: str, kind: DifferenceKind) -> None:
        key = hash(value)
        if key in self.distinct or len(self.distinct) >= MOST_VALUES:
            return
        self.distinct.add(key)
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(value[:MOST_CHARACTERS])
        if value:
            self.kinds[kind] += 1

    def _count_session(self, of: int | None, key: int) -> None:
        if of is None:
            return
        if of in self.sessions:
            if self.sessions[of] != key:
                self.mixed.add(of)
        elif len(self.sessions) < _MOST_SESSIONS:
            self.sessions[of] = key

    def resolve(self, variable: str | None, *, constant_within: bool, before: str = "") -> Resolved:
        """Return the kind of the slot's values; `before` is what is before all of them on their line.

        The first that applies: an exact time; the name of the variable or of the label before the value; a section that is there
        or not; what detectors make of nearly all distinct values, else a shape that nearly all of them have, else what detectors
        make of most; integers in even steps; words of a switch; few values, each session with one (`constant_within` says that
        sessions were seen to keep theirs). The confidence is the share of the values that
        say so, times n/(n+1) for n distinct values; 0.9 of that where the name alone says it.
        """
        count = max(sum(self.kinds.values()), 1)
        sure = count / (count + 1)
        kind, covered = self._detected()
        share = covered / count
        words = self._words(before) if variable is None else variable
        said = None if words is None else kind_of_label(words) or (TIME if _AT.search(words) else None)
        if self._is_dotted(kind) and _VERSIONED.search(words or ""):
            return Resolved(VERSION, 0.9 * sure)
        if kind.key == "unix" and (other := self._no_time(said)) is not None:
            return Resolved(other, 0.9 * sure)
        if kind.code in (ENVIRONMENT.code, OTHER.code) and kind is not FILE and self._are_towns(words):
            return Resolved(USER, 0.9 * sure)
        if kind.code == ENVIRONMENT.code and kind is not FILE and self._are_sentences(words):
            return Resolved(OTHER, 0.9 * sure)
        detected = Resolved(kind, share * sure)
        if kind is not OTHER and share >= THRESHOLDS.majority and kind.key.startswith(_EXACT_TIME):
            return detected
        named = kind_of_variable(variable) if variable is not None else self._named(words, kind)
        if variable is None and named is not None and named.code == TIME.code and self._are_counts(words):
            named = None
        if named is not None:
            same = kind if kind.code == named.code and share >= THRESHOLDS.majority and kind.key != "number" else named
            return Resolved(same, 0.9 * sure if same is named else max(share, 0.9) * sure)
        texts = len(self.distinct) - (hash("") in self.distinct)
        listed = (
            variable is None and kind.code == ENVIRONMENT.code and share >= THRESHOLDS.majority
        )  # a file is no section
        if (
            not listed
            and (self.seen > 1 or variable is not None)
            and self.absent >= THRESHOLDS.often_absent * self.seen
            and texts <= 1
        ):
            return Resolved(OPTIONAL, min(self.absent / self.seen + 0.5, 1.0) * sure)
        shape = (
            shape_of([value for value in self.examples if value])
            if share < THRESHOLDS.explained or kind is OTHER
            else None
        )
        if shape is not None:
            return Resolved(shape[0], shape[1] * sure)
        if kind.key == "url" and (inside := kind_in_urls(self.examples)) is not None:
            return Resolved(inside, 0.9 * share * sure)
        if kind is not OTHER and kind.key != "number" and share >= THRESHOLDS.majority:
            return detected
        numeric = share if kind.key == "number" else 0.0
        if numeric >= THRESHOLDS.majority and self._are_records(words or "", before):
            return Resolved(REQUEST_ID, 0.7 * sure)
        return self._by_course(numeric, sure, texts, constant_within=constant_within)

    def _by_course(self, numeric: float, sure: float, texts: int, *, constant_within: bool) -> Resolved:
        """Return the kind by how the values follow each other, where their form says nothing; `numeric` is the share of numbers."""
        even = max(self.in_order.regular(), self.in_session.regular())
        if numeric >= THRESHOLDS.majority and even >= THRESHOLDS.even_steps:
            return Resolved(COUNTER, even * sure)
        if numeric >= THRESHOLDS.majority and (self.in_order.single_form() or self.in_session.single_form()):
            return Resolved(COUNTER, 0.7 * sure)
        if self.examples and all(map(_are_switches, filter(None, self.examples))):
            return Resolved(FLAG, 0.8 * sure)
        sessions = len(self.sessions)
        if constant_within and 2 <= texts <= sessions / 2 and len(self.mixed) <= sessions / 10:
            return Resolved(USER, 0.6 * sure)
        if numeric >= THRESHOLDS.majority:
            return Resolved(NUMBER, numeric * sure)
        return Resolved(OTHER, sure)

    def _detected(self) -> tuple[DifferenceKind, int]:
        """Return the kind that detectors found most, and for how many values it or one of the same code was found."""
        codes: Counter[str] = Counter()
        for kind, number in self.kinds.items():
            codes["" if kind.key == "number" else kind.code] += number  # a number is no counter yet
        if not codes:
            return OTHER, 0
        code, covered = max(codes.items(), key=lambda item: (item[1], item[0]))
        of_code = [
            (number, kind)
            for kind, number in self.kinds.items()
            if (kind.key == "number") == (code == "") and code in ("", kind.code)
        ]
        return max(of_code, key=lambda item: (item[0], item[1].key))[1], covered

    def _words(self, before: str) -> str | None:
        """Return the words before most values, else those that stand `before` all of them up to a colon and the like."""
        label, times = max(self.labels.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        return (
            label if times and times >= THRESHOLDS.majority * self.seen else label_before(before, len(before)) or None
        )

    def _are_records(self, words: str, before: str) -> bool:
        """Return whether numbers without an order, hardly any of them twice, are after the name of what is numbered, or its
        letters.
        """
        even = (
            max(self.in_order.regular(), self.in_session.regular()) >= THRESHOLDS.even_steps
            or self.in_order.single_form()
        )
        return (
            not even
            and len(self.distinct) >= THRESHOLDS.distinct * self.seen
            and (_pattern("record").search(words) is not None or _LETTERED.search(before) is not None)
        )

    def _is_dotted(self, kind: DifferenceKind) -> bool:
        """Return whether what was taken for dates may be versions that begin with a year (`2026.3.7`)."""
        return kind.key == "date" and all(_DOTTED.match(example) for example in self.examples if example)

    def _no_time(self, said: DifferenceKind | None) -> DifferenceKind | None:
        """Return what numbers of the size of Unix times are, where something else is said of them, or where they come in one
        step.
        """
        if said is not None:
            return None if said.code == TIME.code else said
        constant = len(self.in_order.steps) == 1 and self.in_order.regular() == 1.0
        return COUNTER if constant and self.in_order.count >= THRESHOLDS.rises else None

    def _are_towns(self, words: str | None) -> bool:
        """Return whether values that are called branches are those of a bank, say: plain words that begin with a capital."""
        texts = [example for example in self.examples if example]
        return words is not None and "branch" in words.casefold() and bool(texts) and all(map(_PLACE.fullmatch, texts))

    def _are_sentences(self, words: str | None) -> bool:
        """Return whether values that are called branches are text that goes on: names of branches have no blanks."""
        texts = [example for example in self.examples if example]
        spaced = sum(" " in text.strip() for text in texts)
        return "branch" in (words or "branch").casefold() and spaced > len(texts) / 2

    def _are_counts(self, words: str | None) -> bool:
        """Return whether all values are numbers of up to three digits after words of more than time.

        `seats left right now: 57` tells how many, `current hour: 9` tells a time.
        """
        if words is None or names_only_time(words):
            return False
        return bool(self.examples) and all(map(_COUNT.fullmatch, filter(None, self.examples)))

    @staticmethod
    def _named(words: str | None, detected: DifferenceKind) -> DifferenceKind | None:
        """Return what the words before the values say, where the form of these leaves open what they are."""
        if words is None or not (detected is OTHER or detected.key in _LEFT_OPEN or detected.code == _ANY_ID):
            return None
        return kind_of_label(words) or kind_by_label(words)


def kind_in_urls(urls: Sequence[str]) -> DifferenceKind | None:
    """Return the kind of the one part in which URLs differ: by the parameter or the folder before it, else by its form; None where
    neither says it, or they are of several hosts."""
    texts = [url for url in urls if url]
    if len(texts) < 2:
        return None
    low, high = min(texts), max(texts)
    begin = low[: common_prefix(low, high)]
    begin = begin[: max(begin.rfind(end) for end in _ENDS) + 1]
    if "://" not in begin or "/" not in begin.partition("://")[2]:
        return None
    rests = [text[len(begin) :] for text in texts]
    low, high = (pick(rest[::-1] for rest in rests) for pick in (min, max))
    end = low[: common_prefix(low, high)][::-1]
    at = min((place for sign in _ENDS if (place := end.find(sign)) >= 0), default=len(end))
    parts = [rest[: len(rest) - (len(end) - at)] for rest in rests]
    named = _NAME.search(begin)
    said = None if named is None else kind_of_label(named[1]) or kind_of_label(named[1].removesuffix("s"))
    if said is not None:
        return said
    shape = shape_of(parts)
    if shape is not None:
        return shape[0]
    kinds = [kind for part in parts if (kind := classify(part)).code != KV201.code and kind.key != "number"]
    return max(kinds, key=kinds.count) if kinds and len(kinds) >= THRESHOLDS.majority * len(parts) else None
