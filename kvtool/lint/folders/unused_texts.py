"""Texts that nothing in a project refers to: nobody sends them, so they cost nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, islice, takewhile
from pathlib import Path, PurePath

from kvtool.lint.folders.unused_definitions import Definitions
from kvtool.lint.lint_inputs import DATA, TextInput
from kvtool.lint.skeleton import placeholders
from kvtool.results.finding import Finding

_ABANDONED = re.compile(r"(?:^|[/\\])(_{0,2}(?:deprecated|obsolete|attic|graveyard))(?=[/\\])", re.IGNORECASE)
"""A folder of what nobody uses any more, by its name."""
_PAST = re.compile(r"(?:^|[/\\])_{0,2}migrations(?=[/\\])", re.IGNORECASE)
"""A folder of how texts were before: they are read to be compared, and replaced."""


def without_unused(findings: Iterable[Finding], texts: Sequence[TextInput]) -> list[Finding]:
    """The findings but those in what no linted file names, where a project is linted whole: functions and constants of Python
    files, methods that only their own class could call, text files, and folders named for what nobody uses any more.

    A file alone, the files of a folder that is no package, and a part of a package leave open who uses them: all of theirs are
    reported.
    """
    given = list(findings)
    python = {one.path: one for one in texts if one.kind == "python"}
    if not all(one.found for one in python.values()) or not _is_whole(list(python)):
        return given
    others = {one.path: one for one in texts if is_text_file(one)}
    definitions, text_files = Definitions(texts), TextFiles(texts)
    top, aside = _top(python), dict[tuple[str, str], bool]()
    kept: list[Finding] = []
    for one in given:
        if _is_laid_aside(one.path, top, texts, aside):
            continue
        if one.path in python and definitions.is_unused(python[one.path], one.line or 1):
            continue
        if one.path in others and text_files.is_unused(others[one.path]):
            continue
        kept.append(one)
    return kept


_FILLS = {
    "jinja": re.compile(
        r"nunjucks|handlebars|mustache|liquid|hogan|twig|dotprompt|\\\{\\?\{|[\"'`]\{\{", re.IGNORECASE
    ),
    "format": re.compile(r"PromptTemplate|\\\{\("),
    "dollar": re.compile(r"\\\$"),
}
"""What in TypeScript shows that a program fills the placeholders of a text that it loads, by their style."""


def unfilled_as_information(findings: Iterable[Finding], texts: Sequence[TextInput]) -> list[Finding]:
    """The findings; those in texts are information where a project of TypeScript is not seen to load and fill the text, and in
    documents of an agent's skill, which the agent reads when it wants to.

    Python fills the `{name}` of any string, and without code nothing is known of who loads a text: those stay.
    """
    files, kinds = TextFiles(texts), {one.kind for one in texts}
    unfilled = "typescript" in kinds and "python" not in kinds
    given = list(findings)
    at = {one.path for one in given}
    loose = {
        one.path
        for one in texts
        if one.path in at
        and is_text_file(one)
        and ((unfilled and not files.is_filled(one)) or files.is_of_a_skill(one.path))
    }
    return [one.model_copy(update={"severity": "info"}) if one.path in loose else one for one in given]


def _top(paths: Iterable[str]) -> int:
    """The length of the folder that all of these files lie below: what it is called says nothing of them."""
    try:
        return len(os.path.commonpath([os.path.dirname(path) for path in paths]))  # noqa: PTH120 - of thousands, each time
    except ValueError:  # none, or some with a root and some without one
        return 0


def _is_laid_aside(path: str, top: int, texts: Sequence[TextInput], known: dict[tuple[str, str], bool]) -> bool:
    """Return whether a file is in a folder for old texts, and nothing outside names the folder; of migrations, the file."""
    if (folder := _ABANDONED.search(path, top)) is not None:
        name = folder[1]
    elif (folder := _PAST.search(path, top)) is not None:
        name = PurePath(path).stem
    else:
        return False
    key = path[: folder.end()], name
    if key not in known:
        known[key] = not _names_folder(name, key[0], texts)
    return known[key]


def _names_folder(name: str, folder: str, texts: Sequence[TextInput]) -> bool:
    """Return whether a file outside of a folder imports it or from it, or holds a path of it."""
    word = re.escape(name)
    taken = re.compile(
        rf"\b{word}(?:\.\w|[/\\\\]|\s+import\b)|\bfrom\s+\.[\w.]{{0,200}}\s+import\b[^\n]{{0,200}}\b{word}\b"
    )
    return any(
        name in one.text and taken.search(one.text) is not None for one in texts if not one.path.startswith(folder)
    )


def _is_whole(paths: Sequence[str]) -> bool:
    """Return whether files are all of a project: a package, or several folders that are no part of one."""
    folders = {os.path.dirname(os.path.realpath(path)) for path in paths}  # noqa: PTH120 - of thousands, each time
    if not folders:
        return False
    top = os.path.commonpath(folders)
    is_package, is_part = (
        os.path.isfile(os.path.join(at, "__init__.py"))  # noqa: PTH113, PTH118
        for at in (top, os.path.dirname(top))  # noqa: PTH120
    )
    return not (is_package and is_part) and (is_package or len(folders) > 1)


_LEAST_NAMED = 2
_LEAST_SHARE = 0.6
"""Of the other texts of a folder that are named one by one: so many, and this part of them."""
_INCLUDES = re.compile(
    r"\{%-?\s{0,8}(?:include|extends|import|from)\b[^%\n]{1,200}|\{\{>[^{}\n]{1,100}|@?include\b[^\n]{1,200}"
)
_SKILL = "SKILL.md"
"""What a coding agent reads to know what else there is to read in a folder."""
_PROJECTS = ("pyproject.toml", "setup.py", "package.json")
_MOST_ABOVE, _MOST_SKILLS, _MOST_READ = 6, 200, 100_000
"""Folders above a text, skills below each of them, and bytes of each."""


def _is_project(folder: PurePath) -> bool:
    """Return whether a folder is the top of a program, which is more than a skill."""
    return any(Path(folder, name).is_file() for name in _PROJECTS)


def _start_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_READ).decode("utf-8", "replace")
    except OSError:
        return ""


_PARTS = re.compile(r"[-_. ]")


class TextFiles:
    """The text files of a project and the code that may load them."""

    def __init__(self, texts: Sequence[TextInput]) -> None:
        self._texts = texts
        self._named: dict[str, bool] = {}
        self._suffixes: dict[str, bool] = {}
        self._skills: dict[str, list[str]] = {}

    @cached_property
    def _code(self) -> str:
        """All code, and what of the other texts names files."""
        return "\n".join(
            one.text if not is_text_file(one) else "\n".join(_INCLUDES.findall(one.text)) for one in self._texts
        )

    @cached_property
    def _folders(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for one in self._texts:
            if is_text_file(one):
                found.setdefault(str(PurePath(one.path).parent), []).append(one.path)
        return found

    def is_unused(self, one: TextInput) -> bool:
        """Return whether nothing names a text file, though what else lies in its folder is named."""
        if not is_text_file(one) or self._is_named(one.path):
            return False
        others = [path for path in self._folders[str(PurePath(one.path).parent)] if path != one.path]
        named = sum(1 for path in others if self._is_named(path))
        return named >= _LEAST_NAMED and named >= _LEAST_SHARE * len(others)

    def is_filled(self, one: TextInput) -> bool:
        """Return whether code names a text file, and fills placeholders as the text has them."""
        fills = _FILLS.get("jinja" if one.style == "mustache" else one.style)
        names = {name for _, _, name in placeholders(one.text, one.style)} if one.style == "format" else set()
        filled = fills is None or fills.search(self._code) or any(self._quotes(name) for name in names)
        return bool(filled) and self._is_named(one.path)

    def is_of_a_skill(self, path: str) -> bool:
        """Return whether a text file is below a folder with a SKILL.md, or named by the document of a skill near it, and code does
        not name it."""
        name, above = PurePath(path).name, list(PurePath(path).parents)[:_MOST_ABOVE]
        if _says(self._code, name):
            return False
        within = list(takewhile(lambda folder: not _is_project(folder), above))
        near = [one for one in above[: len(within) + 1] if not one.is_absolute() or one.is_relative_to(self._top)]
        return any(Path(folder, _SKILL).is_file() for folder in within) or any(
            _says(document, name) for folder in near for document in self._skills_below(str(folder))
        )

    @cached_property
    def _top(self) -> str:
        paths = [one.path for one in self._texts]
        return paths[0][: _top(paths)] if paths else ""

    def _skills_below(self, folder: str) -> list[str]:
        """Return the documents of the skills in the folders of a folder, and in the folders of these."""
        if folder not in self._skills:
            paths = chain.from_iterable(Path(folder).glob(f"{each}/{_SKILL}") for each in ("*", "*/*"))
            self._skills[folder] = [_start_of(one) for one in islice(paths, _MOST_SKILLS)]
        return self._skills[folder]

    def _quotes(self, name: str) -> bool:
        return any(f"{quote}{{{name}}}" in self._code for quote in "\"'`")

    def _is_named(self, path: str) -> bool:
        if path not in self._named:
            self._named[path] = any(_says(self._code, name) for name in _names(path)) or self._is_put_together(path)
        return self._named[path]

    def _is_put_together(self, path: str) -> bool:
        """Return whether code writes the beginning or the end of the name beside something that it puts in."""
        name = PurePath(path).name
        if self._takes_any(PurePath(path).suffix):
            return True
        for cut in (found.start() for found in _PARTS.finditer(name)):
            tail, head = name[cut:], name[: cut + 1]
            ends = any(mark in self._code for mark in (f"}}{tail}", f'"{tail}"', f"'{tail}'"))
            if ends and "." in tail[1:]:  # an end of a file's name alone, `.md`, is not what this looks for
                return True
            if len(head) > 2 and (f"{head}{{" in self._code or f'"{head}"' in self._code or f"'{head}'" in self._code):
                return True
        return False

    def _takes_any(self, suffix: str) -> bool:
        """Return whether code makes a whole name of a file with this suffix: `f"{language}.md"`, `name + ".md"`, `glob("*.md")`."""
        if suffix not in self._suffixes:
            end = re.escape(suffix)
            put_in = r"\{[^{}\n]{1,80}\}"
            made = rf"[\"'/\\]{put_in}(?:_?{put_in})*{end}\b|[+*] ?[\"']?{end}[\"']"
            self._suffixes[suffix] = bool(suffix) and re.search(made, self._code) is not None
        return self._suffixes[suffix]


def is_text_file(one: TextInput) -> bool:
    """Return whether it is a text or a template by itself."""
    return not one.is_code and one.style != DATA and one.found


def _names(path: str) -> Iterable[str]:
    stem = PurePath(path).name.partition(".")[0]
    return dict.fromkeys((stem, stem.replace("-", "_"), stem.replace("_", "-"), stem.lower(), stem.upper()))


def _says(code: str, name: str) -> bool:
    return name in code and re.search(rf"(?<![A-Za-z0-9_-]){re.escape(name)}(?![A-Za-z0-9_-])", code) is not None
