"""Quote findings in machine output, by `--show-text`: the line in question."""

from __future__ import annotations

from collections.abc import Mapping

from kvtool.diagnose.finding_line import QuotedLine, quoted_line, redacted_line
from kvtool.results.finding import ExamplePair, Finding, Snippet
from kvtool.results.show_text import ShowText

_AROUND = 200
"""Characters quoted of a long line before and after the range in question."""


def quoted(finding: Finding, show_text: ShowText, patches: Mapping[str, str] | None = None) -> Finding:
    """Return the finding with as much of prompts as may be saved: its line, and with `full` the patch of its fix (`patches_of`)."""
    patch = patches.get(finding.fix_key) if patches and show_text == "full" else None
    example = None if finding.example is None else _quoted_pair(finding.example, show_text)
    return finding.model_copy(update={"snippet": snippet_of(finding, show_text), "example": example, "patch": patch})


def _quoted_pair(example: ExamplePair, show_text: ShowText) -> ExamplePair:
    """Return the pair with as much of its lines as may be saved."""
    lines = {
        name: None if line is None or show_text == "none" else _shown(QuotedLine.of(line), show_text)
        for name, line in (("was_line", example.was_line), ("now_line", example.now_line))
    }
    return example.model_copy(update=lines)


def snippet_of(finding: Finding, show_text: ShowText) -> Snippet | None:
    """Return the line of a finding, and its range; None if it may not be shown or is unknown.

    `snippet` blacks out secrets in the whole line, before a long one is cut.
    """
    line = quoted_line(finding) if show_text != "none" and finding.line else None
    return None if line is None else _shown(line, show_text)


def _shown(line: QuotedLine, show_text: ShowText) -> Snippet:
    """Return the line as it may be shown: of a long one, the range and a part around it."""
    if show_text == "snippet":
        line = redacted_line(line)
    text, start, stop = line.text.rstrip("\r\n"), line.start, line.start + line.width
    start = min(start, len(text))
    stop = min(max(stop, start), len(text))
    first, last = max(start - _AROUND, 0), min(stop + _AROUND, len(text))
    return Snippet(text=text[first:last], start=start - first, stop=stop - first)
