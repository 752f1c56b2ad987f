"""Two prompts compared as a prefix cache compares them: by whole blocks of equal tokens, from the front."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from kvtool.align import LineEnds, Run, align, common_prefix
from kvtool.diagnose.classify import OTHER, Kind, classify_in
from kvtool.diagnose.cosmetic import CODE as COSMETIC_CODE
from kvtool.diagnose.cosmetic import Normalizer, cosmetic, normalized
from kvtool.prompt import Ids, Prompt
from kvtool.text import Traced
from kvtool.text_diff import Range, Region, Texts, Unit, excerpts, move_to_end, moved_ranges

SCHEMA = "kvtool.diff/1"
ONE_SIDED = Kind("one_sided", "lines in one prompt only", "KV107")
SEAM = Kind("seam", "one text goes on here", "KV122")
Encode = Callable[[Traced], Prompt]
Relation = Literal["identical", "same_tokens", "a_begins_b", "b_begins_a", "different"]


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a second prompt takes from the cache that a first one filled."""

    blocks: int
    tokens: int

    @classmethod
    def of(cls, common: int, length: int, block_size: int) -> Reuse:
        """vLLM's rule: full blocks of the common prefix, and the last token of a prompt is always computed."""
        blocks = min(common // block_size, max(length - 1, 0) // block_size)
        return cls(blocks, blocks * block_size)


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a prompt's source: line and column from 1, and the range of characters in its text."""

    path: str
    line: int
    column: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One line around a difference; None where one side has no such line. `spans` are the characters that differ."""

    text: str | None
    spans: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference: where, in what, and how many tokens of either side it takes until the prompts agree again."""

    token: int
    block: int
    offset: int
    tokens_a: int
    tokens_b: int
    kind: Kind = OTHER
    a: Spot | None = None
    b: Spot | None = None
    excerpt_a: Excerpt | None = None
    excerpt_b: Excerpt | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A change of both prompts, carried out and measured: text moved to the end, or `normalize` where that suffices.

    `places` says how many stretches were moved; `line_a`, `line_b` where the first one stands. `result` describes the texts after
    `normalize`.
    """

    unit: Unit | Literal["normalize"]
    places: int
    line_a: int
    line_b: int
    reuse: Reuse
    gained_blocks: int
    result: str = ""


@dataclass(frozen=True, slots=True)
class PromptDiff:
    """The comparison as data. Blocks and losses are those of the second prompt, computed when the first is in the cache."""

    name_a: str
    name_b: str
    length_a: int
    length_b: int
    block_size: int
    tokenizer: str
    relation: Relation
    common: int
    reuse: Reuse
    runs: list[Run] = field(repr=False)
    first: Difference | None
    cosmetic: tuple[str, ...]
    changes: tuple[Change, ...]
    at_end: bool
    """Nothing that both prompts have follows the difference, so nothing can be gained by moving it."""

    @property
    def blocks(self) -> int:
        """Blocks of the second prompt, a partial last one included."""
        return -(-self.length_b // self.block_size)

    @property
    def lost_tokens(self) -> int:
        return self.length_b - self.reuse.tokens

    @property
    def lost_blocks(self) -> int:
        return self.blocks - self.reuse.blocks

    @property
    def same_tokens(self) -> int:
        """How many of the lost tokens stand in text that both prompts have."""
        start = self.reuse.tokens
        return sum(max(run.b_start + run.length - max(run.b_start, start), 0) for run in self.runs)

    def to_json(self) -> dict[str, object]:
        """Plain data without any prompt text."""
        first = self.first
        return {
            "schema": SCHEMA,
            "tokenizer": self.tokenizer,
            "block_size": self.block_size,
            "a": {"path": self.name_a, "tokens": self.length_a},
            "b": {"path": self.name_b, "tokens": self.length_b, "blocks": self.blocks},
            "relation": self.relation,
            "common_tokens": self.common,
            "reusable": {"tokens": self.reuse.tokens, "blocks": self.reuse.blocks},
            "lost": {"tokens": self.lost_tokens, "blocks": self.lost_blocks, "same_text_tokens": self.same_tokens},
            "equal_runs": [list(run) for run in self.runs],
            "cosmetic": list(self.cosmetic),
            "at_end": self.at_end,
            "first_difference": None
            if first is None
            else {
                "token": first.token,
                "block": first.block,
                "offset": first.offset,
                "tokens_a": first.tokens_a,
                "tokens_b": first.tokens_b,
                "kind": {"key": first.kind.key, "name": first.kind.name, "code": first.kind.code},
                "a": _spot_json(first.a),
                "b": _spot_json(first.b),
            },
            "changes": [
                {
                    "unit": change.unit,
                    "places": change.places,
                    "line_a": change.line_a,
                    "line_b": change.line_b,
                    "reusable": {"tokens": change.reuse.tokens, "blocks": change.reuse.blocks},
                    "gained_blocks": change.gained_blocks,
                }
                for change in self.changes
            ],
        }


def _spot_json(spot: Spot | None) -> dict[str, object] | None:
    if spot is None:
        return None
    return {"path": spot.path, "line": spot.line, "column": spot.column, "start": spot.start, "end": spot.end}


def diff_prompts(
    a: Prompt,
    b: Prompt,
    block_size: int,
    *,
    encode: Encode | None = None,
    newline: LineEnds | None = None,
    names: tuple[str, str] = ("a", "b"),
    tokenizer: str = "",
) -> PromptDiff:
    """Compare prompt `b` with a cache that holds prompt `a`.

    `encode` tokenizes a changed text again; without it, or for prompts without text, no change is measured. `newline` are the ids
    that end a line (`align`), which makes equal runs of long prompts surer.
    """
    runs = align(a.ids, b.ids, newline=newline)
    common = common_prefix(a.ids, b.ids)
    reuse = Reuse.of(common, len(b), block_size)
    texts = None if a.text is None or b.text is None or a.text == b.text else Texts(a.text, b.text)
    relation = _relation(a, b, common)
    first = None
    if relation == "different":
        after = next((run for run in runs if run.b_start + run.length > common), Run(len(a), len(b), 0))
        first = _difference(common, after, block_size, texts, names)
    unseen = cosmetic(texts.a, texts.b) if texts is not None else []
    changes: tuple[Change, ...] = ()
    at_end = False
    if first is not None and texts is not None:
        at_end = first.kind.code != COSMETIC_CODE and not any(run.b_start > common for run in runs)
        if encode is not None:
            changes = () if at_end else _changes(texts, unseen, reuse, block_size, encode)
    return PromptDiff(
        name_a=names[0],
        name_b=names[1],
        length_a=len(a),
        length_b=len(b),
        block_size=block_size,
        tokenizer=tokenizer,
        relation=relation,
        common=common,
        reuse=reuse,
        runs=runs,
        first=first,
        cosmetic=tuple(one.kind.name for one in unseen),
        changes=changes,
        at_end=at_end,
    )


def _relation(a: Prompt, b: Prompt, common: int) -> Relation:
    if common == len(a) == len(b):
        return "identical" if a.text == b.text else "same_tokens"
    if common == len(a):
        return "a_begins_b"
    return "b_begins_a" if common == len(b) else "different"


def _difference(token: int, after: Run, block_size: int, texts: Texts | None, names: tuple[str, str]) -> Difference:
    """The difference at `token`; `after` is the equal run that follows it."""
    block, offset = divmod(token, block_size)
    tokens_a, tokens_b = after.a_start - token, after.b_start - token
    if texts is None:
        return Difference(token, block, offset, tokens_a, tokens_b)
    region = texts.regions[0]
    kind, value_a, value_b = _kind(texts, region)
    (line_a, spans_a), (line_b, spans_b) = excerpts(texts, region)
    return Difference(
        token,
        block,
        offset,
        tokens_a,
        tokens_b,
        kind,
        _spot(texts.a, value_a, names[0]),
        _spot(texts.b, value_b, names[1]),
        Excerpt(line_a, tuple(spans_a)),
        Excerpt(line_b, tuple(spans_b)),
    )


def _kind(texts: Texts, region: Region) -> tuple[Kind, Range, Range]:
    """What differs first in a region, and the range of the whole value in either text."""
    chunk = texts.chunks(region)[0]
    if texts.a.startswith(texts.b) or texts.b.startswith(texts.a):
        return SEAM, chunk.a, chunk.b
    if region.a[0] == region.a[1] or region.b[0] == region.b[1]:
        return ONE_SIDED, region.a, region.b
    head = texts.lines_of(region)
    if unseen := cosmetic(texts.a[slice(*head.a)], texts.b[slice(*head.b)]):
        return unseen[0].kind, chunk.a, chunk.b
    kind_a, *value_a = classify_in(texts.a, *chunk.a)
    kind_b, *value_b = classify_in(texts.b, *chunk.b)
    kind = kind_a if kind_a.code == kind_b.code else OTHER
    if kind == OTHER:
        return kind, chunk.a, chunk.b
    return kind, (value_a[0], value_a[1]), (value_b[0], value_b[1])


def _spot(text: Traced, value: Range, name: str) -> Spot:
    start, end = value
    if start < len(text):
        origin, offset = text.at(start)
        if origin is not None:
            return Spot(origin.path, *origin.position(offset), start, end)
    return Spot(name, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start), start, end)


def _changes(
    texts: Texts, unseen: list[Normalizer], before: Reuse, block_size: int, encode: Encode
) -> tuple[Change, ...]:
    """Changes carried out in both texts and measured: the first difference alone, then all differences."""

    def measured(unit: Unit | Literal["normalize"], places: int, a: str, b: str, result: str = "") -> Change:
        ids_a, ids_b = encode(Traced(a)).ids, encode(Traced(b)).ids
        reuse = _reuse(ids_a, ids_b, block_size)
        return Change(unit, places, line_a, line_b, reuse, reuse.blocks - before.blocks, result)

    region = texts.regions[0]
    head = texts.lines_of(region)
    line_a, line_b = texts.a.count("\n", 0, region.a[0]) + 1, texts.b.count("\n", 0, region.b[0]) + 1
    if not unseen:  # the prompts differ in more; the first difference may still be one that nobody sees
        unseen = cosmetic(texts.a[slice(*head.a)], texts.b[slice(*head.b)])
    if unseen:
        result = " and ".join(one.result for one in unseen)
        plain_a, plain_b = normalized(texts.a, unseen), normalized(texts.b, unseen)
        alone = measured("normalize", 1, plain_a, plain_b, result)
        if plain_a == plain_b:
            return (alone,)
        _, _, left = moved_ranges(Texts(Traced(plain_a), Traced(plain_b)))
        ends = move_to_end(plain_a, [a for a, _ in left]), move_to_end(plain_b, [b for _, b in left])
        return alone, measured("normalize", 1 + len(left), *ends, f"{result}, what still differs at the end")
    unit, first, everything = moved_ranges(texts)
    moves = [first] if len(everything) == 1 else [first, everything]
    return tuple(
        measured(
            unit,
            len(ranges),
            move_to_end(texts.a, [a for a, _ in ranges]),
            move_to_end(texts.b, [b for _, b in ranges]),
        )
        for ranges in moves
    )


def _reuse(a: Ids, b: Ids, block_size: int) -> Reuse:
    return Reuse.of(common_prefix(a, b), len(b), block_size)
