"""kvtool: prefix-cache profiling and prompt optimization.

The names in `__all__` are its API. They are imported when they are first used: `import kvtool` alone costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.version import __version__

if TYPE_CHECKING:
    from kvtool.api import check, diff_prompts, load, profile
    from kvtool.diff.prompts import PromptDiff
    from kvtool.errors import KvtoolError, NotAvailableError
    from kvtool.results.check import CheckResult
    from kvtool.results.finding import Finding
    from kvtool.results.report import Report
    from kvtool.results.verdict import Verdict

__all__ = [
    "CheckResult",
    "Finding",
    "KvtoolError",
    "NotAvailableError",
    "PromptDiff",
    "Report",
    "Verdict",
    "__version__",
    "check",
    "diff_prompts",
    "load",
    "profile",
]

_HOMES = {
    "CheckResult": "kvtool.results.check",
    "Finding": "kvtool.results.finding",
    "KvtoolError": "kvtool.errors",
    "NotAvailableError": "kvtool.errors",
    "PromptDiff": "kvtool.diff.prompts",
    "Report": "kvtool.results.report",
    "Verdict": "kvtool.results.verdict",
    "check": "kvtool.api",
    "diff_prompts": "kvtool.api",
    "load": "kvtool.api",
    "profile": "kvtool.api",
}
"""The module that each name of the API is in."""


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value  # found at once the next time
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
