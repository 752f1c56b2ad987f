"""Files that take a descriptor only while they are read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from kvtool.errors import KvtoolError
from kvtool.text.files.compressed import bytes_taken, open_bytes

TEXT = b"\xef\xbb\xbf" + b"".join(b"line %d\n" % number for number in range(20_000))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
def test_the_bytes_are_the_same(pack: object, tmp_path: Path) -> None:
    assert callable(pack)
    path = tmp_path / "log"
    path.write_bytes(pack(TEXT))
    with open_bytes(str(path), parked=True) as reader:
        pieces = [reader.read(7), reader.read(50_000), reader.read()]
        assert b"".join(pieces) == TEXT[3:]
        assert bytes_taken(reader) == path.stat().st_size


def test_another_file_of_the_name_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(TEXT)
    with open_bytes(str(path), parked=True) as reader:
        reader.read(10)
        path.rename(tmp_path / "log.1")
        path.write_bytes(TEXT)
        with pytest.raises(KvtoolError, match="replaced while it was read"):
            reader.read()


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(TEXT)
    with open_bytes(str(path), parked=True) as reader:
        path.unlink()
        with pytest.raises(KvtoolError, match="No such file"):
            reader.read()
