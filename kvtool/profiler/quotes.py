"""What findings quote in machine output where `--show-text` asks for it: the line that is meant."""

from __future__ import annotations

from collections.abc import Mapping

from kvtool.diagnose.finding_line import QuotedLine, quoted_line, redacted_line
from kvtool.results.finding import ExamplePair, Finding, Snippet
from kvtool.results.show_text import ShowText

_AROUND = 200
"""Characters before and behind what is meant that are quoted of a long line."""


def quoted(finding: Finding, show_text: ShowText, patches: Mapping[str, str] | None = None) -> Finding:
    """The finding with as much of prompts as may be saved: its line, and with `full` the patch of its fix (`patches_of`)."""
    patch = patches.get(finding.fix_key) if patches and show_text == "full" else None
    example = None if finding.example is None else _quoted_pair(finding.example, show_text)
    return finding.model_copy(update={"snippet": snippet_of(finding, show_text), "example": example, "patch": patch})


def _quoted_pair(example: ExamplePair, show_text: ShowText) -> ExamplePair:
    """The pair with as much of its lines as may be saved."""
    lines = {
        name: None if line is None or show_text == "none" else _shown(QuotedLine.of(line), show_text)
        for name, line in (("was_line", example.was_line), ("now_line", example.now_line))
    }
    return example.model_copy(update=lines)


def snippet_of(finding: Finding, show_text: ShowText) -> Snippet | None:
    """The line that a finding is about, and the range that is meant in it; None where none may be shown or is known.

    `snippet` blacks out what looks secret in the whole line, before a long one is cut.
    """
    line = quoted_line(finding) if show_text != "none" and finding.line else None
    return None if line is None else _shown(line, show_text)


def _shown(line: QuotedLine, show_text: ShowText) -> Snippet:
    """The line as it may be shown, what is meant in a long one and a part of it around."""
    if show_text == "snippet":
        line = redacted_line(line)
    text, start, stop = line.text.rstrip("\r\n"), line.start, line.start + line.width
    start = min(start, len(text))
    stop = min(max(stop, start), len(text))
    first, last = max(start - _AROUND, 0), min(stop + _AROUND, len(text))
    return Snippet(text=text[first:last], start=start - first, stop=stop - first)
