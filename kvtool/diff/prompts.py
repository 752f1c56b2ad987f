"""Two prompts compared as a prefix cache compares them: by whole blocks of equal tokens, from the front."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.structure.kv121 import KV121
from kvtool.diagnose.codes.structure.kv122 import KV122
from kvtool.diagnose.compare.passages import value_around
from kvtool.diagnose.findings import logged_place
from kvtool.diagnose.invisible_differences import cosmetic
from kvtool.diagnose.tool_places import TOOLS
from kvtool.diff.diff_texts import DiffTexts, Range, Region, excerpts
from kvtool.results.documents.diff import FirstDifference, Lost, NamedDifference, Side, SideBlocks, Spot, Trial, TwoDiff
from kvtool.results.documents.parts import Blocks
from kvtool.text.align import EqualRun, LineEnds, align, common_prefix
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import Traced
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.turn import RequestName

if TYPE_CHECKING:
    from kvtool.diagnose.compare.change import Change

SEAM = DifferenceKind("seam", "one text continues here", KV122.code)
CHAT_TEMPLATE = "chat template"
Relation = Literal["identical", "same_tokens", "a_begins_b", "b_begins_a", "different"]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One line around a difference; None where one side has no such line. `spans` are the characters that differ.

    `value` is the whole value that the first of them are a part of.
    """

    text: str | None
    spans: tuple[Range, ...]
    value: Range


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference: where, in what, and how many tokens of either side it takes until the prompts agree again."""

    token: int
    block: int
    offset: int
    tokens_a: int
    tokens_b: int
    kind: DifferenceKind = OTHER
    a: Spot | None = None
    b: Spot | None = None
    excerpt_a: Excerpt | None = None
    excerpt_b: Excerpt | None = None


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
    reuse: Blocks
    """What the second prompt takes from the cache that the first one filled."""
    runs: list[EqualRun] = field(repr=False)
    first: Difference | None
    cosmetic: tuple[str, ...]
    changes: tuple[Trial, ...]
    at_end: bool
    """Nothing that both prompts have follows the difference, so nothing can be gained by moving it."""
    empty: tuple[str, ...] = ()
    """The names of prompts without any text; a tokenizer may begin even these with a token."""
    named: tuple[Change, ...] = ()
    """What differs in the structure of the requests: order of tools, keys, documents, a history that was cut, values."""

    named_places: tuple[str, ...] = ()
    """The place of each of `named`, in words: as findings of logs have it, or the line of a text; empty for histories."""

    def in_steps(self, minimum: int, step: int) -> PromptDiff:
        """Return it for a provider that reads no prefix below a minimum, and longer ones in steps."""

        def read(tokens: int) -> Blocks:
            tokens = tokens - (tokens - minimum) % step if tokens >= minimum else 0
            return Blocks(tokens=tokens, blocks=tokens)

        reuse, reads = read(self.reuse.tokens), [read(trial.reuse.tokens) for trial in self.changes]
        gains = [{"reuse": each, "gained_blocks": each.blocks - reuse.blocks} for each in reads]
        changes = (trial.model_copy(update=gain) for trial, gain in zip(self.changes, gains, strict=True))
        return replace(self, block_size=1, reuse=reuse, changes=tuple(changes))

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
        """Return how many of the lost tokens are in text that both prompts contain."""
        start = self.reuse.tokens
        return sum(max(run.b_start + run.length - max(run.b_start, start), 0) for run in self.runs)

    def document(self) -> TwoDiff:
        """Return the comparison without any prompt text."""
        return TwoDiff(
            schema="kvtool.diff/1",
            tokenizer=self.tokenizer,
            block_size=self.block_size,
            a=Side(path=self.name_a, tokens=self.length_a),
            b=SideBlocks(path=self.name_b, tokens=self.length_b, blocks=self.blocks),
            relation=self.relation,
            common_tokens=self.common,
            reusable=self.reuse,
            lost=Lost(tokens=self.lost_tokens, blocks=self.lost_blocks, same_text_tokens=self.same_tokens),
            equal_runs=[list(run) for run in self.runs],
            cosmetic=list(self.cosmetic),
            at_end=self.at_end,
            first_difference=None if self.first is None else FirstDifference.taken_from(self.first),
            differences=[
                NamedDifference.taken_from(change).model_copy(update={"told": told})
                for change, told in zip(self.named, self.named_places, strict=True)
            ],
            changes=list(self.changes),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the document as plain data."""
        return self.document().data()


def reusable(common: int, length: int, block_size: int) -> Blocks:
    """vLLM's rule: full blocks of the common prefix, and the last token of a prompt is always computed."""
    blocks = min(common // block_size, max(length - 1, 0) // block_size)
    return Blocks(tokens=blocks * block_size, blocks=blocks)


def diff_prompts(
    a: Prompt,
    b: Prompt,
    block_size: int,
    *,
    newline: LineEnds | None = None,
    names: tuple[str, str] = ("a", "b"),
    tokenizer: str = "",
) -> PromptDiff:
    """Compare prompt `b` with a cache that holds prompt `a`; no change is tried (`diff_sides` does that).

    `newline` are the ids that end a line (`align`), which makes equal runs of long prompts surer.
    """
    runs = align(a.ids, b.ids, newline=newline)
    common = common_prefix(a.ids, b.ids)
    texts = texts_of(a, b)
    relation = _relation(a, b, common)
    first = None
    if relation == "different":
        after = next((run for run in runs if run.b_start + run.length > common), EqualRun(len(a), len(b), 0))
        first = _difference(common, after, block_size, texts, names)
    unseen = cosmetic(texts.a, texts.b) if texts is not None else []
    return PromptDiff(
        name_a=names[0],
        name_b=names[1],
        length_a=len(a),
        length_b=len(b),
        block_size=block_size,
        tokenizer=tokenizer,
        relation=relation,
        common=common,
        reuse=reusable(common, len(b), block_size),
        runs=runs,
        first=first,
        cosmetic=tuple(one.kind.name for one in unseen),
        changes=(),
        at_end=first is not None
        and texts is not None
        and first.kind.code != KV121.code
        and not any(run.b_start > common for run in runs),
        empty=tuple(
            name for name, each in zip(names, (a, b), strict=True) if not len(each if each.text is None else each.text)
        ),
    )


def first_difference(
    a: Prompt, b: Prompt, block_size: int, names: tuple[str, str], *, common: int | None = None
) -> Difference | None:
    """Return the first difference of two prompts; None where one begins the other. Token counts are left at 0."""
    common = common_prefix(a.ids, b.ids) if common is None else common
    if common in (len(a), len(b)):
        return None
    return _difference(common, EqualRun(common, common, 0), block_size, texts_of(a, b), names)


def texts_of(a: Prompt, b: Prompt) -> DiffTexts | None:
    """Return the texts of two prompts and where their lines differ; None where they are equal or there is no text."""
    return None if a.text is None or b.text is None or a.text == b.text else DiffTexts(a.text, b.text)


def _relation(a: Prompt, b: Prompt, common: int) -> Relation:
    if common == len(a) == len(b):
        return "identical" if a.text == b.text else "same_tokens"
    if common == len(a):
        return "a_begins_b"
    return "b_begins_a" if common == len(b) else "different"


def _difference(
    token: int, after: EqualRun, block_size: int, texts: DiffTexts | None, names: tuple[str, str]
) -> Difference:
    """Return the difference at `token`; `after` is the equal run that follows it."""
    tokens_a, tokens_b = after.a_start - token, after.b_start - token
    if texts is None:
        return Difference(token, *divmod(token, block_size), tokens_a, tokens_b)
    found = difference_in(texts, texts.regions[0], token, block_size, names)
    return replace(found, tokens_a=tokens_a, tokens_b=tokens_b)


def difference_in(texts: DiffTexts, region: Region, token: int, block_size: int, names: tuple[str, str]) -> Difference:
    """Return the first difference in a region that begins to differ at `token`; token counts are left at 0."""
    kind = _kind(texts, region)
    value_a, value_b = _value(texts, region, kind)
    (line_a, spans_a), (line_b, spans_b) = excerpts(texts, region)
    return Difference(
        token,
        *divmod(token, block_size),
        0,
        0,
        kind,
        _spot(texts.a, value_a, names[0]),
        _spot(texts.b, value_b, names[1]),
        Excerpt(line_a, tuple(spans_a), _in_line(value_a, region.a)),
        Excerpt(line_b, tuple(spans_b), _in_line(value_b, region.b)),
    )


def _in_line(value: Range, line: Range) -> Range:
    """Return a value as a range of the line that it stands in, which is the first one of its region."""
    return value[0] - line[0], value[1] - line[0]


def _kind(texts: DiffTexts, region: Region) -> DifferenceKind:
    """Return what is known of a difference by its two texts alone; `judged` says more."""
    if texts.a.startswith(texts.b) or texts.b.startswith(texts.a):
        return SEAM
    head = texts.lines_of(region)
    unseen = cosmetic(texts.a[slice(*head.a)], texts.b[slice(*head.b)]) if not _is_one_sided(region) else []
    return unseen[0].kind if unseen else OTHER


def _is_one_sided(region: Region) -> bool:
    return region.a[0] == region.a[1] or region.b[0] == region.b[1]


def _value(texts: DiffTexts, region: Region, kind: DifferenceKind) -> Region:
    """Return the whole value in either text that the first difference in a region is a part of."""
    chunk = texts.chunks(region)[0]
    if kind is not OTHER:
        return chunk
    if _is_one_sided(region):
        return region
    found = value_around(texts.a, chunk.a, texts.b, chunk.b)
    return chunk if found.kind is OTHER else Region(found.a, found.b)


def _spot(text: Traced, value: Range, name: str) -> Spot:
    start, end = value
    origin, offset = text.at(start) if start < len(text) else (None, 0)
    if origin is None:
        line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
        return Spot(path=name, line=line, column=column, start=start, end=end)
    in_message = bool(origin.pointer) and origin.part != CHAT_TEMPLATE
    line, column = locate(origin, offset) if in_message else origin.position(offset)
    spot = Spot(path=origin.path, line=line, column=column, start=start, end=end)
    if in_message:
        told = logged_place(RequestName(origin.path), origin, offset, origin.part).told
        return spot.model_copy(update={"part": origin.part, "character": offset, "told": told})
    if origin.part == CHAT_TEMPLATE:
        part = TOOLS if origin.variable == TOOLS else CHAT_TEMPLATE
        return spot.model_copy(update={"part": part, "character": None})
    return spot
