"""Files that take a descriptor only while they are read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from kvtool.errors import KvtoolError
from kvtool.text.files.compressed import bytes_taken, open_bytes

TEXT = b"\xef\xbb\xbf" + b"".join(b"line %d\n" % number for number in range(20_000))


def test_the_bytes_are_the_same(tmp_path: Path) -> None:
    for pack in [bytes, gzip.compress, zstandard.ZstdCompressor().compress]:
        assert callable(pack)
        path = tmp_path / "log"
        path.write_bytes(pack(TEXT))
        with open_bytes(str(path), parked=True) as reader:
            pieces = [reader.read(7), reader.read(50_000), reader.read()]
            assert b"".join(pieces) == TEXT[3:]
            assert bytes_taken(reader) == path.stat().st_size


@pytest.mark.parametrize("parked", [True, False])
def test_what_is_appended_while_it_is_read_is_for_the_next_time(parked: bool, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(TEXT)
    with open_bytes(str(path), parked=parked) as reader:
        first = reader.read(10)
        with path.open("ab") as file:
            file.write(TEXT)
        assert first + reader.read() == TEXT[3:]
    with open_bytes(str(path), parked=parked) as reader:
        assert reader.read() == (TEXT + TEXT)[3:]


def test_what_has_no_size_is_read_all_the_same() -> None:
    path = Path("/proc/self/status")
    if not path.exists():
        pytest.skip("no file that is made up while it is read")
    for parked in (True, False):
        with open_bytes(str(path), parked=parked) as reader:
            assert reader.read().startswith(b"Name:")


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
