"""Output formats by name, with their extensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult

Writer = Callable[[CheckResult, WriteOptions], str]


@dataclass(frozen=True, slots=True)
class Format:
    """`module` has a function `write`; it is imported when it is needed. With `views` it shows what is drawn, too.

    A path ends in one of its `extensions`, or its last part is one of its `files`.
    """

    name: str
    what: str
    module: str
    extensions: tuple[str, ...] = ()
    views: bool = False
    files: tuple[str, ...] = ()

    def write(self, result: CheckResult, options: WriteOptions) -> str:
        """Return the whole file as text."""
        function: Writer = import_module(self.module).write
        return function(result, options)


FORMATS = {
    each.name: each
    for each in (
        Format("json", "everything, for a program", "kvtool.report.formats.json_document", (".json",), views=True),
        Format("markdown", "a comment on a pull request", "kvtool.report.markdown.comment", (".md", ".markdown")),
        Format("github", "annotations of GitHub Actions, and its step summary", "kvtool.report.formats.github"),
        Format("junit", "test results, for any CI", "kvtool.report.formats.junit", (".xml",)),
        Format("sarif", "SARIF 2.1.0, for code scanning", "kvtool.report.formats.sarif", (".sarif", ".sarif.json")),
        Format("gitlab", "GitLab's code quality report", "kvtool.report.formats.gitlab"),
        Format("html", "a report to send around: one file", "kvtool.report.html", (".html", ".htm"), views=True),
        Format(
            "ticket",
            "misses that the provider must explain, for its support",
            "kvtool.report.formats.ticket",
            files=("ticket.md",),
        ),
        Format("ticket-json", "the same, for a program", "kvtool.report.formats.ticket_json", files=("ticket.json",)),
        Format("csv", "a row for each group, for spreadsheets", "kvtool.report.formats.csv_table", (".csv",)),
        Format("svg", "the terminal report as a picture", "kvtool.report.formats.svg", (".svg",), views=True),
        Format(
            "text", "the terminal report without colour", "kvtool.report.formats.text_format", (".txt",), views=True
        ),
    )
}
