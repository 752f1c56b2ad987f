"""Search of a folder for prompts: workload files, templates, logs, code that builds prompts, and data files with prompts.

The search is bounded: a few levels, some thousand files, so many bytes, no folder of tools or installed packages, no links. Nothing
is executed. What cannot be read is told, and hides nothing else.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePath

from kvtool.errors import KvtoolError
from kvtool.lint.code_files import read_code
from kvtool.lint.lint_inputs import CODE_SUFFIXES
from kvtool.lint.prompt_copies import may_hold_prompts, speaks_of_marks, speaks_of_models
from kvtool.lint.python.prompt_calls import PromptCall, prompt_calls
from kvtool.text.files.text_files import decode
from kvtool.text.terminal.numbers import plural
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.yaml.named_files import FILE_KEYS, named_files

MAX_DEPTH = 6
MAX_FILES = 20_000
"""Files and folders that are looked at."""
MAX_BYTES = 256 << 20
"""A bound on the bytes that are read of all texts together."""
MAX_LOG_BYTES = 32 << 20
"""A bound on time: a larger log is too much to run with every change."""
_MAX_TEXT_BYTES = 1 << 20
_MAX_LISTED = 200_000
"""Names of one folder: so many are put into order before the first of them are looked at."""
_MAX_CODE_BYTES = 8 << 20
_MOST = 16
_MOST_UNREADABLE = 3
_NOISE = frozenset(
    (
        "node_modules",
        "venv",
        "env",
        "site-packages",
        "__pycache__",
        "dist",
        "build",
        "target",
        "vendor",
        "htmlcov",
        "tests",
    )
)
_LOGS = (".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst")
_JINJA = (".j2", ".jinja", ".jinja2")
_DATA = (".yaml", ".yml", ".toml", ".prompty")
_PLAIN = (".md", ".txt", ".prompt")
_OTHER_TEMPLATES = re.compile(
    r"\.(html?|ya?ml|json|sql|conf|cfg|ini|toml|sh|py|js|ts|css|service|env|xml|tf)$|^chat_template", re.IGNORECASE
)
_PROMPT_NAME = re.compile(r"prompt|instruction", re.IGNORECASE)
_NOT_PROMPTS = re.compile(r"^(readme|license|changelog|contributing|requirements)", re.IGNORECASE)
_WORKLOAD = re.compile(r"^groups:", re.MULTILINE)
_NOT_WRITTEN = (".d.ts", ".min.js", ".test.ts", ".test.js", ".spec.ts", ".spec.js", ".config.js", ".config.ts")
"""Ends of names of code that no prompt of a program is in: what tools make, tests and settings."""
_PROMPT_IN_CODE = re.compile(r"""\w*_PROMPT\b|system_prompt|systemPrompt|\brole["']?\s*:\s*["']system["']""")
_CALL = re.compile(
    r"PromptTemplate\b|\b(?:completions|responses|messages)\.(?:create|parse|stream)\b|\bgenerate_?[cC]ontent|\blitellm\b"
    r"|\b(?:generate|stream)(?:Text|Object)\b|\bbase_?(?:url|URL)\b|\bapi_base\b"
)
_AGENT = re.compile(r"\binstructions\s*[:=]")
"""How frameworks of agents call a system prompt, where a file speaks of models."""
_IMPORT = re.compile(r"^.*\b(?:import|from|require)\b.*$", re.MULTILINE)
_WORD = re.compile(r"\w+")
_LOADS_TEMPLATE = re.compile(r"\b(?:get|select|get_or_select|render)_template\(")


@dataclass(slots=True)
class FoundPrompts:
    """Paths, from the folder that was searched, in their order. `logs` are those whose format is known; `calls` are those of
    LangChain and SDKs in the files of `code`; `notes` say what was left out, and why."""

    workloads: list[str] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    """Data files with prompts: YAML, TOML, Prompty."""
    rendering: list[str] = field(default_factory=list)
    """Other Python files that load templates: what they pass to them is read."""
    calls: list[PromptCall] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    """Real paths of the files that the workloads read."""
    notes: list[str] = field(default_factory=list)
    marking: set[str] = field(default_factory=set)
    """Files of code that may set cache breakpoints: they speak of them, or import a file that may."""


def detect(folder: Path) -> FoundPrompts:
    """Search a folder; KvtoolError where it is none, or cannot be read."""
    if not folder.is_dir():
        raise KvtoolError(f"`{folder}` is not a folder")
    return _Search(folder).run()


class _Search:
    """One search of a folder, with what it has looked at so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found = FoundPrompts()
        self._unreadable: list[str] = []
        self._looked = 0
        self._read = 0
        self._code_read = 0
        self._imports: dict[str, set[str]] = {}
        """Words of the imports of each file of code."""

    def run(self) -> FoundPrompts:
        found = self._found
        for name in self._files():
            if name.isprintable():  # no other name can be written into a file and read again
                self._sort(name)
        self._leave_out_what_workloads_read()
        self._follow_imports(found.marking)
        for each in (found.workloads, found.templates, found.logs, found.code, found.rendering, found.data):
            each.sort(key=_by_folder)
        found.calls.sort(key=lambda call: (_by_folder(call.path), call.line, call.column))
        if self._looked > MAX_FILES:
            found.notes.append(f"only the first {MAX_FILES:,} files and folders were looked at")
        if self._read > MAX_BYTES:
            found.notes.append(f"only the first {MAX_BYTES >> 20:,} MiB of text were read")
        found.workloads = first_of(found.workloads, "workload file", found.notes)
        found.logs = first_of(found.logs, "log", found.notes)
        found.notes += self._unreadable[:_MOST_UNREADABLE]
        if len(self._unreadable) > _MOST_UNREADABLE:
            found.notes.append(f"{plural(len(self._unreadable) - _MOST_UNREADABLE, 'more file')} could not be read")
        return found

    def _follow_imports(self, marking: set[str]) -> None:
        """Add the files that import one that may set cache breakpoints, by its name or that of its folder."""
        waiting = list(marking)
        while waiting:
            words = set(_WORD.findall(PurePath(waiting.pop()).with_suffix("").as_posix())[-2:])
            new = [name for name, named in self._imports.items() if name not in marking and words & named]
            marking.update(new)
            waiting += new

    def _leave_out_what_workloads_read(self) -> None:
        """Drop the logs that a workload reads: values of a variable, or requests of a group."""
        named: set[str] = set()
        for name in self._found.workloads:
            with suppress(KvtoolError):  # init says what is wrong with it
                named.update(named_files(str(self._folder / name), self._text(name), keys=(*FILE_KEYS, "jsonl")))
        read = {os.path.realpath(name) for name in named}
        self._found.logs = [name for name in self._found.logs if os.path.realpath(self._folder / name) not in read]
        self._found.read = read

    def _files(self) -> Iterator[str]:
        """Files by name, with `/` between the parts; those of a folder before those below it, as prompts seldom lie deep."""
        waiting = deque([("", 0)])
        while waiting:
            inside, depth = waiting.popleft()
            for entry in self._listed(inside):
                if entry.name.startswith("."):
                    continue
                self._looked += 1
                if self._looked > MAX_FILES:
                    return
                name = f"{inside}/{entry.name}" if inside else entry.name
                try:
                    is_folder, is_file = entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)
                except OSError:  # gone
                    continue
                if is_file:
                    yield name
                elif is_folder and depth < MAX_DEPTH and not _is_noise(entry.name):
                    waiting.append((name, depth + 1))

    def _listed(self, inside: str) -> Sequence[os.DirEntry[str]]:
        try:
            with os.scandir(self._folder / inside) as listed:
                return sorted(islice(listed, _MAX_LISTED), key=lambda entry: entry.name)
        except OSError as error:
            if not inside:
                raise KvtoolError(f"cannot read `{self._folder}`: {error.strerror or error}") from error
            self._left_out(inside, error.strerror or str(error))
            return ()

    def _sort(self, name: str) -> None:
        """Put a file where it belongs, or nowhere."""
        found = self._found
        base = name.rpartition("/")[2]
        stem, suffix = os.path.splitext(base.lower())  # noqa: PTH122 - a name, not a path
        if suffix in (".yaml", ".yml") and _WORKLOAD.search(text := self._text(name)):
            found.workloads.append(name)
        elif suffix in _DATA:
            text = text if suffix in (".yaml", ".yml") else self._text(name)
            if may_hold_prompts(suffix, text, named=_PROMPT_NAME.search(name) is not None):
                found.data.append(name)
        elif base.lower().endswith(_LOGS):
            self._sort_log(name)
        elif suffix in _JINJA:
            if not _OTHER_TEMPLATES.search(stem) and self._text(name, prompt=True):
                found.templates.append(name)
        elif suffix in _PLAIN and not _NOT_PROMPTS.match(base):
            if (_PROMPT_NAME.search(name) or suffix == ".prompt") and self._text(name, prompt=True):
                found.templates.append(name)
        elif suffix in CODE_SUFFIXES and not base.lower().endswith(_NOT_WRITTEN):
            self._sort_code(name, self._text(name))

    def _sort_log(self, name: str) -> None:
        path = self._folder / name
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
            next(LogSource([str(path)], LogOptions(limit=1, by_time=False)).conversations(), None)
        except OSError as error:
            self._left_out(name, error.strerror or str(error))
            return
        except KvtoolError:  # some other JSON lines
            return
        if size > MAX_LOG_BYTES:
            self._found.notes.append(f"{name} is a log of {size >> 20:,} MiB: too much to run with every change")
        else:
            self._found.logs.append(name)

    def _sort_code(self, name: str, text: str) -> None:
        calls: list[PromptCall] = []
        if _CALL.search(text) and self._code_read <= _MAX_CODE_BYTES:
            self._code_read += len(text)
            calls = prompt_calls(name, lambda: read_code(name, text))
        self._found.calls += calls
        self._imports[name] = set(_WORD.findall("\n".join(_IMPORT.findall(text))))
        if speaks_of_marks(text):
            self._found.marking.add(name)
        if (
            any(call.name for call in calls)
            or _PROMPT_IN_CODE.search(text)
            or (_AGENT.search(text) and speaks_of_models(text))
        ):
            self._found.code.append(name)
        elif name.endswith(".py") and _LOADS_TEMPLATE.search(text):
            self._found.rendering.append(name)

    def _text(self, name: str, *, prompt: bool = False) -> str:
        """Return the text of a small file; empty for any other. Where it would be a `prompt`, it is told that it is none."""
        if self._read > MAX_BYTES:
            return ""
        try:
            with (self._folder / name).open("rb") as file:
                data = file.read(_MAX_TEXT_BYTES + 1)
        except OSError as error:
            self._left_out(name, error.strerror or str(error))
            return ""
        self._read += len(data)
        if len(data) > _MAX_TEXT_BYTES:
            if prompt:
                self._left_out(name, f"larger than {_MAX_TEXT_BYTES >> 20} MiB")
            return ""
        try:
            return decode(data, shown=name)
        except KvtoolError as error:
            if prompt:
                self._left_out(name, error.message.removeprefix(f"`{name}` "))
            return ""

    def _left_out(self, name: str, why: str) -> None:
        if name.isprintable():
            self._unreadable.append(f"{name} was left out: {why[:1].lower()}{why[1:]}")


def first_of(names: list[str], what: str, notes: list[str]) -> list[str]:
    """Return as many files as one run takes; a note names the others."""
    if len(names) > _MOST:
        left = names[_MOST:]
        more = f" and {len(left) - _MOST_UNREADABLE:,} more" if len(left) > _MOST_UNREADABLE else ""
        named = ", ".join(left[:_MOST_UNREADABLE]) + more
        notes.append(f"init takes the first {_MOST} of {plural(len(names), what)}. Left out: {named}")
    return names[:_MOST]


def _by_folder(name: str) -> list[str]:
    return name.split("/")


def _is_noise(name: str) -> bool:
    """Return whether a folder is one of tools, of installed packages or of tests."""
    return name in _NOISE or name.endswith(".egg-info")
