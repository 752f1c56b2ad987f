"""Bytes of an input file, decompressed on the way and checked to be text, with every failure reported as a user's error."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, SupportsIndex

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.text_files import wide_encoding

HEAD = 1 << 16
"""Bytes that can be looked at before reading; also the size of one read."""
PARKED_HEAD = 1 << 12
"""The same of a file that is read beside many others."""

_MOST_RATIO = 200
"""Bytes out of one: JSON shrinks to a fifth or a fiftieth, a flood of one byte to a thousandth."""
_ZSTD_STEP = 1 << 10  # of compressed input at a time: at the format's highest ratio this gives 32 MiB
_GZIP = 31
"""The window of zlib that stands for a gzip file."""
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGICS = (b"\x28\xb5\x2f\xfd", *(bytes((0x50 + i, 0x2A, 0x4D, 0x18)) for i in range(16)))
_UTF8_BOM = b"\xef\xbb\xbf"
_OTHER_KINDS = {
    b"PK\x03\x04": "a zip archive",
    b"PAR1": "a Parquet file",
    b"BZh": "bzip2-compressed",
    b"\xfd7zXZ": "xz-compressed",
    b"%PDF-": "a PDF",
    b"SQLite format 3": "an SQLite database",
}


def uncompressed(path: str) -> str:
    """The name of a file without the endings that say how it is compressed."""
    return path.removesuffix(".gz").removesuffix(".zst")


def compressed(chunks: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yield the bytes as a file of this name has them: as .gz, as .zst, or as they are."""
    if uncompressed(path) == path:
        yield from chunks
        return
    if path.endswith(".gz"):
        packer: Any = zlib.compressobj(wbits=_GZIP)
    else:
        import zstandard

        packer = zstandard.ZstdCompressor().compressobj()
    yield from map(packer.compress, chunks)
    yield packer.flush()


class _Checked(io.RawIOBase):
    """Reads through `inner`; what goes wrong on the way becomes a `KvtoolError` that names the file."""

    def __init__(self, read: Callable[[int], bytes], file: IO[bytes], name: str, *, plain: bool = False) -> None:
        super().__init__()
        self.plain = plain
        self._read = read
        self._close = file.close
        self.bytes_taken = file.tell
        self._name = name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override] # typeshed: a wider Buffer
        try:
            data = self._read(len(buffer))
        except EOFError as error:
            raise _damaged(self._name, "it ends in the middle of its compressed data") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise _damaged(self._name, str(error)) from error
        except OSError as error:
            raise _unreadable(self._name, error) from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._close()
        super().close()


class _Zstd:
    """Decompressed bytes of a zstd file; unlike the library's stream reader it notices that a file was cut short."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        import zstandard

        self._file = file
        self._name = name
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._error = zstandard.ZstdError
        self._frame = self._new()
        self._fed = False  # the current frame has seen input
        self._ready = memoryview(b"")

    def read(self, size: int) -> bytes:
        while not self._ready:
            rest = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = self._new()
                self._fed = False
            step = rest or self._file.read(_ZSTD_STEP)
            if not step:
                if self._fed:
                    raise EOFError
                return b""
            self._fed = True
            try:
                self._ready = memoryview(self._frame.decompress(step))
            except self._error as error:
                raise _damaged(self._name, str(error)) from error
        piece, self._ready = self._ready[:size], self._ready[size:]
        return bytes(piece)


def open_bytes(path: str, name: str | None = None, *, parked: bool = False) -> io.BufferedReader:
    """The bytes of a file, decompressed if it begins like a .gz or .zst, without a UTF-8 byte order mark.

    `name` is what errors call it (a spooled stdin); `parked` keeps no descriptor between reads, and little in memory. Raises
    KvtoolError for what cannot be opened and for UTF-16.
    """
    name = path if name is None else name
    file = _open(path, name, parked=parked)
    try:
        start = file.peek(4)
        if start.startswith(_GZIP_MAGIC):
            unzip = gzip.GzipFile(fileobj=file)
            raw = _Checked(unzip.read, file, name)
        elif start.startswith(_ZSTD_MAGICS):
            raw = _Checked(_Zstd(file, name).read, file, name)
        else:
            raw = _Checked(file.read, file, name, plain=True)
        reader: io.BufferedReader = io.BufferedReader(raw, PARKED_HEAD if parked else HEAD)
        _skip_mark(reader, name)
    except OSError as error:
        file.close()
        raise _unreadable(name, error) from error
    except BaseException:
        file.close()
        raise
    return reader


def is_plain(reader: io.BufferedReader) -> bool:
    """Return whether what `open_bytes` gave are the bytes of the file as they lie on the disk."""
    raw = reader.raw
    return isinstance(raw, _Checked) and raw.plain


def bytes_taken(reader: io.BufferedReader) -> int:
    """Count the bytes of the file itself, as it is on the disk, that were read through the result of `open_bytes`."""
    raw = reader.raw
    return raw.bytes_taken() if isinstance(raw, _Checked) and not raw.closed else 0


def refuse_bomb(reader: io.BufferedReader, name: str, unpacked: int, *, free: int) -> None:
    """KvtoolError where a compressed file gave far more bytes than it has: for those who keep what they read in memory.

    `unpacked` bytes were read so far; up to `free` are taken from any file.
    """
    if unpacked > free and not is_plain(reader) and unpacked > _MOST_RATIO * bytes_taken(reader):
        raise KvtoolError(
            f"it unpacks to more than {_MOST_RATIO} times its size",
            hint="unpack it first, if you expect this size",
            place=Place(name),
        )


def refuse_binary(reader: io.BufferedReader, name: str, *, nul_ok: bool = False) -> None:
    """Raises KvtoolError if the file begins like something that is not text. `nul_ok`: a few NUL bytes are content."""
    head = reader.peek(HEAD)[:4096]
    nuls = head.count(0)
    kind = next((kind for magic, kind in _OTHER_KINDS.items() if head.startswith(magic)), None)
    if kind is None and nuls and not (nul_ok and nuls * 10 < len(head)):
        kind = "a binary file (or UTF-16 text)"
    if kind is not None:
        raise KvtoolError(
            f"this is {kind}; kvtool reads UTF-8 text, JSON and JSON lines, also as .gz or .zst", place=Place(name)
        )


def _open(path: str, name: str, *, parked: bool) -> io.BufferedReader:
    place = Place(name)
    try:
        if stat.S_ISDIR(Path(path).stat().st_mode):
            raise KvtoolError("this is a directory", hint=f"pass its files: {path.rstrip('/')}/*", place=place)
        return io.BufferedReader(ParkedFile(path), PARKED_HEAD) if parked else io.BufferedReader(FileSoFar(path))
    except FileNotFoundError as error:
        raise KvtoolError("no such file", hint=_similar(path), place=place) from error
    except PermissionError as error:
        raise KvtoolError("permission denied", place=place) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise KvtoolError(f"cannot open: {reason or error}", place=place) from error


def _similar(path: str) -> str | None:
    """A hint that names the file of the folder whose name is nearest."""
    from difflib import get_close_matches

    target = Path(path)
    try:
        names = [entry.name for entry in target.parent.iterdir()]
    except (OSError, ValueError):
        return f"there is no folder `{target.parent}` either"
    near = get_close_matches(target.name, names, n=1)
    return f"did you mean `{target.parent / near[0]}`?" if near else None


def _skip_mark(reader: io.BufferedReader, name: str) -> None:
    head = reader.peek(4)[:4]
    if (encoding := wide_encoding(head)) is not None:
        raise KvtoolError(
            f"this is {encoding} text; kvtool reads UTF-8",
            hint=f"iconv -f {encoding} -t UTF-8 {name} > new-file",
            place=Place(name),
        )
    if head.startswith(_UTF8_BOM):
        reader.read(len(_UTF8_BOM))


def _unreadable(name: str, error: OSError) -> KvtoolError:
    return KvtoolError(f"cannot read: {error.strerror or error}", place=Place(name))


def _damaged(name: str, why: str) -> KvtoolError:
    return KvtoolError(f"the compressed file is damaged: {why}", place=Place(name))


def end_of(descriptor: int) -> int | None:
    """Return the size of an open file in bytes; None where nobody knows: a device, a pipe, a file that a kernel makes up."""
    status = os.fstat(descriptor)
    return status.st_size if stat.S_ISREG(status.st_mode) and status.st_size else None


class FileSoFar(io.FileIO):
    """The bytes that a file has when it is opened, or fewer where it is cut meanwhile. Raises OSError as `open` does."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._end = end_of(self.fileno())

    def readinto(self, buffer: bytearray | memoryview, /) -> int | None:  # type: ignore[override] # typeshed: a wider Buffer
        if self._end is None:
            return super().readinto(buffer)
        return super().readinto(memoryview(buffer)[: max(0, self._end - self.tell())])

    def readall(self) -> bytes:
        return io.RawIOBase.readall(self) or b""


_CHANGED = "the file was replaced while it was read"


class ParkedFile(io.RawIOBase):
    """The bytes that a file has at first; each read opens it, goes to where the last one ended, and closes it again.

    Raises OSError as `open` does, and where another file has the name by then.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._at = 0
        with Path(path).open("rb", buffering=0) as file:
            self._same = _identity(file.fileno())
            self._end = end_of(file.fileno())

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override] # typeshed: a wider Buffer
        with Path(self._path).open("rb", buffering=0) as file:
            if _identity(file.fileno()) != self._same:
                raise OSError(None, _CHANGED)
            file.seek(self._at)
            room = len(buffer) if self._end is None else max(0, self._end - self._at)
            count = file.readinto(memoryview(buffer)[:room]) or 0
        self._at += count
        return count

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def seek(self, offset: SupportsIndex, whence: int = os.SEEK_SET, /) -> int:
        if whence != os.SEEK_SET:
            raise OSError(None, "only places from the beginning are known")
        self._at = offset.__index__()
        return self._at


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
