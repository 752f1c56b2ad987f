"""A page for every diagnostic code, from the files that `kvtool explain` shows."""

from __future__ import annotations

from docs.generators.pages import fenced
from kvtool.diagnose.codes import TIERS, CodeEntry, entries
from kvtool.diagnose.severity import EXCEPTIONS, RULE, severity_text
from kvtool.lint.findings.template_findings import BY_NAME

FAMILIES = {
    "KV0": "Comments that ignore",
    "KV1": "Text that varies",
    "KV2": "Layout of the prompt",
    "KV3": "What the run does",
    "KV4": "Gates",
}
_NOTE = "<!-- Made by python -m docs.generate from kvtool/diagnose/codes; do not edit. -->"


def pages() -> dict[str, str]:
    """File names and texts: one page for each code, and `index.md` with all of them."""
    made = {f"{entry.code}.md": _page(entry) for entry in entries()}
    return {"index.md": _index(), **made}


def _page(entry: CodeEntry) -> str:
    lines = [
        f"# {entry.code}: {_prose(entry.name)}",
        "",
        _NOTE,
        "",
        _prose(entry.what),
        "",
        "## Why it costs",
        "",
        _prose(entry.why),
        "",
        *_severity(entry),
        "## Example",
        "",
        "Before:",
        "",
        fenced(entry.before, "text"),
        "",
        "After:",
        "",
        fenced(entry.after, "text"),
        "",
        "## What to do",
        "",
        "| tier | change |",
        "|---|---|",
    ]
    lines += [f"| {remedy.tier or '-'} | {_prose(remedy.what)} |" for remedy in entry.remedies]
    used = sorted({remedy.tier for remedy in entry.remedies if remedy.tier is not None})
    if used:
        told = "; ".join(f"**{tier}**: {TIERS[tier]}" for tier in used)
        lines += ["", f"{told}. See [advice and proof tiers](../advice.md)."]
    lines += ["", "## When to ignore it", "", _prose(entry.ignore)]
    if entry.can_be_ignored:
        comment = fenced(f"# kvtool: ignore[{entry.code}] the reason", "text")
        lines += ["", "A comment silences it, in YAML and Python (in a template: `{# … #}`):", "", comment]
    lines += ["", f"In the terminal: `kvtool explain {entry.code}`. All codes: [diagnostics](index.md).", ""]
    return "\n".join(lines)


def _severity(entry: CodeEntry) -> list[str]:
    told = severity_text(entry.code)
    return ["## How severe", "", _prose(told), ""] if told else []


def _rule() -> list[str]:
    """The one rule of severities, with its thresholds, and where something else decides."""
    lines = [
        "## How severe a finding is",
        "",
        "One rule holds for `lint`, `profile` and `check`: a finding is as severe as what a request loses by it. That is the",
        "tokens that stand behind the place and would be the same in other requests. A run counts them, whichever of several",
        "places before a token is to blame for it; of a file that is only read they are the constant text behind the place, out",
        "of all constant text of the prompt. How sure a finding is, is another question: its `confidence` says that, and what",
        f"a name alone tells has {BY_NAME}.",
        "",
        "| severity | where |",
        "|---|---|",
        *(f"| {severity} | {_prose(when)} |" for severity, when in RULE.items()),
        "",
        "`--error-on` says from which on `lint` fails. Something else decides, too, for",
        "",
    ]
    return [*lines, *(f"- [{code}]({code}.md): {_prose(_own(text))}" for code, text in EXCEPTIONS.items())]


def _own(text: str) -> str:
    """What a text says beside the rule."""
    return text.removeprefix(severity_text("KV102")).strip()


def _index() -> str:
    lines = [
        "# Diagnostics",
        "",
        _NOTE,
        "",
        "Every finding has a code. Codes are never reused. `kvtool explain CODE` shows the same text in the terminal, and",
        "`kvtool explain --list` all of them.",
        "",
        "A finding with a proof tier can be fixed, and where it says a gain, kvtool has tried the fix;",
        "[advice and proof tiers](../advice.md) says what each proves.",
        "",
        *_rule(),
    ]
    for family, title in FAMILIES.items():
        lines += ["", f"## {title}", "", "<!-- pages -->"]
        for entry in entries():
            if entry.code.startswith(family):
                lines.append(f"- [{entry.code}]({entry.code}.md): {_prose(entry.name)}")
        lines += ["<!-- /pages -->"]
    return "\n".join([*lines, ""])


def _prose(text: str) -> str:
    """Plain text as Markdown that shows it: what stands in `backticks` there is code here, too."""
    pieces = text.split("`")
    for number in range(0, len(pieces), 2):
        for sign in "\\*_<>[]{}|":
            pieces[number] = pieces[number].replace(sign, f"\\{sign}")
    return "`".join(pieces)
