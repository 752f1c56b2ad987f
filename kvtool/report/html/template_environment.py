"""Jinja environment of pages: whatever a template writes goes through `shown`, then is escaped; only `Markup` is not."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from kvtool.report.html.markup import arrows, prose, shown
from kvtool.text.terminal.numbers import plural


def template_environment() -> Environment:
    """Load the templates of this folder; a name that is missing raises."""
    environment = Environment(
        loader=PackageLoader("kvtool.report.html", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"plural": plural, "prose": prose, "arrows": arrows}
    return environment
