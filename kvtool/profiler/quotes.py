"""What findings quote in machine output where `--show-text` asks for it: the line that is meant, and the edit that mends it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kvtool.diagnose.meant_line import meant_line, redacted_line
from kvtool.errors import KvtoolError
from kvtool.fixes.edits.apply import apply_edits
from kvtool.fixes.edits.edit import FileEdit
from kvtool.fixes.edits.patch import unified_patch
from kvtool.results.finding import Finding, Snippet
from kvtool.results.show_text import ShowText
from kvtool.text.files.text_files import read_source
from kvtool.workload.yaml.yaml_source import YamlSource

if TYPE_CHECKING:
    from kvtool.profiler.profiler import Profiler

_MOST_PATCHES = 8
"""Each takes some readings of the workload."""
_AROUND = 200
"""Characters before and behind what is meant that are quoted of a long line."""


def quoted(finding: Finding, show_text: ShowText, patches: Mapping[str, str] | None = None) -> Finding:
    """The finding with as much of prompts as may be saved: its line, and with `full` the patch of its fix (`patches_of`)."""
    patch = patches.get(finding.fix_key) if patches and show_text == "full" else None
    return finding.model_copy(update={"snippet": snippet_of(finding, show_text), "patch": patch})


def snippet_of(finding: Finding, show_text: ShowText) -> Snippet | None:
    """The line that a finding is about, and the range that is meant in it; None where none may be shown or is known.

    `snippet` blacks out what looks secret in the whole line, before a long one is cut.
    """
    line = meant_line(finding) if show_text != "none" and finding.line else None
    if line is None:
        return None
    if show_text == "snippet":
        line = redacted_line(line)
    text, start, stop = line.text.rstrip("\r\n"), line.start, line.start + line.width
    start = min(start, len(text))
    stop = min(max(stop, start), len(text))
    first, last = max(start - _AROUND, 0), min(stop + _AROUND, len(text))
    return Snippet(text=text[first:last], start=start - first, stop=stop - first)


def patches_of(profiler: Profiler, findings: Iterable[Finding]) -> dict[str, str]:
    """Unified diffs of the user's own files, by the name of the fix, of the first fixes that can be written into them.

    Each is of its fix alone. Empty for anything but a workload file: logs cannot be edited.
    """
    source = profiler.source
    if profiler.advice is None or not isinstance(source, YamlSource):
        return {}
    fixes = {fix.name: fix for fix in profiler.advice.fixes}
    names = dict.fromkeys(finding.fix_key for finding in findings if finding.fix_key in fixes)
    patches = ((name, _patch(profiler.edits_of(fixes[name]), source)) for name in list(names)[:_MOST_PATCHES])
    return {name: patch for name, patch in patches if patch}


@dataclass(frozen=True, slots=True)
class _Changed:
    path: str
    before: str
    after: str


def _patch(edits: list[FileEdit] | str, source: YamlSource) -> str:
    """Empty where no edit makes the fix."""
    if isinstance(edits, str):
        return ""
    try:
        texts = {
            path: read_source(Path(path), overlay=source.overlay) for path in dict.fromkeys(one.path for one in edits)
        }
        changed = apply_edits(texts, edits)
    except KvtoolError:  # a file has gone since
        return ""
    return unified_patch(_Changed(path, texts[path], text) for path, text in changed.items())
