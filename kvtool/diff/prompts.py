"""Two prompts compared as a prefix cache compares them: by whole blocks of equal tokens, from the front."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from kvtool.diagnose.codes.kv107 import KV107
from kvtool.diagnose.codes.kv121 import KV121
from kvtool.diagnose.codes.kv122 import KV122
from kvtool.diagnose.codes.kv201 import OTHER
from kvtool.diagnose.compare.grown_value import value_around
from kvtool.diagnose.cosmetic import cosmetic
from kvtool.diagnose.difference_kind import DifferenceKind
from kvtool.diff.diff_texts import DiffTexts, Range, Region, Unit, excerpts
from kvtool.text.align import EqualRun, LineEnds, align, common_prefix
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import Traced
from kvtool.workload.logs.logs import locate

if TYPE_CHECKING:
    from kvtool.diagnose.compare.change import Change

SCHEMA = "kvtool.diff/1"
ONE_SIDED = DifferenceKind("one_sided", "lines in one prompt only", KV107.code)
SEAM = DifferenceKind("seam", "one text goes on here", KV122.code)
TOOLS = "tools"
CHAT_TEMPLATE = "chat template"
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
    """A place in a prompt's source: line and column from 1, and the range of characters in the prompt's text.

    In a chat, `part` names the message (or `tools`) that the text is of, and `character` counts in the text of that message.
    """

    path: str
    line: int
    column: int
    start: int
    end: int
    part: str = ""
    character: int | None = None


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
    kind: DifferenceKind = OTHER
    a: Spot | None = None
    b: Spot | None = None
    excerpt_a: Excerpt | None = None
    excerpt_b: Excerpt | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """A change of both prompts, carried out and measured: text moved to the end, or put into a canonical form.

    `places` says how many stretches were moved; `line_a`, `line_b` where the first one stands, in the message `part` where there
    are messages. `result` describes what is not a move in words, and `code` is the diagnosis that the change answers. `further`
    says that the trials before it are included.
    """

    unit: Unit | Literal["normalize", "canonical"]
    places: int
    line_a: int
    line_b: int
    reuse: Reuse
    gained_blocks: int
    result: str = ""
    code: str = ""
    part: str = ""
    further: bool = False


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
    runs: list[EqualRun] = field(repr=False)
    first: Difference | None
    cosmetic: tuple[str, ...]
    changes: tuple[Trial, ...]
    at_end: bool
    """Nothing that both prompts have follows the difference, so nothing can be gained by moving it."""
    named: tuple[Change, ...] = ()
    """What differs in the structure of the requests: order of tools, keys, documents, a history that was cut, values."""

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
                "kind": kind_json(first.kind),
                "a": spot_json(first.a),
                "b": spot_json(first.b),
            },
            "differences": [_change_json(change) for change in self.named],
            "changes": [_trial_json(trial) for trial in self.changes],
        }


def _change_json(change: Change) -> dict[str, object]:
    return {
        "kind": kind_json(change.kind),
        "part": {"kind": change.part.kind, "index": change.part.index, "role": change.part.role},
        "start": change.start,
        "stop": change.stop,
        "cosmetic": change.cosmetic,
    }


def _trial_json(trial: Trial) -> dict[str, object]:
    return {
        "unit": trial.unit,
        "places": trial.places,
        "line_a": trial.line_a,
        "line_b": trial.line_b,
        "reusable": {"tokens": trial.reuse.tokens, "blocks": trial.reuse.blocks},
        "gained_blocks": trial.gained_blocks,
        "what": trial.result,
        "code": trial.code,
        "part": trial.part,
        "further": trial.further,
    }


def kind_json(kind: DifferenceKind) -> dict[str, object]:
    return {"key": kind.key, "name": kind.name, "code": kind.code}


def spot_json(spot: Spot | None) -> dict[str, object] | None:
    if spot is None:
        return None
    found: dict[str, object] = {
        "path": spot.path,
        "line": spot.line,
        "column": spot.column,
        "start": spot.start,
        "end": spot.end,
    }
    return found | ({"part": spot.part, "character": spot.character} if spot.part else {})


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
        reuse=Reuse.of(common, len(b), block_size),
        runs=runs,
        first=first,
        cosmetic=tuple(one.kind.name for one in unseen),
        changes=(),
        at_end=first is not None
        and texts is not None
        and first.kind.code != KV121.code
        and not any(run.b_start > common for run in runs),
    )


def first_difference(
    a: Prompt, b: Prompt, block_size: int, names: tuple[str, str], *, common: int | None = None
) -> Difference | None:
    """Where and in what two prompts first differ; None where one begins the other. Token counts are not found out (0)."""
    common = common_prefix(a.ids, b.ids) if common is None else common
    if common in (len(a), len(b)):
        return None
    return _difference(common, EqualRun(common, common, 0), block_size, texts_of(a, b), names)


def texts_of(a: Prompt, b: Prompt) -> DiffTexts | None:
    """The texts of two prompts and where their lines differ; None where they are equal or there is no text."""
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
    """The difference at `token`; `after` is the equal run that follows it."""
    tokens_a, tokens_b = after.a_start - token, after.b_start - token
    if texts is None:
        return Difference(token, *divmod(token, block_size), tokens_a, tokens_b)
    found = difference_in(texts, texts.regions[0], token, block_size, names)
    return replace(found, tokens_a=tokens_a, tokens_b=tokens_b)


def difference_in(texts: DiffTexts, region: Region, token: int, block_size: int, names: tuple[str, str]) -> Difference:
    """What differs first in a region that begins to differ at `token`, and where; token counts are left at 0."""
    kind, value_a, value_b = _kind(texts, region)
    (line_a, spans_a), (line_b, spans_b) = excerpts(texts, region)
    return Difference(
        token,
        *divmod(token, block_size),
        0,
        0,
        kind,
        _spot(texts.a, value_a, names[0]),
        _spot(texts.b, value_b, names[1]),
        Excerpt(line_a, tuple(spans_a)),
        Excerpt(line_b, tuple(spans_b)),
    )


def _kind(texts: DiffTexts, region: Region) -> tuple[DifferenceKind, Range, Range]:
    """What differs first in a region, and the range of the whole value in either text."""
    chunk = texts.chunks(region)[0]
    if texts.a.startswith(texts.b) or texts.b.startswith(texts.a):
        return SEAM, chunk.a, chunk.b
    if region.a[0] == region.a[1] or region.b[0] == region.b[1]:
        return ONE_SIDED, region.a, region.b
    head = texts.lines_of(region)
    if unseen := cosmetic(texts.a[slice(*head.a)], texts.b[slice(*head.b)]):
        return unseen[0].kind, chunk.a, chunk.b
    found = value_around(texts.a, chunk.a, texts.b, chunk.b)
    if found.kind == OTHER:
        return OTHER, chunk.a, chunk.b
    return found.kind, found.a, found.b


def _spot(text: Traced, value: Range, name: str) -> Spot:
    start, end = value
    origin, offset = text.at(start) if start < len(text) else (None, 0)
    if origin is None:
        return Spot(name, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start), start, end)
    if origin.part == CHAT_TEMPLATE:
        part = TOOLS if origin.variable == TOOLS else CHAT_TEMPLATE
        return Spot(origin.path, *origin.position(offset), start, end, part)
    if origin.pointer:
        return Spot(origin.path, *locate(origin, offset), start, end, origin.part, offset)
    return Spot(origin.path, *origin.position(offset), start, end)
