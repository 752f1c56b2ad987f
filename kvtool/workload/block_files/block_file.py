"""Block traces as Parquet: columns that any tool reads, and in the metadata what they were made of."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kvtool.errors import INSTALL_PARQUET, KvtoolError, NotAvailableError, Place
from kvtool.text.files.atomic_file import AtomicFile
from kvtool.text.files.checkout_links import make_folders
from kvtool.workload.block_files.block_row import BlockRow

if TYPE_CHECKING:
    from typing_extensions import Buffer

SUFFIX = ".parquet"
_KEY = b"kvtool"
BLOCKS = "kvtool.blocks/1"
"""The schema of what is written."""
_ROWS = 4096
"""Requests of a row group, at most."""
_IDS = 1 << 18
"""Blocks of a row group, about: what is kept in memory before it is written."""


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """Facts on a block trace: `source` is a fingerprint of the log and of all that decides what is made of it."""

    schema: str
    kvtool: str
    block_size: int
    source: str
    tokenizer: str | None
    """Name and fingerprint; None where nothing was tokenized."""
    chat_template: str | None
    blocks: int
    """Of all requests, answers included."""


class NotWrittenError(KvtoolError):
    """A trace could not be written: the disk is full, or the folder is not ours."""


def need_parquet() -> Any:
    """Return pyarrow; raise NotAvailableError with the command that installs it."""
    try:
        return import_module("pyarrow")
    except ImportError:
        raise NotAvailableError("block traces are Parquet files, which need pyarrow", hint=INSTALL_PARQUET) from None


class BlockWriter:
    """Writes the rows of one trace; the file is there, whole, when it is closed, and until then only a hidden `.part`."""

    def __init__(self, path: str | Path) -> None:
        """Raise KvtoolError where it cannot be written, or pyarrow is missing."""
        self._arrow = need_parquet()
        self._schema = block_schema(self._arrow)
        try:
            make_folders(Path(path).parent)
            self._file = AtomicFile(path)
        except OSError as error:
            raise NotWrittenError(f"cannot write {path}: {error.strerror or error}") from error
        except KvtoolError as error:
            raise NotWrittenError(error.message) from error
        self._sink = _Sink(self._file)
        self._writer: Any = import_module("pyarrow.parquet").ParquetWriter(
            self._sink, self._schema, compression="zstd", use_dictionary=["salt", "session", "hash_ids.list.element"]
        )
        self._rows: list[BlockRow] = []
        self._ids = 0
        self.requests = 0
        self.blocks = 0

    def add(self, row: BlockRow) -> None:
        """Append; KvtoolError where the disk is full."""
        self._rows.append(row)
        ids = len(row.hash_ids) + len(row.answer_ids or ())
        self._ids += ids
        self.blocks += ids
        self.requests += 1
        if len(self._rows) >= _ROWS or self._ids >= _IDS:
            self._flush()

    def _flush(self) -> None:
        arrow = self._arrow
        columns = zip(*self._rows, strict=True)
        arrays = [arrow.array(column, type=each.type) for column, each in zip(columns, self._schema, strict=True)]
        self._writer.write_batch(arrow.record_batch(arrays, schema=self._schema))
        self._rows, self._ids = [], 0

    def close(self, facts: BlockFacts) -> None:
        """Put the trace in its place, with what it says of itself."""
        if self._rows:
            self._flush()
        self._writer.add_key_value_metadata({_KEY.decode(): json.dumps(asdict(facts), sort_keys=True)})
        self._writer.close()
        try:
            self._file.close()
        except KvtoolError as error:
            raise NotWrittenError(error.message) from error

    def __enter__(self) -> BlockWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the file where it was not closed."""
        self._sink.gone = True
        with contextlib.suppress(Exception):  # what is left in it has nowhere to go
            self._writer.close()
        self._file.discard()


class _Sink(io.RawIOBase):
    """The file that pyarrow writes to; once it is `gone`, nothing is written any more."""

    def __init__(self, file: AtomicFile) -> None:
        super().__init__()
        self._file = file
        self._at = 0
        self.gone = False

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        piece = bytes(data)
        if not self.gone:
            try:
                self._file.write(piece)
            except KvtoolError as error:
                raise NotWrittenError(error.message) from error
        self._at += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._at


def block_schema(arrow: Any) -> Any:
    """Return the columns, as pyarrow has them."""
    ids = arrow.list_(arrow.int64())
    types: Mapping[str, Any] = {
        "arrival": arrow.float64(),
        "salt": arrow.int64(),
        "session": arrow.int64(),
        "turn": arrow.int32(),
        "status": arrow.int16(),
        "call": arrow.int64(),
        "weak": arrow.bool_(),
        "input_length": arrow.int64(),
        "output_length": arrow.int64(),
        "hash_ids": ids,
        "answer_ids": ids,
    }
    assert tuple(types) == BlockRow._fields
    return arrow.schema(list(types.items()))


def block_facts(metadata: Mapping[bytes, bytes] | None, path: str) -> BlockFacts | None:
    """Return the facts on a block trace from the metadata of a Parquet file; None where it is none. KvtoolError for one that this
    kvtool cannot read."""
    told = (metadata or {}).get(_KEY)
    if told is None:
        return None
    try:
        facts = BlockFacts(**json.loads(told))
    except (TypeError, ValueError):
        facts = None
    if facts is None or facts.schema != BLOCKS or type(facts.block_size) is not int or facts.block_size < 1:
        raise KvtoolError(
            "another version of kvtool wrote this block trace",
            hint="make it again with kvtool trace",
            place=Place(path),
        )
    return facts


@dataclass(frozen=True, slots=True)
class WrittenTrace:
    """A block trace that is there, and how much is in it."""

    facts: BlockFacts
    requests: int
    arrival: float | None
    """The latest one of its last rows; None without times."""


def written_trace(path: str | Path) -> WrittenTrace | None:
    """Return the facts on a file; None where it is no block trace of this version, or not whole."""
    arrow = need_parquet()
    try:
        with Path(path).open("rb") as file:  # pyarrow takes only names that are UTF-8
            metadata = import_module("pyarrow.parquet").read_metadata(file)
        facts = block_facts(metadata.metadata, str(path))
    except (OSError, arrow.ArrowException, KvtoolError):
        return None
    if facts is None:
        return None
    groups = metadata.num_row_groups
    times = metadata.row_group(groups - 1).column(0).statistics if groups else None
    return WrittenTrace(facts, metadata.num_rows, times.max if times is not None and times.has_min_max else None)
