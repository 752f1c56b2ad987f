"""JSON: of a profile its one report (`kvtool.report/1`), of anything else the whole check (`kvtool.check/1`)."""

from __future__ import annotations

from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.document_base import dump


def write(result: CheckResult, _options: WriteOptions) -> str:
    """Return one document with sorted keys; ratios from 0 to 1, times in seconds."""
    if result.command == "profile" and len(result.reports) == 1:
        return dump(result.reports[0])
    return dump(result)
