"""The edits that make the fixes which were kept, as unified diffs of the user's own files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.fixes.edits.apply import FileEdit, apply_edits
from kvtool.fixes.edits.patch import unified_patch
from kvtool.profiler.profiler import Profiler
from kvtool.results.finding import Finding
from kvtool.text.files.text_files import read_source
from kvtool.workload.yaml.yaml_source import YamlSource

_MOST_PATCHES = 8
"""Patches in a report; each takes several readings of the workload."""


def patches_of(profiler: Profiler, findings: Iterable[Finding]) -> dict[str, str]:
    """Return unified diffs of the user's own files, by the name of the fix, for the first fixes that can be written.

    Each contains its fix alone. Empty for anything but a workload file: logs cannot be edited.
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
    except KvtoolError:  # a file was deleted meanwhile
        return ""
    return unified_patch(_Changed(path, texts[path], text) for path, text in changed.items())
