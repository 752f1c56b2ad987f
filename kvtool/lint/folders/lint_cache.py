"""Results of earlier runs, for files that did not change: one cache file for each folder and set of options.

It lies in the user's cache folder, not in the project: a linter writes nothing there. An entry is valid for the content of its
file and of those that it imports texts from, the options and this very program. It may quote prompts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kvtool.lint.findings.file_result import JudgedText
from kvtool.lint.lint_inputs import TextInput
from kvtool.text.files.result_cache import ResultCache, code_state, hash_of, kvtool_cache
from kvtool.version import __version__


class LintCache:
    """The results of one folder; to be asked for each file, reported what was new, and closed."""

    def __init__(self, folder: Path | None, options: Sequence[object]) -> None:
        """`folder` is where caches lie, None: nowhere. `options` are all that decides a result beside the files."""
        code = code_state("lint", "text", "diagnose", "results", "workload")
        self._cache = ResultCache(folder, (__version__, code, os.getcwd(), *options), forgets=True)  # noqa: PTH109

    def known(self, one: TextInput) -> JudgedText | None:
        """The result of the file, where it is as it was."""
        found = self._cache.known(one.path, self._key(one))
        if found is None:
            return None
        imports, _, packed = found.partition(" ")
        try:
            judged = JudgedText.unpacked(packed)
            return judged if imports == _imports(judged) else None
        except (ValueError, KeyError, TypeError, AttributeError):
            self._cache.drop(one.path)
            return None

    def add(self, one: TextInput, result: JudgedText) -> None:
        """Keep a result; not of a file that could not be read."""
        if result.error is None:
            self._cache.add(one.path, self._key(one), f"{_imports(result)} {result.packed()}")

    def close(self) -> None:
        """Write what is new; files that were not asked for are forgotten where others were."""
        self._cache.close()

    def _key(self, one: TextInput) -> str:
        return hash_of(
            f"{one.kind}\0{one.style}\0{one.found}\0{one.marks}\0{one.passed}\0{one.included}\0{one.children}\0{one.text}".encode(
                "utf-8", "surrogatepass"
            )
        )


def _imports(result: JudgedText) -> str:
    """Return a hash of the files that decide what a file imports."""
    return hash_of("".join(map(file_hash, result.imported)).encode()) if result.imported else "-"


def cache_folder() -> Path | None:
    """Return the folder of lint's caches; None where the system names none."""
    return kvtool_cache("lint")


def file_hash(path: str) -> str:
    """Return the hash of a file's content; empty where it is no file, or cannot be read."""
    try:
        return hash_of(Path(path).read_bytes())
    except (OSError, ValueError):
        return ""
