"""Findings in templates, where no traffic tells what varies: severity from the constant text that stands behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvtool.diagnose.codes import find_entry
from kvtool.diagnose.codes.kv107 import KV107
from kvtool.diagnose.codes.kv201 import KV201
from kvtool.diagnose.severity import severity_of
from kvtool.lint.skeleton import Behind, Found, Hole, Node, TemplatePlace, holes
from kvtool.lint.volatile import JSON_KEYS
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding, Snippet

BY_NAME = 0.5
"""The confidence of what only a name, or a use, says."""
OPEN = 0.2
"""The confidence of what nothing says: it may be the same in all requests."""
_OPEN_BLOCKS = 4
"""Blocks of constant text that must follow for that to be told."""
_MOST_NAMES = 4
_BY_USE = "another text in each request, by its use"
_LONG_LINE = 1500
_AROUND = 60


def static_findings(
    path: str,
    text: str,
    prompts: Iterable[Iterable[Node]],
    count: Callable[[str], int],
    *,
    block_size: int,
    least: int,
    unsure: int = 0,
) -> list[Finding]:
    """The findings of the prompts of one file, by place; a place that several prompts use counts where it is worst.

    `count` gives the tokens of a text; with fewer than `least` tokens of constant text behind it, nothing is told; `unsure` is
    the same for what is known by its name only.
    """
    worst: dict[tuple[int, int, str], Found] = {}
    for nodes in prompts:
        for found in holes(nodes, count):
            hole = found.hole
            key = (hole.spot.line, hole.spot.column, hole.kind.code)
            if not hole.leads and not hole.elsewhere and found.behind.tokens < _needed(hole, least, unsure, block_size):
                continue
            if key not in worst or _badness(worst[key]) < _badness(found):
                worst[key] = found
    told = [worst[key] for key in sorted(worst)]
    findings = [_finding(path, found, block_size, text) for found in told if found.hole.doubt != "open"]
    for code in (KV107.code, KV201.code):
        doubtful = [found for found in told if found.hole.doubt == "open" and found.hole.kind.code == code]
        if doubtful:
            findings.append(_open_finding(path, doubtful, block_size, text))
    return sorted(findings, key=lambda one: (one.line, one.column, one.code))


def _needed(hole: Hole, least: int, unsure: int, block_size: int) -> int:
    if hole.doubt == "open":
        return max(least, _OPEN_BLOCKS * block_size)
    return least if hole.certain else max(least, unsure)


def _open_finding(path: str, founds: list[Found], block_size: int, text: str) -> Finding:
    """One for all placeholders of a file of which nothing tells whether they vary, at the first of them."""
    most = max(founds, key=lambda found: found.behind.tokens)
    names = list(dict.fromkeys(found.hole.what for found in founds))
    shown = names[:_MOST_NAMES]
    if len(names) > len(shown):
        listed = f"{', '.join(shown)} and {len(names) - len(shown):,} more"
    else:
        listed = f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]
    one = len(names) == 1
    if founds[0].hole.kind.code == KV107.code:
        claim = f"{listed}, which decide{'s' if one else ''} whether text is there, stand{'s' if one else ''} before"
    else:
        claim = f"{listed} stand{'s' if one else ''} before"
    if_so = f"if {'it differs' if one else 'they differ'} from request to request, that is computed anew for each value"
    return _told(
        path,
        founds[0],
        f"{claim} {_amount(most, block_size, at_most=not one)}; {if_so}",
        most.behind.tokens,
        OPEN,
        text,
    )


def _amount(found: Found, block_size: int, *, at_most: bool = False) -> str:
    behind = found.behind
    if found.hole.leads:
        return "the whole conversation"
    if found.hole.elsewhere:
        return "whatever follows it in a prompt that is not written here"
    blocks = behind.tokens // block_size
    about = "about" if behind.sure == behind.tokens and not at_most else "up to"
    return f"{about} {behind.tokens:,} tokens ({blocks:,} {'block' if blocks == 1 else 'blocks'}) of constant text"


def _finding(path: str, found: Found, block_size: int, text: str) -> Finding:
    hole = found.hole
    kind = f"{hole.kind.name}{'' if hole.certain else ', by its name'}"
    message = f"{hole.what} ({_BY_USE if hole.doubt else kind}) {_claim(hole)} {_amount(found, block_size)}"
    return _told(path, found, message, found.behind.tokens, 1.0 if hole.certain else BY_NAME, text)


def _told(path: str, found: Found, message: str, tokens: int, confidence: float, text: str) -> Finding:
    hole = found.hole
    remedies = [remedy for remedy in find_entry(hole.kind.code).remedies if remedy.tier is not None]
    remedy = min(remedies, key=lambda one: one.tier or "")  # the safest; of equals the first
    excerpt, start = _excerpt(text, hole.spot)
    return Finding.of(
        code=hole.kind.code,
        severity=_severity(hole, found.behind, found.prompt),
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


def _claim(hole: Hole) -> str:
    if hole.kind is JSON_KEYS:
        return "keeps the order in which keys were added, and stands before"
    return "gives another order in another process, before" if hole.order else "stands before"


def _excerpt(text: str, spot: TemplatePlace) -> tuple[str, int]:
    """A part of a long line around the place, and where it begins in it; short lines are read from the file."""
    if spot.column < _LONG_LINE:
        return "", 0
    start = 0
    for _ in range(spot.line - 1):
        start = text.find("\n", start) + 1
    start += spot.column - 1 - _AROUND
    stop = text.find("\n", start)
    return text[start : min(start + 4 * _AROUND, stop if stop >= 0 else len(text))], _AROUND


def _severity(hole: Hole, behind: Behind, prompt: int) -> Severity:
    """By the constant text behind it, out of all of the prompt's (`diagnose.severity`)."""
    if hole.minor or hole.doubt == "open":
        return "info"
    severity: Severity = "warning" if hole.leads else severity_of(behind.tokens, prompt)
    return "warning" if severity == "error" and (hole.capped or hole.doubt) else severity


def _badness(found: Found) -> tuple[int, bool, int]:
    severity = _severity(found.hole, found.behind, found.prompt)
    return ("info", "warning", "error").index(severity), found.hole.certain, found.behind.tokens
