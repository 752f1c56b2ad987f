"""The text from which vLLM's benchmark draws lines: refused by name, as it is no prompt itself."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import PurePath

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.compressed import uncompressed
from kvtool.text.files.json_stream import RawRecord
from kvtool.workload.logs.files.file_kinds import FileKind

_SONNET = "sonnet.txt"
_FIRST_LINE = b"FROM fairest creatures we desire increase"


def is_sonnet(head: bytes, path: str) -> bool:
    """Return whether a text is the one from which vLLM's benchmark draws lines."""
    name = PurePath(uncompressed(path.lower())).name
    return head.lstrip().startswith(_FIRST_LINE) or (name == _SONNET and head.count(b"\n") > 1)


def refuse_sonnet(_reader: io.BufferedReader, _file: str, path: str) -> Iterator[RawRecord]:
    """Refuse a text that is no prompt itself."""
    raise KvtoolError(
        "this file is the source text of vLLM's benchmark, not a prompt",
        hint="log the benchmark's requests, or add --format text if it is one prompt",
        place=Place(path),
    )


FILE_KINDS = (
    FileKind(
        "sonnet",
        "sonnet.txt",
        is_sonnet,
        refuse_sonnet,
        example="FROM fairest creatures we desire increase,\nThat thereby beauty's rose might never die,\n",
        file="sonnet.txt",
    ),
)
