"""The options of `kvtool lint`: reported codes, read files, and the probe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kvtool.config import bounds
from kvtool.config.option import Option, Panel
from kvtool.results.choices import Severity

ERROR_ON: Severity = "error"


@dataclass(frozen=True, kw_only=True)
class Selecting:
    """Findings that `kvtool lint` reports, and those that fail it."""

    PANEL: ClassVar = Panel.COMMON
    select: Annotated[
        tuple[str, ...],
        Option(
            "Codes to report: KV101,KV104, or KV1 for a whole class; repeatable.", "CODES", table="lint", words="all"
        ),
    ] = ()
    ignore: Annotated[
        tuple[str, ...], Option("Codes to leave out; repeatable.", "CODES", table="lint", words="none")
    ] = ()
    error_on: Annotated[
        Severity | None, Option("Lowest severity that makes the exit code 1.", table="lint", default=ERROR_ON)
    ] = None

    @property
    def least(self) -> Severity:
        """Return the lowest severity that fails lint."""
        return self.error_on or ERROR_ON


DEFAULT_EXCLUDES = (
    *(".git", ".hg", ".svn", ".bzr", ".venv", "venv", "env", ".env", ".tox", ".nox", ".eggs", "*.egg-info", ".direnv"),
    *("__pycache__", "__pypackages__", "site-packages", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"),
    *(
        ".ipynb_checkpoints",
        ".idea",
        ".vscode",
        "node_modules",
        "bower_components",
        "build",
        "_build",
        "dist",
        "target",
    ),
    *("vendor", "htmlcov", ".kvtool"),
    *("test_*.py", "*_test.py", "*_tests.py", "conftest.py"),
    *("*.test.[cm][jt]s", "*.test.[jt]s", "*.test.[jt]sx", "*.spec.[cm][jt]s", "*.spec.[jt]s", "*.spec.[jt]sx"),
    *(
        "__tests__/",
        "__mocks__/",
        "mocks/",
        "mock/",
        "mock_*.py",
        "*.d.ts",
        "*.d.mts",
        "*.d.cts",
        "*.min.js",
        ".next",
        ".nuxt",
        ".svelte-kit",
    ),
    *("tests/", "test/", "docs/", "examples/", "*_examples/", "*icl_example*/", "_example*/"),
)
"""Files that are never read, as patterns of `.gitignore`: version control, installed packages, what tools make, tests, and
what shows people or models how something is done."""


@dataclass(frozen=True, kw_only=True)
class Walking:
    """Files of a folder to read."""

    PANEL: ClassVar = Panel.COMMON
    include: Annotated[
        tuple[str, ...],
        Option(
            "Pattern of text files in folders to read as prompts; repeatable.",
            "PATTERN",
            table="lint",
            words='names with "prompt"',
        ),
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        Option("Pattern of files in folders to skip; repeatable.", "PATTERN", table="lint", words="what git ignores"),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class Probing:
    """The prompt builder that --probe runs."""

    PANEL: ClassVar = Panel.ADVANCED
    probe: Annotated[
        str | None, Option("Prompt builder to RUN many times: 'python build.py' or module:function.", "SPEC")
    ] = None
    probe_timeout: Annotated[
        float, Option("Time limit of each run of --probe.", "SECONDS", check=bounds.some_seconds)
    ] = 30.0
