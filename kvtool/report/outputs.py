"""Output files: `-o [FORMAT=]PATH`, parsed, checked before any work is done, and written whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from kvtool.config.command_line import flag
from kvtool.errors import KvtoolError
from kvtool.report.registry import FORMATS, Format
from kvtool.report.write_options import WriteOptions
from kvtool.text.files.atomic_file import AtomicFile
from kvtool.text.files.root_folder import RootFolder, git_root
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.streams import discard_stdout

if TYPE_CHECKING:
    from kvtool.results.check import CheckResult

STDOUT = "-"
_MOST_SUMMARY = 1 << 20
"""Bytes of a step summary that GitHub takes; what is longer is refused as a whole."""
_SUMMARY = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One thing to write; the path `-` is standard output."""

    format: Format
    path: str

    @property
    def to_stdout(self) -> bool:
        return self.path == STDOUT


def parse_output(text: str, formats: Collection[str] = tuple(FORMATS)) -> OutputFile:
    """`[FORMAT=]PATH`, or a format alone, which is that format on standard output. KvtoolError for anything else.

    A word before `=` names the format (`md` and the other extensions will do); else the name of the file decides (`ticket.md`),
    else its extension, the longest one that fits. `formats` are those that can be had here.
    """
    names = _names(formats)
    word, equals, path = text.partition("=")
    if not equals and text.lower() in names:
        return OutputFile(names[text.lower()], STDOUT)
    if equals and (found := names.get(word.lower())) is not None:
        if not path:
            raise KvtoolError(f"--output {text} names no file", hint=f"{word}=PATH, or {word} for standard output")
        return OutputFile(found, path)
    if equals and word.replace("-", "").isalnum():
        close = get_close_matches(word.lower(), names, n=1)
        hint = f"did you mean {close[0]}={path}?" if close else _choice(formats)
        raise KvtoolError(
            f"--output {text}: there is no format `{word}`", hint=f"{hint} A path that contains = goes after FORMAT="
        )
    if not text:
        raise KvtoolError("--output names no file", hint=_choice(formats))
    if text == STDOUT:
        raise KvtoolError("--output - needs a format", hint=f"-o json, or another: {_choice(formats)}")
    return OutputFile(_by_file_name(text, formats), text)


def _names(formats: Collection[str]) -> dict[str, Format]:
    """Formats by name, and by extension without the dot where that is one word."""
    chosen = [FORMATS[name] for name in formats]
    extensions = {extension[1:]: each for each in chosen for extension in each.extensions}
    return {word: each for word, each in extensions.items() if "." not in word} | {each.name: each for each in chosen}


def _by_file_name(path: str, formats: Collection[str]) -> Format:
    name = os.path.basename(path).lower()  # noqa: PTH119 - `x/` has no name, and Path would give it one
    for each in formats:
        if name in FORMATS[each].files:
            return FORMATS[each]
    found = [
        (len(extension), each)
        for each in FORMATS.values()
        for extension in each.extensions
        if name.endswith(extension) and name != extension
    ]
    best = max(found, key=lambda pair: pair[0], default=None)
    if best is None:
        raise KvtoolError(f"--output {path}: no format has this extension", hint=_choice(formats))
    if best[1].name not in formats:
        raise KvtoolError(f"--output {path}: {best[1].name} is not available here", hint=_choice(formats))
    return best[1]


def _choice(formats: Collection[str]) -> str:
    """List all formats with their extensions."""
    ends = {name: " ".join((*FORMATS[name].files, *FORMATS[name].extensions)) for name in formats}
    shown = [f"{name} ({ends[name]})" if ends[name] else name for name in formats]
    return f"formats: {', '.join(shown)}; choose another with FORMAT=PATH."


def check_outputs(
    specs: Sequence[str],
    inputs: Sequence[str],
    *,
    json: bool = False,
    taken: Mapping[str, str] | None = None,
    formats: Collection[str] = tuple(FORMATS),
    allow_outside: bool = False,
) -> list[OutputFile]:
    """Return what `-o` asks for, in order; KvtoolError for what could not be written, before any work is done.

    No file may be written twice, be one of the `inputs`, or be `taken` (paths with what they are: "the file of --events"). Only one
    may go to standard output, and none with `json` (the flag --json). `allow_outside`: workloads may name files anywhere.
    """
    outputs = [parse_output(spec, formats) for spec in specs]
    known = _Known()
    for path in inputs if outputs else ():
        if path != STDOUT:
            known.add(path, "an input")
            for file in _files_of(path, allow_outside=allow_outside):
                known.add(file, f"a file of {path}")
    for path, what in (taken or {}).items():
        known.add(path, what)
    on_stdout: str | None = flag("json") if json else None
    for spec, output in zip(specs, outputs, strict=True):
        if output.to_stdout:
            if on_stdout is not None:
                raise KvtoolError(
                    f"{on_stdout} and --output {spec} both go to standard output",
                    hint=f"write one to a file: -o {output.format.name}=PATH",
                )
            on_stdout = f"{flag('outputs')} {spec}"
            continue
        if "\0" in output.path:
            raise KvtoolError("--output names a file with a null character in its name")
        if (found := known.what(output.path)) is not None:
            raise KvtoolError(f"--output {output.path} is {found}, too", hint="choose another file")
        known.add(output.path, "another output")
        _check_writable(output.path)
    return outputs


def _files_of(path: str, *, allow_outside: bool) -> list[str]:
    """Return the files that a workload names; none where it cannot be read: the run itself reports that."""
    from kvtool.lint.lint_inputs import WORKLOAD_SUFFIXES
    from kvtool.text.files.text_files import read_text

    if not path.lower().endswith(WORKLOAD_SUFFIXES):
        return []
    from kvtool.workload.yaml.named_files import named_files

    try:
        return named_files(path, read_text(Path(path), shown=path), allow_outside=allow_outside)
    except KvtoolError:
        return []


class _Known:
    """Files by where they are: two names of one file (links of both kinds) are the same."""

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}
        self._inodes: dict[tuple[int, int], str] = {}

    def add(self, path: str, what: str) -> None:
        if "\0" in path:  # no file has such a name, which is told where it is opened
            return
        self._paths.setdefault(os.path.realpath(path), what)
        if (inode := _inode(path)) is not None:
            self._inodes.setdefault(inode, what)

    def what(self, path: str) -> str | None:
        found = self._paths.get(os.path.realpath(path))
        inode = _inode(path)
        return found if found is not None or inode is None else self._inodes.get(inode)


def _inode(path: str) -> tuple[int, int] | None:
    """Return the inode of a regular file that is there; None of anything else (/dev/null may be written as often as one likes)."""
    try:
        if not Path(path).is_file():
            return None
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _check_writable(path: str) -> None:
    """KvtoolError where the file could not be made."""
    if path.endswith(("/", os.sep)):
        raise KvtoolError(f"cannot write {path}: it is a directory")
    there = Path(path)
    if there.exists() and not there.is_file() and not there.is_dir():  # to open a pipe would wait for its reader
        if not os.access(path, os.W_OK):
            raise KvtoolError(f"cannot write {path}: it is write-protected")
        return
    AtomicFile(path).discard()


def need_views(outputs: Sequence[OutputFile]) -> bool:
    """Return whether what reports draw has to be collected for these."""
    return any(output.format.views for output in outputs)


def write_outputs(
    result: CheckResult,
    outputs: Sequence[OutputFile],
    options: WriteOptions,
    *,
    ready: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> None:
    """Render everything, then write it: each file whole or not at all, standard output last.

    `ready` has texts, by the name of the format, that need no rendering. Unless `quiet`, stderr says what was written. The format
    `github` on standard output is appended to the step summary as well, where there is one. A closed pipe is silent; KvtoolError
    for a file that cannot be written.
    """
    given = ready or {}
    texts: list[tuple[OutputFile, str]] = []
    for output in outputs:
        text = given.get(output.format.name)
        texts.append((output, output.format.write(result, options) if text is None else text))
    summary = None
    if any(output.to_stdout and output.format.name == "github" for output in outputs) and os.environ.get(_SUMMARY):
        summarize: Callable[[CheckResult, WriteOptions], str] = import_module(FORMATS["github"].module).step_summary
        summary = summarize(result, options)
    write_texts(texts, quiet=quiet)
    if summary is not None:
        _append_summary(os.environ[_SUMMARY], summary)


def write_texts(texts: Sequence[tuple[OutputFile, str]], *, quiet: bool = False) -> None:
    """Write what is rendered already; KvtoolError, and no file, where one of the files cannot be written."""
    with ExitStack() as stack:
        for output, text in texts:
            if not output.to_stdout:
                stack.enter_context(AtomicFile(output.path)).write(_encoded(text))
    for output, text in texts:
        if output.to_stdout:
            _to_stdout(text)
    if quiet:
        return
    for output, _ in texts:
        if not output.to_stdout:
            print(f"written: {sanitize(output.path, ascii_only=True)} ({output.format.name})", file=sys.stderr)


def _encoded(text: str) -> bytes:
    """UTF-8, as every format says of itself; half of a surrogate pair, which has no encoding, as an escape."""
    return text.encode("utf-8", errors="backslashreplace")


def _to_stdout(text: str) -> None:
    """Write the bytes of a file, whatever the encoding of standard output."""
    try:
        sys.stdout.flush()
        buffer = getattr(sys.stdout, "buffer", None)
        if buffer is None:  # somebody's own stream
            sys.stdout.write(text)
        else:
            buffer.write(_encoded(text))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        discard_stdout()


def _append_summary(path: str, text: str) -> None:
    """Append to the step summary; that it cannot be is no reason to fail a build."""
    try:
        data = _encoded(text if text.endswith("\n") else f"{text}\n")
        there = Path(path)
        if (there.stat().st_size if there.exists() else 0) + len(data) > _MOST_SUMMARY:
            raise OSError(0, "it would be longer than GitHub takes")
        with there.open("ab") as file:
            file.write(data)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        print(f"kvtool: warning: the step summary was not written: {sanitize(str(reason))}", file=sys.stderr)


def output_root() -> str:
    """Return the folder that paths in outputs are relative to: the git root above the working folder, else the working folder."""
    here = str(Path.cwd())
    return git_root(here) or here


def in_root(path: str) -> bool:
    """Return whether a file is below that folder: a saved result may name any file, and only these are read again for it."""
    try:
        named = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:  # half of a surrogate pair, which is in the name of no file
        return False
    return named and RootFolder(os.path.realpath(output_root())).holds(path)
