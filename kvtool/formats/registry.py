"""All formats by name, with the extensions that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from kvtool.formats.options import RenderOptions
from kvtool.result.check import CheckResult

Renderer = Callable[[CheckResult, RenderOptions], str]


@dataclass(frozen=True, slots=True)
class Format:
    """`module` has a function `render`; it is imported when it is needed."""

    name: str
    what: str
    module: str
    extensions: tuple[str, ...] = ()

    def render(self, result: CheckResult, options: RenderOptions) -> str:
        """The whole file as text."""
        function: Renderer = import_module(self.module).render
        return function(result, options)


FORMATS = {
    each.name: each
    for each in (
        Format("json", "everything, for a program", "kvtool.formats.json_document", (".json",)),
        Format("markdown", "a comment on a pull request", "kvtool.formats.markdown", (".md", ".markdown")),
        Format("github", "annotations of GitHub Actions, and its step summary", "kvtool.formats.github"),
        Format("junit", "test results, for any CI", "kvtool.formats.junit", (".xml",)),
        Format("sarif", "SARIF 2.1.0, for code scanning", "kvtool.formats.sarif", (".sarif", ".sarif.json")),
        Format("gitlab", "GitLab's code quality report", "kvtool.formats.gitlab"),
        Format("html", "a report to send around: one file", "kvtool.formats.html", (".html", ".htm")),
        Format("svg", "the terminal report as a picture", "kvtool.formats.svg", (".svg",)),
        Format("text", "the terminal report without colour", "kvtool.formats.text", (".txt",)),
    )
}
