"""The settings that the figures depend on."""

from __future__ import annotations

from kvtool.report.views.section import Section
from kvtool.results.report import Report


def view(report: Report) -> Section:
    """Return all of them, in the order of their names."""
    lead = "The same settings and the same input give the same figures on any machine."
    settings = [(key, _setting(value)) for key, value in sorted(report.config.items())]
    return Section("config", "Configuration", (lead,), settings=settings)


def _setting(value: str | float | bool | None) -> str:
    if value is None:
        return "not set"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
