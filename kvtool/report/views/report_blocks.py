"""The blocks of a profile that every format shows, in order. A new block is a file `views/NAME.py` and its line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module

from kvtool.report.views.section import Only, Section
from kvtool.results.report import Report


@dataclass(frozen=True, slots=True)
class ReportBlock:
    """The view in `views/NAME.py`, which is imported only for a report that `has` something for it."""

    name: str
    has: Callable[[Report], bool] = lambda _: True
    only: Only = "all"

    def section(self, report: Report) -> Section | None:
        """Return what the view says of the report; None where the report has nothing of it."""
        if not self.has(report):
            return None
        view: Callable[[Report], Section | None] = import_module(f"kvtool.report.views.{self.name}").view
        return view(report)


def sections(blocks: Iterable[ReportBlock], report: Report, form: Only) -> Iterator[Section]:
    """Yield the blocks of a report that a format shows."""
    for block in blocks:
        if block.only in ("all", form) and (section := block.section(report)) is not None:
            yield section


CAUSES = ReportBlock(
    "causes",
    lambda report: bool(report.causes) and (report.misses is None or not report.misses.rule_contradictions),
)
"""It is below the findings."""
COST = (
    ReportBlock("money", lambda report: report.money is not None or report.reported is not None),
    ReportBlock("misses", lambda report: report.misses is not None),
    ReportBlock("kv_events", lambda report: report.kv_events is not None),
)
"""Blocks below the answer; in a comment on a pull request as well."""
TOKENS = (
    ReportBlock(
        "sums", lambda report: report.sums is not None and (report.misses is None or report.misses.rows is None)
    ),
    ReportBlock("isolation", lambda report: report.isolation is not None),
)
"""Blocks below where the tokens went; in a comment on a pull request as well."""
TURNS = ReportBlock("turns", lambda report: any(len(group.turns) > 1 for group in report.groups))
"""It is below the groups."""
ENGINE = (ReportBlock("times"), ReportBlock("decode"), ReportBlock("alignment", only="terminal"), ReportBlock("memory"))
"""Details of the engine: at the end of a page, and in the terminal with `--details`."""
CONFIG = ReportBlock("config", only="pages")
LOGITS = ReportBlock("logits", lambda report: report.kv_cache_dtype is not None or report.ttft.measured is not None)
"""It is below the measured times."""
