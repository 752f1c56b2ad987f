"""The document of `kvtool explain`: what codes mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvtool.diagnose.severity import severity_text
from kvtool.results.documents.explain import Entry, ExplainDocument, Remedy

if TYPE_CHECKING:
    from kvtool.diagnose.codes import CodeEntry


def explained(entries: Iterable[CodeEntry]) -> ExplainDocument:
    """Return the document of these entries."""
    return ExplainDocument(schema="kvtool.explain/1", entries=[_document(entry) for entry in entries])


def _document(entry: CodeEntry) -> Entry:
    return Entry(
        code=entry.code,
        name=entry.name,
        what=entry.what,
        why=entry.why,
        before=entry.before,
        after=entry.after,
        fixes=[Remedy.taken_from(remedy) for remedy in entry.remedies],
        ignore_when=entry.ignore,
        severity=severity_text(entry.code),
    )
