"""What the package promptcachelint says about a planted scenario, as far as its findings can be compared with kvtool's.

Its CL012 (a pattern that looks volatile) has a value and is named by it; CL001 (the cached prefix changed) has a place and no
name, so it counts as varying text around that place; CL002 (tools changed) is taken for tools in another order. The others are
about breakpoints, sizes and time. The package pcdlint is no peer here: it reads Python source, and a log has none.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from planted import Scenario

from kvtool.diagnose.values.classify import classify, classify_in

Span = tuple[str, int, int]


def installed() -> bool:
    """Whether the package can be imported."""
    return importlib.util.find_spec("promptcachelint") is not None


def findings(case: Scenario) -> list[tuple[str, Span | None]]:
    """Codes of kvtool's and spans, each place once."""
    recorder: Any = importlib.import_module("promptcachelint.recorder").Recorder()
    for number in range(case.requests):
        body = case.record(number)
        del body["session_id"]
        recorder.record("openai", {"model": "gpt-5", **body}, session_id="all", at=float(number))
    report: Any = importlib.import_module("promptcachelint.analyze").analyze(recorder.records)
    told: dict[tuple[str, str], Span | None] = {}
    for request in (request for session in report.sessions for request in session.requests):
        for finding in request.findings:
            if finding.code == "CL002":
                told.setdefault(("KV111", ""), None)
            elif finding.code in ("CL001", "CL012") and finding.path == "messages[0]" and finding.offset is not None:
                text = request.record.body["messages"][0]["content"]
                size = len(finding.excerpt) if finding.code == "CL012" else 0
                code = classify(finding.excerpt).code if size else "KV201"
                _, start, stop = classify_in(text, finding.offset, finding.offset + size)
                low = text.rfind("\n", 0, start) + 1
                line = text[low:].split("\n", 1)[0]
                told.setdefault((code, line[: start - low]), (line, start - low, stop - low))
    return [(code, span) for (code, _), span in told.items()]
