"""Plain text files as workloads: the whole file is one prompt, and each file is one request."""

from __future__ import annotations

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.compressed import open_bytes, refuse_binary
from kvtool.text.files.json_stream import MAX_RECORD
from kvtool.text.traced import Origin, Traced
from kvtool.workload.turn import RequestName, Turn

PLAIN_SUFFIXES = (".txt", ".md")
PLAIN_GROUP = "prompts"
TEXT_FORMAT = "text"
"""The format of such a file."""


def read_prompt(file: str, path: str, group: str = PLAIN_GROUP) -> Turn:
    """Return the prompt in a text file, to the character (only a byte order mark is left out). `path` is what the user calls
    `file`."""
    with open_bytes(file, path) as reader:
        refuse_binary(reader, path, nul_ok=True)
        data = reader.read(MAX_RECORD + 1)
    if len(data) > MAX_RECORD:
        raise KvtoolError(f"a prompt of more than {MAX_RECORD >> 20} MiB", place=Place(path))
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        begin = data.rfind(b"\n", 0, error.start) + 1
        column = len(data[begin : error.start].decode()) + 1
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        hint = "convert the file: iconv -f LATIN1 -t UTF-8"
        raise KvtoolError(message, hint=hint, place=Place(path, line, column)) from None
    if not text:
        raise KvtoolError("the file is empty", place=Place(path))
    traced = Traced.of(text, Origin(path, part="prompt", text=text, one_of_many=True))
    return Turn(group=group, text=traced, id=path, name=RequestName(path))
