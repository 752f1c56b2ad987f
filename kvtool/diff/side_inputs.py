"""The sides of diff-prompts: prompt files, chat bodies and records of logs, each of them one request."""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.compressed import open_bytes, uncompressed
from kvtool.text.files.file_patterns import is_pattern
from kvtool.text.files.json_stream import RawRecord, parse, read_records
from kvtool.text.files.text_files import check_file, decode, read_text
from kvtool.text.terminal.streams import STDIN
from kvtool.text.traced import Origin, Traced
from kvtool.workload.logs.files.file_kinds import has_text_records, kind_of
from kvtool.workload.logs.files.input_files import find_inputs, is_folder
from kvtool.workload.logs.files.log_file import read_raw, records_of
from kvtool.workload.logs.files.plain_text_files import PLAIN_SUFFIXES, TEXT_FORMAT
from kvtool.workload.logs.placed_turns import default_group
from kvtool.workload.logs.records.mapped_records import requested_format
from kvtool.workload.logs.records.record import Dialogue, Where
from kvtool.workload.logs.records.record_format import RecordFormat, Turns
from kvtool.workload.turn import Turn

RECORD_SUFFIXES = (".json", ".jsonl", ".ndjson", ".traj")
_NUMBERED = re.compile(r"(.+?):(\d{1,9})(?::(\d{1,9}))?", re.DOTALL)
_MOST_FOUND = 200
"""Prompts that folders and patterns may stand for: each is compared with each."""
_SKIP_HINT = "--on-bad-line skip"
_HEAD = 4096
"""Bytes of a file in which its first character is looked for."""


@dataclass(frozen=True, slots=True)
class InputSide:
    """One request to compare. `name` is what the user wrote; path, line and column (from 1) say where its record begins."""

    name: str
    turn: Turn
    path: str
    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A file that a name on the command line asks for, maybe a record of it, maybe a request of that record, all from 1."""

    name: str
    path: str
    record: int | None = None
    request: int | None = None


def expanded(names: Sequence[str], *, log_format: str | None = None) -> list[str]:
    """Replace folders and patterns by their prompts. Raises KvtoolError for those that contain none, or too
    many."""
    found: list[str] = []
    for name in names:
        searched = name != STDIN and not _exists(name) and is_pattern(name) and _NUMBERED.fullmatch(name) is None
        found += find_inputs([name], log_format=log_format).paths if searched or is_folder(name) else [name]
    if len(found) > len(names) and len(found) > _MOST_FOUND:
        raise KvtoolError(f"these are {len(found):,} prompts; at most {_MOST_FOUND} are compared", hint="name fewer")
    return found


def read_sides(names: Sequence[str], *, log_format: str | None = None) -> list[InputSide]:
    """Return the requests that the names stand for, in order; every file is read once.

    A name is a path, or `-` for standard input (once). A `.json` or `.jsonl` file holds records: `log.jsonl:12` is record 12,
    `log.jsonl:12:3` the third request of it (the last one is meant otherwise, as it holds the others), and no number the only
    record. Everything else is text, unless it reads as a chat, also through a pipe, or `log_format` names the format of its records
    (`text`: all files are text). Raises KvtoolError for what cannot be read or has no text.
    """
    wanted = [_parse(name) for name in names]
    if sum(one.path == STDIN for one in wanted) > 1:
        raise KvtoolError("only one of the prompts can be standard input")
    by_path: dict[str, list[_Wanted]] = {}
    for one in wanted:
        by_path.setdefault(one.path, []).append(one)
    found: dict[_Wanted, InputSide] = {}
    for path, ones in by_path.items():
        found.update(_read_file(path, ones, log_format))
    return [found[one] for one in wanted]


def read_prompt(path: str) -> Traced:
    """Return the text of a prompt file as it is, a byte order mark included: for a cache it is a difference. It may be empty."""
    data = _piped(path)
    if data is not None:
        return _text(path, data, decode(data, shown=_shown(path), may_be_empty=True))
    text = read_text(Path(path), shown=path, may_be_empty=True)
    with Path(path).open("rb") as file:
        return _text(path, file.read(len(codecs.BOM_UTF8)), text)


def first_turns(paths: Iterable[str], most: int) -> list[Turn]:
    """Return the first request of each of the first records of files, as far as they can be read; none of texts and pipes."""
    found: list[Turn] = []
    for path in dict.fromkeys(paths):
        if path == STDIN or not Path(path).is_file():
            continue
        try:
            with open_bytes(path) as reader:
                for at, raw in enumerate(islice(records_of(reader, path, path), most)):
                    entry = read_raw(raw, Where(path, raw.line, raw.column), None, at)
                    turns: Turns = [] if isinstance(entry, KvtoolError) else entry.turns()
                    found += [turns[0]] if len(turns) else []
        except KvtoolError:  # a text
            continue
    return found


def side_of(name: str, data: bytes) -> InputSide:
    """Return the request in what a program printed: a chat where it reads as one, else the text itself."""
    wanted = _Wanted(name, name)
    if _reads_as_chat(data, name):
        return _records(name, lambda: io.BufferedReader(io.BytesIO(data)), [wanted], None)[wanted]
    return _text_side([wanted], _text(name, data, decode(data, shown=name, may_be_empty=True)))[wanted]


def side_of_value(name: str, data: bytes) -> InputSide:
    """Return the request in a JSON value: a text is the prompt itself, an object or a list must be a chat."""
    value = parse(data)
    if isinstance(value, str):
        return InputSide(name, Turn("prompts", text=Traced.of(value, Origin(name, text=value)), id=name), name)
    wanted = _Wanted(name, name)
    return _records(name, lambda: io.BufferedReader(io.BytesIO(data)), [wanted], None)[wanted]


def _text(path: str, start: bytes, text: str) -> Traced:
    if start.startswith(codecs.BOM_UTF8):
        text = "\ufeff" + text
    return Traced.of(text, Origin(path, text=text))


def _shown(path: str) -> str:
    return "standard input" if path == STDIN else path


def _piped(path: str) -> bytes | None:
    """Return the data of standard input or of the shell's `<(command)`, which can be read only once; None for a file."""
    if path == STDIN:
        return sys.stdin.buffer.read()
    source = Path(path)
    return source.read_bytes() if source.is_fifo() else None


def _parse(name: str) -> _Wanted:
    numbered = _NUMBERED.fullmatch(name)
    if numbered is None or _exists(name):
        return _Wanted(name, name)
    path, record, request = numbered[1], int(numbered[2]), int(numbered[3]) if numbered[3] else None
    if path != STDIN and not _exists(path):
        check_file(Path(path), shown=path)
    if record == 0 or request == 0:
        raise KvtoolError(f"`{name}`: records and requests count from 1")
    return _Wanted(name, path, record, request)


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def _plain_suffix(path: str) -> str:
    return Path(uncompressed(path.lower())).suffix


def _read_file(path: str, wanted: list[_Wanted], log_format: str | None) -> dict[_Wanted, InputSide]:
    numbered = next((one for one in wanted if one.record is not None), None)
    suffix = _plain_suffix(path)
    format_ = requested_format(log_format)
    by_suffix = log_format is None and suffix in PLAIN_SUFFIXES
    if log_format == TEXT_FORMAT or (by_suffix and not has_text_records(path)):
        if numbered is not None:
            raise KvtoolError(f"`{numbered.name}`: `{path}` is a text, which has no records")
        return _text_side(wanted, read_prompt(path))
    data = _piped(path)
    if data is not None:
        if log_format is None and numbered is None and not _reads_as_chat(data, path):
            return _text_side(wanted, _text(path, data, decode(data, shown=_shown(path), may_be_empty=True)))
        return _records(path, lambda: io.BufferedReader(io.BytesIO(data)), wanted, format_)
    check_file(Path(path), shown=path)
    if log_format is None and numbered is None and suffix not in RECORD_SUFFIXES and not _is_chat_file(path):
        return _text_side(wanted, read_prompt(path))
    return _records(path, lambda: open_bytes(path), wanted, format_)


def _text_side(wanted: list[_Wanted], text: Traced) -> dict[_Wanted, InputSide]:
    return {one: InputSide(one.name, Turn("prompts", text=text, id=one.name), one.path) for one in wanted}


def _reads_as_chat(data: bytes, path: str) -> bool:
    """Return whether the first record of a pipe is a request with messages; anything else is taken for the prompt itself."""
    return data.lstrip()[:1] in (b"{", b"[") and _begins_with_chat(io.BufferedReader(io.BytesIO(data)), path)


def _is_chat_file(path: str) -> bool:
    """Return whether a file whose name does not say it contains records, as the body of a request that a proxy saved does."""
    try:
        with open_bytes(path) as reader:
            if kind_of(reader, path) is not None:
                return True
            return reader.peek(_HEAD)[:_HEAD].lstrip()[:1] in (b"{", b"[") and _begins_with_chat(reader, path)
    except KvtoolError:  # it is read as a text, and what is wrong with that is reported
        return False


def _begins_with_chat(reader: io.BufferedReader, path: str) -> bool:
    raw = next(read_records(reader), None)
    found = None if raw is None else read_raw(raw, Where(path, raw.line, raw.column), None, 0)
    turns = [] if found is None or isinstance(found, KvtoolError) else found.turns()
    return len(turns) > 0 and turns[0].messages is not None


def _records(
    path: str,
    opened: Callable[[], AbstractContextManager[io.BufferedReader]],
    wanted: list[_Wanted],
    format_: RecordFormat | None,
) -> dict[_Wanted, InputSide]:
    """Return the wanted records of a file; those in between are not even parsed."""
    numbers = {one.record or 1 for one in wanted}
    alone = any(one.record is None for one in wanted)
    kept: dict[int, RawRecord] = {}
    count = 0
    with opened() as reader:
        for count, raw in enumerate(records_of(reader, path, path), 1):
            if count in numbers:
                kept[count] = raw
            if count > (1 if alone else 0) and len(kept) == len(numbers):
                break
    if not count:
        raise KvtoolError("there is no request in it: the file is empty", place=Place(path))
    if alone and count > 1:
        raise KvtoolError(
            f"`{_shown(path)}` has more than one record",
            hint=f"add its number: {path}:1 is the first",
        )
    sides: dict[_Wanted, InputSide] = {}
    for one in wanted:
        found = kept.get(one.record or 1)
        if found is None:
            has = f"{count} record" + ("" if count == 1 else "s")
            raise KvtoolError(f"`{one.name}`: `{_shown(path)}` has only {has}", hint=f"the last one is {path}:{count}")
        sides[one] = InputSide(one.name, _request(one, found, format_), path, found.line, found.column)
    return sides


def _request(one: _Wanted, raw: RawRecord, format_: RecordFormat | None) -> Turn:
    number = one.record or 1
    where = Where(one.path, raw.line, raw.column, str(number), number, default_group(one.path), number=number)
    found = read_raw(raw, where, format_, number - 1)
    if isinstance(found, KvtoolError):
        hint = None if found.hint == _SKIP_HINT else found.hint
        raise KvtoolError(found.message.partition(";")[0], hint=hint, place=found.place)
    turns = found.turns()
    if not len(turns):
        raise KvtoolError(
            f"`{one.name}` is no request to a model that was answered", place=Place(one.path, raw.line, raw.column)
        )
    turn = turns[_which(one, turns) - 1]
    if turn.hashed is not None:
        raise KvtoolError(
            f"`{one.name}` holds hashes of blocks, not a prompt",
            hint=f"kvtool profile {one.path} shows what they share",
        )
    turn.id = one.name
    return turn


def _which(one: _Wanted, turns: Turns) -> int:
    """Return the number of a request in its record, from 1."""
    if isinstance(turns, Dialogue) and len(turns) > 1 and one.request != 1:
        raise KvtoolError(
            f"`{one.name}`: its answers are not recorded, so only the first of its {len(turns)} requests is known",
            hint=f"{one.path}:{one.record or 1}:1 is the first",
        )
    wanted = len(turns) if one.request is None else one.request
    if wanted > len(turns):
        has = f"{len(turns)} request" + ("" if len(turns) == 1 else "s")
        raise KvtoolError(
            f"`{one.name}`: record {one.record} has only {has}",
            hint=f"the last one is {one.path}:{one.record or 1}:{len(turns)}",
        )
    return wanted
