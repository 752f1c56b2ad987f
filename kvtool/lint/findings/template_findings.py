"""Findings in templates, where no traffic says what varies: severity from the constant text that is after it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from kvtool.diagnose.codes import find_entry
from kvtool.diagnose.codes.structure.kv141 import WINDOW
from kvtool.diagnose.codes.structure.kv143 import CUT_SHORT
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import REQUEST_ID
from kvtool.diagnose.codes.values.kv105 import COUNTER
from kvtool.diagnose.codes.values.kv106 import ENVIRONMENT
from kvtool.diagnose.severity import UNSURE_MOST, severity_of
from kvtool.lint.evidence.placeholders import is_answered, is_set_up, names_a_part, names_whole_prompt, with_labels
from kvtool.lint.evidence.value_precision import DATE, sure_kind
from kvtool.lint.evidence.values_on_own_lines import questioned_names
from kvtool.lint.evidence.volatile_calls import HOST, JSON_KEYS
from kvtool.lint.findings.shared_beginning import EACH_REQUEST, SharedLosses, often, with_hidden
from kvtool.lint.lint_thresholds import THRESHOLDS
from kvtool.lint.skeleton import FollowingText, Found, Hole, Node, TemplatePlace, holes, leaves
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding, Snippet
from kvtool.text.line_index import LineIndex
from kvtool.text.terminal.numbers import in_words

BY_NAME = 0.5
"""The confidence of what only a name, or a use, says."""
OPEN = 0.2
"""The confidence of what nothing says: it may be the same in all requests."""
_MOST_NAMES = 4
_SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
_BY_USE = "new text per request, by its use"
_OF_OBJECT = re.compile(r"`(?:self|this)\.")
_LONG_LINE = 1500
_AROUND = 60


def find_losses(
    path: str,
    text: str,
    prompts: Iterable[Iterable[Node]],
    count: Callable[[str], int],
    *,
    block_size: int,
    least: int,
    used: int = 0,
    named: int = 0,
) -> list[Finding]:
    """Find the losses of the prompts of one file, by place; a place in several prompts counts where it is worst.

    `count` gives the tokens of a text; with fewer than `least` tokens of constant text after it, nothing is reported; `used` and
    `named` are the same for what is known by its use and by its name only. A loss is reported once: what is after a value that
    ends the shared beginning of a prompt costs nothing more, in no other prompt that is a part of that one either. One value that
    goes into two prompts is two losses.
    """
    later: set[tuple[TemplatePlace, bool]] = set()
    lines = LineIndex(text)
    told_of: list[Found] = []
    open_groups: list[list[Found]] = []
    losses = SharedLosses()

    def enough(one: Found) -> bool:
        return _enough(one, least, used, named, block_size)

    for given in prompts:
        nodes = with_labels(list(given))
        losses.add(nodes)
        founds, behind = _of_prompt(nodes, count, enough)
        told_of += founds
        open_groups.append([found for found in founds if found.hole.doubt == "open"])
        later |= behind
    costly = [one for one in told_of if _lost(one.hole) not in later and enough(one)]
    told = _once(_once(costly, _place, block_size), losses.key, block_size)
    sure = {found.hole.spot for found in told if not found.hole.doubt}
    told = [found for found in told if not found.hole.doubt or found.hole.spot not in sure]
    findings = [_finding(path, found, block_size, lines) for found in told if found.hole.doubt != "open"]
    doubtful = {found.hole.spot: found for found in told if found.hole.doubt == "open"}
    for group in open_groups:
        of_group = [doubtful.pop(found.hole.spot) for found in group if found.hole.spot in doubtful]
        if of_group:
            of_group.sort(key=lambda one: _place(one.hole))
            findings.append(_open_finding(path, of_group, block_size, lines))
    return sorted(findings, key=lambda one: (one.line, one.column, one.code))


def _lost(hole: Hole) -> tuple[TemplatePlace, bool]:
    """A place, and whether nothing says that it costs something."""
    return hole.spot, hole.doubt == "open"


def _of_prompt(
    nodes: Iterable[Node], count: Callable[[str], int], enough: Callable[[Found], bool]
) -> tuple[list[Found], set[tuple[TemplatePlace, bool]]]:
    """Find the losses of a prompt, and the places in it that lose nothing more: later ones, or doubtful ones after a sure one."""
    given = list(nodes)
    marked = with_hidden(given)
    every = holes(marked, count)
    around = questioned_names(marked)
    was_hidden = {id(leaf) for leaf in leaves(marked) if isinstance(leaf, Hole) and leaf.hidden} - {
        id(after)
        for before, after in zip(leaves(given), leaves(marked), strict=True)
        if isinstance(before, Hole) and not before.hidden and isinstance(after, Hole) and after.hidden
    }
    founds = [found for found in every if not found.hole.hidden]
    covered = [found for found in every if found.hole.hidden and id(found.hole) not in was_hidden]
    shown = {found.hole.spot for found in founds}  # one place may hold a value in front of itself: `balance += income`
    later = {(found.hole.spot, doubtful) for found in covered for doubtful in (False, True)}
    later = {lost for lost in later if lost[0] not in shown}
    founds = _given_beside(founds, enough)
    founds = [found for found in founds if found.hole.doubt != "open" or id(found.hole) in around]
    later |= {(other.hole.spot, doubtful) for found in founds for other in found.others for doubtful in (False, True)}
    ending = next((number for number, found in enumerate(founds) if often(found.hole)), None)
    if ending is not None:
        behind = [*founds[ending].others, *covered]
        others = {found.hole.what: found for found in reversed(behind) if found.hole.what != founds[ending].hole.what}
        founds[ending] = replace(
            founds[ending], others=tuple(reversed(others.values())), before=_may_vary_before(founds[ending].hole, every)
        )
    first = {(found.hole.spot, doubtful) for found in founds for doubtful in (False, True)}
    if ending is not None and founds[ending].behind.movable >= THRESHOLDS.known:
        passed = {_lost(found.hole) for found in founds if found.hole.doubt == "open"}
        later |= passed
        first -= passed
    return founds, later - first


def _may_vary_before(hole: Hole, every: Sequence[Found]) -> tuple[str, ...]:
    """Return the names before a value in its prompt that may vary, too."""
    names: dict[str, None] = {}
    for found in every:
        one = found.hole
        if one.spot == hole.spot or one.what == hole.what:
            break
        if one.doubt == "open" and not one.hidden and not names_a_part(one.what):
            names[one.what] = None
    return tuple(names)


def _given_beside(founds: list[Found], enough: Callable[[Found], bool]) -> list[Found]:
    """The same, where a value right before one that is another in each request is given with it: so it is another each time, too.

    After a text of its own the sure one is reported where it is, if it is reported there.
    """
    last = next((number for number, found in enumerate(founds) if found.hole.doubt == "use"), None)
    if last is None or founds[last].behind.movable < THRESHOLDS.known:
        return founds
    first = next(
        (
            number
            for number, one in enumerate(founds[:last])
            if one.hole.doubt == "open"
            and (is_answered(one.hole.what, founds[last].hole.what) or not is_set_up(one.hole.what))
        ),
        None,
    )
    if first is None or any(often(found.hole) for found in founds[:first]):
        return founds
    if enough(founds[last]) and not is_answered(founds[first].hole.what, founds[last].hole.what):
        return founds
    told = replace(founds[first], hole=replace(founds[first].hole, doubt="use"), others=(founds[last],))
    return [*founds[:first], told, *founds[last + 1 :]]


def _once(founds: Iterable[Found], same: Callable[[Hole], tuple[object, ...]], block_size: int) -> list[Found]:
    """One for each loss, by place: at the first place that it has, as bad as it is anywhere."""
    first: dict[tuple[object, ...], Found] = {}
    worst: dict[tuple[object, ...], Found] = {}
    for found in sorted(founds, key=lambda one: _place(one.hole)):
        key = same(found.hole)
        first.setdefault(key, found)
        if key not in worst or _badness(worst[key], block_size) < _badness(found, block_size):
            worst[key] = found
    return [replace(worst[key], hole=replace(worst[key].hole, spot=one.hole.spot)) for key, one in first.items()]


def _place(hole: Hole) -> tuple[int, int, str]:
    return hole.spot.line, hole.spot.column, hole.kind.code


def _enough(found: Found, least: int, used: int, named: int, block_size: int) -> bool:
    """Return whether enough constant text is after it, or after what it is reported with, to be reported."""
    hole, behind = found.hole, found.behind
    if hole.leads or hole.elsewhere:
        return True
    if _unseen_after(found):
        return True
    if hole.doubt == "open":
        if names_a_part(hole.what):
            return False
        at_once = (
            behind.here if hole.capped else behind.run
        )  # code puts together what a template file holds in one piece
        return behind.run >= THRESHOLDS.unknown * block_size and 2 * at_once >= THRESHOLDS.unknown * block_size
    if _goes_on(found) and behind.movable < THRESHOLDS.unknown * block_size:
        return False
    if any(_enough(other, least, used, named, block_size) for other in _costly(found)):
        return True
    if hole.doubt:
        enough = max(least, used)
        if not hole.minor and _is_evident(behind, block_size):
            return True
        always = behind.tokens == behind.sure >= max(least, min(used, named))
        return (always or min(behind.tokens, 2 * behind.sure) >= enough) and 3 * behind.movable >= 2 * enough
    if not _is_sure(hole):
        return behind.movable >= max(least, named)
    if (hole.order and not hole.clock) or hole.kind is HOST:
        least = max(least, named)  # one machine, or one process, has the same in all of its requests
    return (behind.sure if hole.order else behind.tokens) >= least


def _unseen_after(found: Found) -> str:
    """Return the name of text that surely follows and is not in this file; empty where the value may stay the same before it."""
    hole = found.hole
    by_name = not hole.certain and hole.kind in (TIME, REQUEST_ID) and _is_sure(hole)
    return found.behind.unseen if hole.is_new or hole.doubt == "use" or by_name else ""


def _is_evident(behind: FollowingText, block_size: int) -> bool:
    """Return whether enough text is always there, and enough of it more than labels, for what surely is another in each request."""
    return (
        2 * behind.sure >= THRESHOLDS.evident_halves * block_size
        and 16 * behind.movable >= 5 * THRESHOLDS.evident_halves * block_size
    )


def _goes_on(found: Found) -> bool:
    """Return whether a prompt begins with another whole prompt: what is added to one that was sent loses nothing of it."""
    before = found.prompt - found.behind.tokens
    return found.hole.doubt == "use" and before <= THRESHOLDS.whole_prompt and names_whole_prompt(found.hole.what)


def _open_finding(path: str, founds: list[Found], block_size: int, lines: LineIndex) -> Finding:
    """One for all placeholders of a prompt of which nothing says whether they vary, at the first of them."""
    most = max(founds, key=lambda found: found.behind.tokens)
    names = list(dict.fromkeys(found.hole.what for found in founds))
    listed, one = _listed(names), len(names) == 1
    amount = _amount(most, block_size, at_most=not one)
    return _told(
        path,
        founds[0],
        f"{listed} may change per request; then {amount} after {'it' if one else 'them'} are not reused",
        most.behind.tokens,
        OPEN,
        lines,
        block_size,
    )


def _listed(names: Sequence[str]) -> str:
    shown = names[:_MOST_NAMES]
    if len(names) > len(shown):
        return f"{', '.join(shown)} and {len(names) - len(shown):,} more"
    return in_words(shown)


def _amount(found: Found, block_size: int, *, at_most: bool = False) -> str:
    behind = found.behind
    if found.hole.leads:
        return "the whole conversation"
    if found.hole.elsewhere:
        return "the text"
    blocks = behind.tokens // block_size
    unseen = _unseen_after(found)
    if unseen and not blocks:
        return unseen
    about = "about" if behind.sure == behind.tokens and not at_most else "up to"
    return f"{about} {behind.tokens:,} tokens ({blocks:,} {'block' if blocks == 1 else 'blocks'}) of constant text" + (
        f" and {unseen}" if unseen else ""
    )


def _finding(path: str, found: Found, block_size: int, lines: LineIndex) -> Finding:
    hole = found.hole
    kind = f"{hole.kind.name}{'' if hole.certain else ', by its name'}"
    if hole.made is not None and hole.made.path != path:
        kind += f", passed by {hole.made.path}:{hole.made.line}"
    elif hole.made is not None and hole.order and hole.made.line != hole.spot.line:
        kind += f", from line {hole.made.line}"
    amount = _amount(found, block_size)
    verb = "are" if " tokens" in amount else "is"
    message = f"{hole.what} ({_BY_USE if hole.doubt else kind}) {_claim(hole)}"
    message += f", so {amount} after it {verb} not reused"
    if hole.elsewhere:
        message += f"; the prompt is {f'`{hole.file}`' if hole.file else 'not in this file'}"
    if found.others:
        names = [other.hole.what for other in found.others]
        message += f"; {_listed(names)} after it {'changes' if len(names) == 1 else 'change'} too"
    if found.before and hole.doubt:
        message += f"; {_listed(found.before)} before it may change too"
    return _told(path, found, message, found.behind.tokens, 1.0 if hole.certain else BY_NAME, lines, block_size)


def _told(
    path: str, found: Found, message: str, tokens: int, confidence: float, lines: LineIndex, block_size: int
) -> Finding:
    hole = found.hole
    remedies = [remedy for remedy in find_entry(hole.kind.code).remedies if remedy.tier is not None]
    remedy = min(remedies, key=lambda one: one.tier or "")  # the safest; of equals the first
    excerpt, start = _excerpt(lines, hole.spot)
    return Finding.of(
        code=hole.kind.code,
        severity=_worst(found, block_size),
        group="",
        path=path,
        line=hole.spot.line,
        column=hole.spot.column,
        message=message,
        tokens_lost=tokens,
        fix=remedy.what,
        snippet=Snippet.of(excerpt, start, start + hole.spot.width),
        in_source=True,
        width=hole.spot.width,
        tier=remedy.tier,
        confidence=confidence,
    )


_CLAIMS = {
    JSON_KEYS: "may change the order of its keys",
    WINDOW: "drops the oldest messages turn by turn",
    CUT_SHORT: "changes messages that were sent before",
}


def _claim(hole: Hole) -> str:
    if hole.kind in _CLAIMS:
        return _CLAIMS[hole.kind]
    if hole.order:
        return f"changes its order {'each time' if hole.clock else 'in each process'}"
    return "changes"


def _excerpt(lines: LineIndex, spot: TemplatePlace) -> tuple[str, int]:
    """A part of a long line around the place, and where it begins in it; short lines are read from the file."""
    if spot.column < _LONG_LINE:
        return "", 0
    start = lines.start(spot.line) + spot.column - 1 - _AROUND
    stop = min(start + 4 * _AROUND, lines.start(spot.line + 1))
    return lines.text[start:stop].removesuffix("\n"), _AROUND


def _worst(found: Found, block_size: int) -> Severity:
    """The severity of what is reported, and of what is reported with it."""
    told = (found, *_costly(found))
    return max((_severity(one.hole, one.behind, one.prompt, block_size) for one in told), key=_SEVERITIES.index)


def _costly(found: Found) -> tuple[Found, ...]:
    """Return the findings merged into one that cost more than it does: after a value that differs per request, none does."""
    if often(found.hole) == EACH_REQUEST:
        return ()
    return tuple(other for other in found.others if other.hole.doubt != "open")


def _severity(hole: Hole, behind: FollowingText, prompt: int, block_size: int) -> Severity:
    """By the constant text after it, out of all of the prompt's (`diagnose.severity`); an error only of what surely varies."""
    if hole.minor or hole.doubt == "open" or _lasts(hole):
        return "info"
    sure = _is_sure(hole)
    if not sure and min(behind.sure if hole.doubt else behind.tokens, behind.movable) < THRESHOLDS.warned * block_size:
        return "info"
    tokens = behind.sure if hole.order else behind.tokens
    severity: Severity = "warning" if hole.leads or hole.elsewhere else severity_of(tokens, prompt)
    if severity == "info" and behind.unseen and hole.is_new:
        severity = "warning"
    return UNSURE_MOST if severity == "error" and (hole.capped or not sure) else severity


def _lasts(hole: Hole) -> bool:
    """Return whether a value stays for many requests: a day, what a process runs in, and what an object was made with."""
    return (
        hole.kind.key == DATE.key
        or hole.kind.code == ENVIRONMENT.code
        or (hole.doubt == "use" and _OF_OBJECT.match(hole.what) is not None)
    )


def _is_sure(hole: Hole) -> bool:
    """Return whether it is seen, or its whole name says, that something varies: a `current_time`, not a `user_plan`."""
    if hole.certain or hole.doubt or hole.capped or hole.kind is COUNTER:
        return hole.certain
    return sure_kind(hole.what.strip("`")) is hole.kind


def _badness(found: Found, block_size: int) -> tuple[int, bool, bool, int]:
    hole = found.hole
    return _SEVERITIES.index(_worst(found, block_size)), hole.certain, hole.doubt != "open", found.behind.tokens
