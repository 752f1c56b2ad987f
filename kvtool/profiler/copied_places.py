"""Findings in prompts that a workload file has as copies: each names the place in the code that it is from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvtool.results.finding import Finding, copy_note

if TYPE_CHECKING:
    from kvtool.workload.yaml.yaml_source import YamlSource


def with_copied_places(findings: Iterable[Finding], source: YamlSource | None) -> list[Finding]:
    """Return the findings; those in a copy note where it is from."""
    if source is None:
        return list(findings)
    from kvtool.workload.yaml.made_up_values import copied_from

    found: list[Finding] = []
    for one in findings:
        is_there = one.line and one.path == source.path
        place = copied_from(source.document.source, one.line) if is_there else None
        note = [] if place is None else [copy_note(place)]
        found.append(one.model_copy(update={"warnings": [*one.warnings, *note]}) if note else one)
    return found
