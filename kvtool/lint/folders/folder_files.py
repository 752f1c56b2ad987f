"""The files that `kvtool lint FOLDER` reads: templates, code, workloads, files that hold prompts, and texts named or written so.

What git leaves out is left out, and folders of tools and installed packages; links to folders are not followed, so a walk ends,
and links to files only where these lie in the repository, without one in the folder.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kvtool.config.loading import ConfigFile
from kvtool.config.options.lint_options import DEFAULT_EXCLUDES, Walking
from kvtool.errors import KvtoolError
from kvtool.lint.evidence.prompt_evidence import speaks_of_models
from kvtool.lint.evidence.unnamed_prompts import UNNAMED_SUFFIXES, is_named_prompt, is_unnamed_prompt
from kvtool.lint.formats.prompt_formats import FORMAT_SUFFIXES, may_hold_prompts
from kvtool.lint.lint_inputs import (
    CODE_BYTES,
    CODE_SUFFIXES,
    MARKUP_SUFFIX,
    MOST_DATA_BYTES,
    OTHER_CODE,
    TEMPLATE_BYTES,
    TEMPLATE_SUFFIXES,
    TYPESCRIPT_SUFFIXES,
    WORKLOAD_SUFFIXES,
)
from kvtool.text.files.ignored import PatternsAt, git_rules, leaves_out, own_rules
from kvtool.text.files.root_folder import RootFolder, git_root
from kvtool.text.terminal.numbers import in_words, plural
from kvtool.workload.logs.files.plain_text_files import PLAIN_SUFFIXES

OUTSIDE = "not read: this link leads out of the repository"
MINIFIED = "minified: it is made from other code"
OTHER_LANGUAGE = "not read: kvtool lint reads Python, TypeScript and JavaScript"
_WORKLOAD = re.compile(rb"^groups[ \t]*:", re.MULTILINE)
_VERSION = re.compile(rb"^version[ \t]*:", re.MULTILINE)
_START = 8192
_READ = {"data": MOST_DATA_BYTES, "typescript": CODE_BYTES}
"""Bytes that are looked at of files of a kind, where it is more than their beginning."""
_OTHER_CODE = tuple(OTHER_CODE)
_BUILT = ("dist", "build")
_LONGEST_LINE = 2_000
"""Characters of a line on average, above which nobody wrote a file by hand: it was made from others."""
_OTHER_TEMPLATES = re.compile(
    r"\.(x?html?|css|s[ac]ss|[jt]sx?|vue|svg|xml|ya?ml|json|csv|sql|conf|cfg|cnf|ini|toml|properties|plist|env|lock|list|repo|rules"
    r"|service|timer|socket|desktop|tf|sh|bash|bat|cmd|ps1|mk|cmake|gradle|py|ipynb|c|cc|cpp|h|hpp|go|rs|rb|java|kt|php|lua|pl"
    r"|rst|tex|opf|ncx|po)$|^(?:make|docker|jenkins|vagrant)file$",
    re.IGNORECASE,
)
"""What a template makes that is no prompt, by the name before its own suffix."""
_NOT_PROMPTS = re.compile(r"readme|license|changelog|contributing|requirements|skill\.md$", re.IGNORECASE)
"""Documents; nothing fills a skill of a coding agent, which reads it as it is."""


@dataclass(frozen=True, slots=True)
class WalkRules:
    """Patterns for the files of a folder: `exclude` leaves out, `include` reads texts whatever they are called."""

    include: tuple[PatternsAt, ...] = ()
    exclude: tuple[PatternsAt, ...] = ()


def walk_rules(asked: Walking, file: ConfigFile | None) -> WalkRules:
    """The patterns of the command line, which count from the working folder, over those of the configuration file."""
    found: dict[str, tuple[PatternsAt, ...]] = {}
    for name in ("include", "exclude"):
        given: tuple[str, ...] = getattr(asked, name)
        folder = os.getcwd()  # noqa: PTH109
        if not given and file is not None:
            given = tuple(getattr(file.config.lint, name))
            folder = os.path.dirname(os.path.abspath(file.path))  # noqa: PTH100, PTH120
        found[name] = (PatternsAt.of(folder, given),) if given else ()
    return WalkRules(**found)


@dataclass(slots=True)
class Project:
    """Paths as the user would write them, in order; `left_out` says why of files that are named as prompts and are no text, and
    of `outside`: links that lead out of the repository."""

    paths: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Files of code that speak of models, in languages that lint does not read."""
    problems: list[KvtoolError] = field(default_factory=list)


def project_files(folder: str, rules: WalkRules = WalkRules()) -> Project:
    """Find the files of a folder that lint reads. Folders that cannot be entered are problems; all others are read all the same."""
    project = Project()
    start = os.path.abspath(folder)  # noqa: PTH100 - Path would keep `..`
    defaults = PatternsAt.of(start, DEFAULT_EXCLUDES)
    real = os.path.realpath(start)
    root = RootFolder(git_root(real) or real)
    built = os.path.basename(start) in _BUILT  # noqa: PTH119
    for path, name in _walk(start, git_rules(start), (defaults, *rules.exclude), project):
        shown = os.path.normpath(os.path.join(folder, os.path.relpath(path, start)))  # noqa: PTH118
        if name.lower().endswith(_OTHER_CODE):
            project.unread += [shown] if not os.path.islink(path) and _speaks_of_models(path) else []  # noqa: PTH114
            continue
        kind = _kind(path, name, shown, rules)
        if kind is None:
            continue
        if os.path.islink(path) and not root.holds(path):  # noqa: PTH114 - a string, of which there are many
            project.outside.append(shown)
            project.left_out.append((shown, OUTSIDE))
            continue
        reason = _unfit(path, kind, shown, built=built)
        if reason is None:
            project.paths.append(shown)
        elif reason:
            project.left_out.append((shown, reason))
    return project


def built_folder(folder: str) -> str | None:
    """Return the folder of built code in a folder, which a walk leaves out; None where there is none."""
    return next((str(path) for name in _BUILT if (path := Path(folder, name)).is_dir()), None)


def not_read(paths: Sequence[str]) -> str:
    """Say how many files of code there are in each language: `3 Go files and 1 Rust file`."""
    counts = Counter(OTHER_CODE[os.path.splitext(path.lower())[1]] for path in paths)  # noqa: PTH122 - a name, not a path
    return in_words(plural(count, f"{language} file") for language, count in counts.most_common())


def _walk(
    folder: str, git: Sequence[PatternsAt], exclude: Sequence[PatternsAt], project: Project
) -> Iterator[tuple[str, str]]:
    """Absolute path and name of each file that nothing leaves out, folder by folder in the order of their names."""
    waiting = [(folder, list(git))]
    while waiting:
        at, rules = waiting.pop()
        try:
            with os.scandir(at) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            project.problems.append(KvtoolError(f"cannot read the folder `{os.path.relpath(at)}`: {error.strerror}"))
            continue
        if any(entry.name == ".gitignore" for entry in entries):
            rules = [*rules, *own_rules(at)]
        folders: list[tuple[str, list[PatternsAt]]] = []
        for entry in entries:
            is_folder = _is_folder(entry)
            if not is_folder and not _may_be_read(entry.name):
                continue
            if leaves_out(exclude, entry.path, is_folder=is_folder) or leaves_out(
                rules, entry.path, is_folder=is_folder
            ):
                continue
            if is_folder:
                folders.append((entry.path, rules))
            elif _is_file(entry):
                yield entry.path, entry.name
        waiting += reversed(folders)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself
        return False


def _may_be_read(name: str) -> bool:
    return name.lower().endswith((*FORMAT_SUFFIXES, *TEMPLATE_SUFFIXES, *PLAIN_SUFFIXES, *CODE_SUFFIXES, *_OTHER_CODE))


def _kind(path: str, name: str, shown: str, rules: WalkRules) -> str | None:
    """Return the kind of a file, by its name; a text is a prompt where it, or a folder that it is in, is named so. None for others.

    A text that is not named so may be one by what is in it.
    """
    stem, suffix = os.path.splitext(name.lower())  # noqa: PTH122 - a name, not a path
    if suffix in FORMAT_SUFFIXES:
        return "data"
    if suffix in CODE_SUFFIXES:
        return "typescript" if suffix in TYPESCRIPT_SUFFIXES else "python"
    if leaves_out(rules.include, path, is_folder=False):  # the same patterns, the other way round
        return "text"
    if suffix in TEMPLATE_SUFFIXES and suffix not in (".tmpl", MARKUP_SUFFIX):  # of which most are no prompts
        return None if _OTHER_TEMPLATES.search(stem) else "text"
    if _NOT_PROMPTS.match(name):
        return None
    if is_named_prompt(shown):
        return "text"
    return "unnamed" if suffix in UNNAMED_SUFFIXES else None


def _speaks_of_models(path: str) -> bool:
    """Return whether a file in another language speaks of models, as far as its beginning says."""
    try:
        with Path(path).open("rb") as file:
            return speaks_of_models(file.read(8 * _START).decode("utf-8", "replace"))
    except OSError:
        return False


def _is_minified(code: str) -> bool:
    return len(code) > _LONGEST_LINE * (code.count("\n") + 1)


def _unfit(path: str, kind: str, shown: str, *, built: bool) -> str | None:
    """Why a file is not read, empty where that is nothing to tell; None for one that is, or that cannot be opened at all.

    `built`: code that was made from other code is asked for."""
    file = Path(path)
    try:
        size = file.stat().st_size
        if not size:
            return ""
        with file.open("rb") as opened:
            data = opened.read(_READ.get(kind, _START))
    except OSError:
        return None
    if b"\0" in data[:_START]:
        return "" if kind in ("data", "unnamed") else "binary"
    if kind == "unnamed":
        return None if is_unnamed_prompt(file.name, data.decode("utf-8", "replace")) else ""
    if kind == "data":
        if file.suffix.lower() in WORKLOAD_SUFFIXES and _WORKLOAD.search(data) and _VERSION.search(data):
            return None
        small = size <= MOST_DATA_BYTES
        if not small:
            return ""
        text, named = data.decode("utf-8", "replace"), is_named_prompt(shown)
        return None if may_hold_prompts(file.suffix.lower(), text, named=named) else ""
    if kind == "typescript":
        code = data.decode("utf-8", "replace")
        if not speaks_of_models(code):
            return ""
        if _is_minified(code) and not built:
            return MINIFIED
    most = CODE_BYTES if kind in ("python", "typescript") else TEMPLATE_BYTES
    return f"larger than {most >> 20} MiB" if size > most else None
