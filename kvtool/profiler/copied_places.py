"""Notes on findings whose text is written elsewhere: a prompt that a workload file has as a copy, the text of a macro."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kvtool.errors import KvtoolError
from kvtool.results.finding import Finding, copy_note
from kvtool.text.files.text_files import read_text

if TYPE_CHECKING:
    from kvtool.workload.yaml.yaml_source import YamlSource

_MACRO = re.compile(r"\{%[-+]?\s*(?:macro\s+(\w+)|endmacro\b)")


def with_copied_places(findings: Iterable[Finding], source: YamlSource | None) -> list[Finding]:
    """Return the findings; those in a copy note where it is from, those in a macro what to move in place of its text."""
    if source is None:
        return list(findings)
    from kvtool.workload.yaml.made_up_values import copied_from

    found: list[Finding] = []
    texts: dict[str, str] = {source.path: source.document.source}
    for one in findings:
        notes: list[str] = []
        if one.line and one.path not in texts:
            texts[one.path] = ""
            with suppress(KvtoolError):
                texts[one.path] = read_text(Path(one.path), shown=one.path, overlay=source.overlay)
        if one.line and one.path == source.path:
            place = copied_from(source.document.source, one.line)
            notes += [] if place is None else [copy_note(place)]
        if one.line and (macro := macro_at(texts[one.path], one.line, one.column)) is not None:
            notes.append(f"the macro `{macro}` writes this text: move the call of `{macro}`, not the macro")
        found.append(one.model_copy(update={"warnings": [*one.warnings, *notes]}) if notes else one)
    return found


def macro_at(text: str, line: int, column: int) -> str | None:
    """Return the name of the Jinja macro that a place in a text is in, both counted from 1; None where it is in none."""
    offset = sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1
    before = [found for found in _MACRO.finditer(text) if found.start() <= offset]
    return before[-1][1] if before else None
