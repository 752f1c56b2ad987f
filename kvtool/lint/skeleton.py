"""A prompt template as what can be reported of it without running it: constant text, and what varies between."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.lint.lint_thresholds import THRESHOLDS
from kvtool.text.templates.code_generator import is_jinja
from kvtool.text.traced import Traced, TracedPlaces


@dataclass(frozen=True, slots=True)
class TemplatePlace:
    """A place in a file, 1-based; `width` characters of the line are meant."""

    path: str
    line: int
    column: int
    width: int


Doubt = Literal["", "use", "open"]
"""Whether something varies: it does; it does by how it is used (a `question`); or nothing says (a `product`)."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Something that varies. `what` names the code that says so (a variable, a call), never a prompt.

    `certain`: a call that cannot give the same twice, not only a name. `clock`: a clock or a random id. `order`: its parts are the
    same, their order is not; with `clock` it is another each time, else in each process. `minor`: information, whatever follows it.
    `leads`: the whole conversation follows it. `capped`: a warning at most. `elsewhere`: the prompt that it is put into is not
    seen. `made`: the place where its value is made, if it is reported elsewhere. `hidden`: not reported, as it costs nothing more.
    `given`: callers of the function that puts it in give it. `unseen`: it varies less than what is before it, but its text is
    elsewhere: a conversation, a file, instructions; this names it. `constant`: it does not vary, only its
    text is not known. `file`: it is what a file of this name contains; with `elsewhere` that is the prompt.
    """

    spot: TemplatePlace
    kind: DifferenceKind
    what: str
    certain: bool = False
    clock: bool = False
    order: bool = False
    minor: bool = False
    leads: bool = False
    capped: bool = False
    elsewhere: bool = False
    doubt: Doubt = ""
    made: TemplatePlace | None = None
    hidden: bool = False
    given: bool = False
    unseen: str = ""
    constant: bool = False
    file: str = ""

    @property
    def is_new(self) -> bool:
        """Return whether it surely is another in each request: a clock finer than a day, or an id."""
        return self.certain and self.clock and not self.order and self.kind.key != "date"

    def at(self, spot: TemplatePlace) -> Hole:
        """The same value, reported at another place."""
        return replace(self, spot=spot, made=self.made or self.spot)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several texts: which one is not known. `order`: they are orders of one list, of which a random number picks one."""

    branches: tuple[tuple[Node, ...], ...]
    order: Hole | None = None


@dataclass(frozen=True, slots=True)
class Repeat:
    """A text that is there any number of times, with another one between them, which counts as nothing."""

    body: tuple[Node, ...]
    between: str = ""


Node = str | Hole | Choice | Repeat
CONVERSATION = "the conversation"
MARKED_BLOCK = "the block marked with `cache_control`"


def leaves(nodes: Iterable[Node]) -> Iterator[str | Hole]:
    """Texts and what varies, in order, those of all branches."""
    for node in nodes:
        if isinstance(node, Choice):
            for branch in node.branches:
                yield from leaves(branch)
        elif isinstance(node, Repeat):
            yield from leaves(node.body)
        else:
            yield node


def with_holes(nodes: Iterable[Node], change: Callable[[Hole], Hole]) -> list[Node]:
    """The same nodes with other holes, those of all branches too."""
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Hole):
            result.append(change(node))
        elif isinstance(node, Choice):
            result.append(Choice(tuple(tuple(with_holes(branch, change)) for branch in node.branches)))
        elif isinstance(node, Repeat):
            result.append(replace(node, body=tuple(with_holes(node.body, change))))
        else:
            result.append(node)
    return result


def without_base(nodes: list[Node]) -> list[Node]:
    """The text of a system message, where a value that it begins with is the prompt that more is added to."""
    first = nodes[0] if nodes else ""
    is_base = isinstance(first, Hole) and first.doubt == "use"
    return [replace(first, hidden=True), *nodes[1:]] if is_base and isinstance(first, Hole) else nodes


def before_values(nodes: Iterable[Node]) -> int:
    """Characters of constant text before the first value."""
    before = 0
    for leaf in leaves(nodes):
        if isinstance(leaf, Hole):
            break
        before += len(leaf)
    return before


@dataclass(frozen=True, slots=True)
class FollowingText:
    """Tokens of constant text that follow a hole; `sure` is the part of them that is always there.

    `run` is the longest stretch of them that nothing varies in, `here` the one that follows at once; `label` of its tokens
    introduce what varies after it, and `held` of them are always there. `further` are the tokens of all other stretches that are
    always there and more than labels. `unseen` names text of which only is known that it follows, a conversation before all else.
    """

    tokens: int
    sure: int
    run: int
    here: int
    held: int = 0
    label: int = 0
    further: int = 0
    unseen: str = ""

    def with_text(self, tokens: int, label: int) -> FollowingText:
        """After a place with so many tokens more before it; `label` of them introduce what follows at once."""
        here = self.here + tokens
        return replace(
            self,
            tokens=self.tokens + tokens,
            sure=self.sure + tokens,
            run=max(self.run, here),
            here=here,
            held=self.held + tokens,
            label=self.label if self.here else label,
        )

    def ended(self) -> FollowingText:
        """Before something that varies, where the stretch after it ends."""
        return replace(self, here=0, held=0, label=0, further=self.movable)

    @property
    def movable(self) -> int:
        """Tokens that could be before what varies: labels between things that vary could not."""
        own = self.held - self.label
        return self.further + (own if own >= THRESHOLDS.text else 0)


NOTHING = FollowingText(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Found:
    """Something that varies in a prompt, the constant text after it, and the tokens of all constant text of the prompt.

    `others` are what varies after it and is not reported by itself; `before` names what is before it and may vary, too.
    """

    hole: Hole
    behind: FollowingText
    prompt: int
    others: tuple[Found, ...] = ()
    before: tuple[str, ...] = ()


def holes(nodes: Iterable[Node], count: Callable[[str], int]) -> list[Found]:
    """Find the varying values, in the order of the template, with the constant text that follows (a repeated text counts once)."""
    found: list[tuple[Hole, FollowingText]] = []
    whole = _walk(tuple(nodes), NOTHING, count, found)
    return [Found(hole, behind, whole.tokens) for hole, behind in reversed(found)]


def _walk(
    nodes: tuple[Node, ...], behind: FollowingText, count: Callable[[str], int], found: list[tuple[Hole, FollowingText]]
) -> FollowingText:
    """Backwards: the constant text from the start of these nodes on, `behind` included."""
    for node in reversed(nodes):
        if isinstance(node, str):
            before_hole = behind.here == 0 and behind is not NOTHING
            behind = behind.with_text(count(node), min(count(_label(node)), THRESHOLDS.label) if before_hole else 0)
        elif isinstance(node, Hole):
            if node.constant:
                continue
            if not node.unseen:
                found.append((node, behind))
            if not node.unseen or node.doubt == "use":
                behind = behind.ended()
            if node.unseen and behind.unseen != CONVERSATION:
                behind = replace(behind, unseen=node.unseen)
        elif isinstance(node, Repeat):
            behind = replace(_walk(node.body, behind, count, found), sure=behind.sure)
        else:
            ends = [_walk(branch, behind, count, found) for branch in reversed(node.branches)]
            behind = _one_of(ends) if ends else behind
    return behind


def _one_of(ends: list[FollowingText]) -> FollowingText:
    """After a place where one of several texts follows: what follows in each of them."""
    held = min(end.held for end in ends)
    rests = [(end.further, end.held - held) for end in ends]
    return FollowingText(
        max(end.tokens for end in ends),
        min(end.sure for end in ends),
        max(end.run for end in ends),
        max(end.here for end in ends),
        held,
        min(end.label for end in ends),
        min(further + (rest if rest >= THRESHOLDS.text else 0) for further, rest in rests),
        next((end.unseen for end in ends if end.unseen), ""),
    )


def _label(text: str) -> str:
    """The line that introduces what follows a text: its last one with words in it."""
    return text.rstrip("`'\"<>()[]{}=*#-: \t\r\n").rpartition("\n")[2]


_FORMAT = re.compile(r"\{([A-Za-z_]\w{0,99})(?:[.\[][^{}\n]{0,100})?(?:![rsa])?(?::[^{}\n]{0,60})?\}")
_NUMBERED = re.compile(r"(?<![\w\\\])}{.*+?$^_])\{0\}")
"""What shows that a text is filled by position; `\\d{0}` and `x_{0}` are something else."""
_FORMAT_NUMBERED = re.compile(r"\{([A-Za-z_]\w{0,99}|\d{1,2})(?:[.\[][^{}\n]{0,100})?(?:![rsa])?(?::[^{}\n]{0,60})?\}")
_DOLLAR = re.compile(r"\$(?:([A-Za-z_]\w{0,99})|\{([A-Za-z_]\w{0,99})\})")
MARKS = re.compile(
    r"\$([A-Z][A-Z0-9_]{2,60})\$|<<(?!SYS>>)\s?([A-Za-z_]\w{1,60})\s?>>|\[\[\s?([A-Za-z_]\w{1,60})\s?\]\]|@@([A-Za-z_]\w{1,60})@@"
    r"|(?<![%\w])%([A-Z][A-Z0-9_]{2,60})%(?!\w)|<((?:current|todays?|now)(?:_\w{1,40})?)>(?![\s\S]{0,4000}</\6>)"
)
"""Placeholders that code replaces by itself: `$QUESTION$`, `<<question>>`, `[[question]]`, `@@question@@`, `%QUESTION%`;
in single angle brackets only a clock: other words in them tell a model what to write there."""
MARKED = (
    r"\$[A-Z]\w{2,60}\$|<<\s?[A-Za-z_]|\[\[\s?[A-Za-z_]|@@[A-Za-z_]\w{1,60}@@|%[A-Z]\w{2,60}%"
    r"|<(?:current|todays?|now)\w{0,40}>"
)
"""The same, for a look at a whole file."""
JINJA_MARK = re.compile(r"\{\{-?\s{0,8}[A-Za-z_(]|\{[%#]")


_JINJA_TAG = re.compile(
    r"\{%[-+]?\s{0,8}(?:if|for|set|block|macro|include|extends|import|from|filter|raw|call|with)\b[^{}]{0,400}%\}"
)


_PHRASE = re.compile(r"(?<![{$\\\w])\{[A-Za-z]\w{0,40}[ -]\w[^{}\n\"=;()<>\[\]]{0,200}\}(?!\})")
"""Words in braces that no call of `format` can fill, as they are no name: `{why it matters}`, `{plan-name}`."""


_TEX = re.compile(r"\\[A-Za-z]{2,30}\*?(?:\[[^\]\n]{0,200}\]|\{[^{}\n]{0,200}\}){0,4}\{[^{}\n]{1,200}\}(?!\})")
"""A command of TeX with an argument: `\\begin{document}`."""


def is_for_format(text: str) -> bool:
    """Return whether `format` can fill a text: with words in braces it fails, so the braces show a model what to write there.

    Nor is a text with commands of TeX, whose arguments would be filled, too.
    """
    return _PHRASE.search(text) is None and _TEX.search(text) is None


_BEFORE_TEX = re.compile(r"\\[A-Za-z]{1,20}\*?(?:\[[^\]\n]{0,60}\])?\Z")
"""What is before braces of TeX: `\\begin{{document}}` is written for `str.format`."""
_TEX_WIDTH = 90
_MANY_NAMES = 3
"""Different names in single braces, with which a text is one for `format`, however many double ones it shows."""


def _is_written_for_format(text: str, marks: Iterable[re.Match[str]]) -> bool:
    """Return whether a text has more placeholders in single braces than in double ones, or many of them."""
    if not all(mark[0].startswith("{{") for mark in marks):
        return False
    doubled = sum(not _is_tex(text, mark.start()) for mark in marks)
    names = [name for start, _, name in placeholders(text, "format") if not _is_tex(text, start)]
    return len(names) > doubled or len({name for name in names if len(name) > 1}) >= _MANY_NAMES


def _is_tex(text: str, at: int) -> bool:
    """Return whether a brace opens an argument of TeX."""
    return _BEFORE_TEX.search(text, max(at - _TEX_WIDTH, 0), at) is not None


def style_of(text: str) -> Literal["", "jinja", "format", "marks", "dollar"]:
    """Return the style of placeholders in a text: `jinja`, `format`, `marks`, `dollar`, or `` where it has none.

    Braces and percent signs that Jinja cannot read are text, or escaped for `format`, unless tags of Jinja are among them.
    """
    marks = list(JINJA_MARK.finditer(text))
    if marks and _is_written_for_format(text, marks):
        return "format"
    if marks and (_JINJA_TAG.search(text) or is_jinja(text)):
        return "jinja"
    if (_FORMAT.search(text) or _NUMBERED.search(text)) and is_for_format(text):
        return "format"
    if MARKS.search(text):
        return "marks"
    return "dollar" if _DOLLAR.search(text) else ""


def placeholders(text: str, style: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and name of each `{name}` or `$name`; doubled braces and dollars are text. By position the name is a number."""
    if style == "marks":
        for match in MARKS.finditer(text):
            yield match.start(), match.end(), next(group for group in match.groups() if group)
        return
    pattern = _DOLLAR
    if style == "format":
        pattern = _FORMAT_NUMBERED if _NUMBERED.search(text) else _FORMAT
    mark = "{" if style == "format" else "$"
    for match in pattern.finditer(text):
        doubled = 0
        while match.start() > doubled and text[match.start() - doubled - 1] == mark and doubled < 64:
            doubled += 1
        if doubled % 2 == 0:
            yield match.start(), match.end(), next(group for group in match.groups() if group)


def text_nodes(text: str, style: str, hole: Callable[[int, int, str], Node | None]) -> list[Node]:
    """A text with placeholders as nodes; `hole` makes one of each, or None where it is not known to vary."""
    nodes: list[Node] = []
    at = 0
    for start, stop, name in placeholders(text, style):
        nodes.append(text[at:start])
        if (node := hole(start, stop, name)) is not None:
            nodes.append(node)
        at = stop
    nodes.append(text[at:])
    return [node for node in nodes if node != ""]


class TemplatePlaces:
    """The places of a template's parts; all of it is in a file."""

    def __init__(self, text: Traced) -> None:
        self._places = TracedPlaces(text)

    def at(self, start: int, stop: int) -> TemplatePlace:
        """The place of `text[start:stop]`, as wide as it is on its first line."""
        origin, line, column = self._places.position(start)
        assert origin is not None
        _, last, end = self._places.position(max(stop - 1, start))
        return TemplatePlace(origin.path, line, column, max(end - column + 1, 1) if last == line else stop - start)
