"""The input set of logs: which files a run reads, in which order, and what below its folders and patterns it passes over."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.compressed import open_bytes, refuse_binary, uncompressed
from kvtool.text.files.file_patterns import is_folder_entry, is_pattern, literal_start, matching
from kvtool.text.files.json_stream import NotJSONError, parse, read_records
from kvtool.text.files.root_folder import RootFolder
from kvtool.text.terminal.numbers import plural
from kvtool.text.terminal.streams import STDIN
from kvtool.workload.logs.files.file_kinds import FileKind, kind_of
from kvtool.workload.logs.files.plain_text_files import PLAIN_SUFFIXES, TEXT_FORMAT
from kvtool.workload.logs.formats.known_formats import SERVER_LINE
from kvtool.workload.logs.records.mapped_records import requested_format
from kvtool.workload.logs.records.record import RecordError, Where
from kvtool.workload.logs.records.record_format import RecordFormat
from kvtool.workload.logs.records.records import opens, read_record

MOST_FILES = 1_000_000
"""Files and folders that one folder or pattern may hold."""
_LOG_SUFFIXES = (".jsonl", ".ndjson")
"""Names that promise a log: one that cannot be read is a mistake, and not something else."""
_TRACE = ".parquet"
_BINARY, _EMPTY, _NO_PROMPTS, _OTHER, _TEXT, _YAML = "binary", "empty", "without prompts", "other", "text", "YAML"
_JINJA = "Jinja templates"
_OTHERS = {
    (".yaml", ".yml"): _YAML,
    (".py",): "Python",
    (".j2", ".jinja", ".jinja2"): _JINJA,
    (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs"): "TypeScript",
    (".toml", ".ini", ".cfg", ".lock", ".xml", ".html", ".svg", ".sh", ".css"): _OTHER,
}
_TRIED = 5
"""Records of a file that are looked at for a prompt."""
_MOST_REASONS = 6  # that one line lists


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A file below a folder or a pattern that is no log, and what it is instead, as a word that follows a number."""

    path: str
    what: str


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The files of a run in their order; `searched` says that folders or patterns were among the names that stand for them."""

    paths: tuple[str, ...]
    passed_over: tuple[PassedOver, ...] = ()
    searched: bool = False

    def notes(self, *, name_all: bool = False) -> list[str]:
        """Return notes on what was found and not read, for the head of a report."""
        told = [f"the only file is {self.paths[0]}"] if self.searched and len(self.paths) == 1 else []
        if self.passed_over and not name_all:
            told.append(
                f"{plural(len(self.passed_over), 'file')} skipped ({_counts(self.passed_over)}): list them with -v"
            )
        elif self.passed_over:
            told += [f"skipped: {each.path} ({each.what})" for each in self.passed_over]
        return told


def find_inputs(names: Sequence[str], *, log_format: str | None = None) -> InputFiles:
    """Return the files that the names stand for: a file (or `-`) itself, a folder or a pattern the logs that are there, sorted by
    their names.

    Below a folder, text files are prompts where there are no logs. Links are followed, each folder is entered once, hidden files
    are left alone, and a file that several names lead to is read once. KvtoolError for a name without a file or a prompt.
    """
    format_ = requested_format(log_format)
    paths: dict[str, None] = {}
    seen: set[str] = set()
    passed_over: list[PassedOver] = []
    searched = False
    for name in dict.fromkeys(names):
        if name == STDIN or not _is_search(name):
            paths[name] = None
            seen.add(os.path.realpath(name) if name != STDIN else name)
            continue
        searched = True
        found = _Search(name, seen, format_, texts=log_format == TEXT_FORMAT)
        paths |= dict.fromkeys(found.paths)
        passed_over += found.passed_over
        if not found.paths and not found.again:
            raise _nothing(name, found.passed_over)
    return InputFiles(tuple(paths), tuple(passed_over), searched)


def matched(names: Sequence[str], alone: Sequence[str]) -> list[str]:
    """Return the names with patterns replaced by the files that they stand for, where all of these end like one that is an input
    by itself (`alone`); other patterns stay what they are. KvtoolError for one that matches nothing."""
    found: dict[str, None] = {}
    for name in names:
        there = _matching(name) if name != STDIN and not is_folder(name) and _is_search(name) else [name]
        if not there:
            raise _nothing(name, ())
        found |= dict.fromkeys(there if all(each.lower().endswith(tuple(alone)) for each in there) else [name])
    return list(found)


def is_folder(name: str) -> bool:
    """Return whether a name is that of a folder; names that no file can have are none."""
    try:
        return os.path.isdir(name)  # noqa: PTH112 - strings are enough, and there may be many
    except ValueError:
        return False


def _is_search(name: str) -> bool:
    return is_folder(name) or (is_pattern(name) and not os.path.lexists(name))


def _matching(pattern: str) -> list[str]:
    try:
        return matching(pattern, ".", RootFolder(None), most=MOST_FILES)
    except (OSError, ValueError) as error:
        raise KvtoolError(f"`{pattern}` is not a pattern of file names") from error


def _nothing(name: str, passed_over: Sequence[PassedOver]) -> KvtoolError:
    if not is_folder(name) and not passed_over:
        start = literal_start(name)
        hint = None if os.path.lexists(start) else f"there is no folder `{start}`"
        return KvtoolError("no file matches this pattern", hint=hint, place=Place(name))
    there = f": {_counts(passed_over)}" if passed_over else "; it is empty"
    hint = None
    workload = next((each.path for each in passed_over if each.what == _YAML), None)
    if workload is not None:
        hint = f"pass the workload file alone: {workload}"
    elif any(each.what == _JINJA for each in passed_over):
        hint = "kvtool init writes a workload with the templates; kvtool lint reads the templates alone"
    return KvtoolError(f"the folder contains no log and no prompt{there}", hint=hint, place=Place(name))


def _counts(passed_over: Sequence[PassedOver]) -> str:
    counts = Counter(each.what for each in passed_over).most_common()
    parts = [f"{count:,} {what}" for what, count in counts[:_MOST_REASONS]]
    rest = sum(count for _, count in counts[_MOST_REASONS:])
    return ", ".join([*parts, f"{rest:,} more"] if rest else parts)


class _Search:
    """Files below one folder or pattern. `seen` are real paths that are read already; `again`: it leads to such."""

    def __init__(self, name: str, seen: set[str], format_: RecordFormat | None, *, texts: bool) -> None:
        self.passed_over: list[PassedOver] = []
        self.paths: list[str] = []
        self.again = False
        self._name = name
        self._looked_at = 0
        self._folders: set[str] = set()
        prompts: list[str] = []
        way: dict[str, str] = {}
        """By real path, the shortest of the paths that lead there."""
        for path, real in self._files():
            way[real] = min(path, way.get(real, path), key=lambda each: (each.count("/"), each))
        for path, real in sorted((path, real) for real, path in way.items()):
            if real in seen:
                self.again = True
                continue
            seen.add(real)
            what = "prompt" if texts else _kind(path, format_)
            if what == "prompt":
                prompts.append(path)
            elif what == "log":
                self.paths.append(path)
            else:
                self.passed_over.append(PassedOver(path, what))
        if self.paths:
            self.passed_over += [PassedOver(path, _TEXT) for path in prompts]
            self.passed_over.sort(key=lambda each: each.path)
        else:
            self.paths = prompts

    def _files(self) -> Iterator[tuple[str, str]]:
        """Yield paths with their real paths, in any order."""
        if is_folder(self._name):
            yield from self._below(self._name)
            return
        for path in _matching(self._name):
            if is_folder(path):
                yield from self._below(path)
            else:
                yield path, os.path.realpath(path)

    def _below(self, folder: str) -> Iterator[tuple[str, str]]:
        waiting = [folder]
        while waiting:
            path = waiting.pop()
            real = os.path.realpath(path)
            if real in self._folders:
                continue
            self._folders.add(real)
            for entry in sorted(self._entries(path), key=lambda each: each.name, reverse=True):
                if entry.name.startswith("."):
                    continue
                if is_folder_entry(entry):
                    waiting.append(entry.path)
                elif not entry.is_symlink():
                    yield entry.path, f"{real.rstrip('/')}/{entry.name}"
                else:
                    yield entry.path, os.path.realpath(entry.path)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                found = []
                for entry in entries:
                    self._looked_at += 1
                    if self._looked_at > MOST_FILES:
                        raise KvtoolError(
                            f"the folder contains more than {MOST_FILES:,} files",
                            hint="pass a subfolder",
                            place=Place(self._name),
                        )
                    found.append(entry)
                return found
        except OSError as error:
            self.passed_over.append(PassedOver(folder, f"unreadable ({error.strerror})"))
            return []


def _kind(path: str, format_: RecordFormat | None) -> str:
    """Return `log`, `prompt`, or what else a file is. A log that cannot be read is one all the same: reading it tells why."""
    name = uncompressed(path.lower())
    if name.endswith(PLAIN_SUFFIXES) and format_ is None:
        return "prompt"
    other = next((what for suffixes, what in _OTHERS.items() if name.endswith(suffixes)), None)
    if other is not None:
        return other
    promises = name.endswith(_LOG_SUFFIXES)
    if name.endswith(_TRACE) and uncompressed(name.removesuffix(_TRACE)).endswith(_LOG_SUFFIXES):
        return "log"  # a block trace, named as its log: one that is damaged is no other file
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - strings are enough, and there may be many
            return _OTHER
        return _kind_of_text(path, format_, promises=promises)
    except FileNotFoundError:
        return "broken link"
    except (OSError, ValueError) as error:
        return "broken link" if isinstance(error, OSError) and error.errno == errno.ELOOP else "unreadable"
    except KvtoolError:
        return "log" if promises else _BINARY


def _has_records(kind: FileKind, reader: io.BufferedReader, path: str) -> bool:
    """Return whether one of the first records of a file that is no JSON holds a prompt."""
    try:
        for raw in islice(kind.read(reader, path, path), _TRIED):
            try:
                if read_record(parse(raw.data) if raw.value is None else raw.value, Where(path))[0] != SERVER_LINE:
                    return True
            except (NotJSONError, RecordError):
                continue
    except KvtoolError:
        pass
    return False


def _kind_of_text(path: str, format_: RecordFormat | None, *, promises: bool) -> str:
    with open_bytes(path, parked=True) as reader:
        head = reader.peek(1)
        if not head:
            return _EMPTY
        if (kind := kind_of(reader, path)) is not None:
            return "log" if _has_records(kind, reader, path) else _BINARY if b"\0" in head else _OTHER
        refuse_binary(reader, path)
        if head.lstrip()[:1] not in (b"{", b"[", b""):
            return "log" if promises else _OTHER
        for number, raw in enumerate(read_records(reader, step=1 << 14, opens=opens)):
            if raw.problem is not None or number == _TRIED:
                return "log" if promises and raw.problem is not None else _NO_PROMPTS
            try:
                if read_record(parse(raw.data), Where(path), format_, around=raw.around)[0] != SERVER_LINE:
                    return "log"
            except NotJSONError:
                return "log" if promises else _OTHER
            except RecordError:
                continue
    return _NO_PROMPTS
