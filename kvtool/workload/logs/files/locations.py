"""Places of texts in the files of logs."""

from __future__ import annotations

from kvtool.errors import KvtoolError
from kvtool.text.files.compressed import open_bytes
from kvtool.text.files.json_position import character_start, line_and_column, value_start
from kvtool.text.files.json_stream import read_records
from kvtool.text.traced import Origin
from kvtool.workload.logs.files.spool import reads_once


def locate(origin: Origin, offset: int) -> tuple[int, int]:
    """Return line and column in the file of character `offset` of the origin's text, however it is escaped there.

    Reads the file again. Where it is gone or changed (or was a pipe), the answer is the place of the record.
    """
    if origin.verbatim or not origin.pointer:
        return origin.position(offset)
    if reads_once(origin.path):
        return origin.line, origin.column
    try:
        with open_bytes(origin.path) as reader:
            for raw in read_records(reader):
                if (raw.line, raw.column) == (origin.line, origin.column):
                    text = raw.data.decode()
                    index = character_start(text, value_start(text, origin.pointer), offset)
                    return line_and_column(text, index, raw.line, raw.column)
                if raw.line > origin.line:
                    break
    except (KvtoolError, LookupError, ValueError, RecursionError):
        pass
    return origin.line, origin.column
