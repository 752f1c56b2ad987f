from __future__ import annotations

import gc
import os
import tempfile
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.token_store import TokenStore


def ids(*tokens: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return np.array(tokens, np.int32)


@given(st.lists(st.lists(st.integers(0, 3), max_size=20), max_size=20), st.integers(0, 40))
def test_what_was_added_is_read_wherever_it_stands(sequences: list[list[int]], in_memory: int) -> None:
    store = TokenStore(in_memory=in_memory)
    places = [store.add(ids(*sequence)) for sequence in sequences]
    assert len(store) == sum(map(len, sequences))
    for at, sequence in zip(places, sequences, strict=True):
        stop = at + len(sequence)
        assert store.read(at, stop).tolist() == sequence
        assert store.read(at + len(sequence) // 2, stop).tolist() == sequence[len(sequence) // 2 :]
        assert store.common_prefix(at, stop, ids(*sequence, 9)) == len(sequence)
        for cut in range(len(sequence)):
            assert store.common_prefix(at, stop, ids(*sequence[:cut], 9)) == cut
            assert store.common_prefix(at, stop, ids(*sequence[:cut])) == cut


def test_a_prefix_is_longer_than_one_reading() -> None:
    store = TokenStore(in_memory=0)
    long = np.arange(5000, dtype=np.int32)
    at = store.add(long)
    store.add(ids(1))
    assert store.common_prefix(at, at + 5000, np.append(long[:4321], ids(0))) == 4321
    assert store.common_prefix(at, at + 5000, long) == 5000


def test_the_file_has_no_name_and_goes_with_the_store() -> None:
    store = TokenStore(in_memory=2)
    store.add(ids(1, 2))
    assert store._file == -1  # what is small touches no disk
    store.add(ids(3, 4))
    file = store._file
    status = os.fstat(file)
    assert (status.st_nlink, status.st_mode & 0o777, status.st_size) == (0, 0o600, 8)
    del store
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


def test_without_room_on_the_disk_all_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    store = TokenStore(in_memory=2)
    store.add(ids(1, 2))
    store.add(ids(3, 4))

    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    places = [store.add(ids(5, number)) for number in range(10)]
    assert [store.read(at, at + 2).tolist() for at in places] == [[5, number] for number in range(10)]
    assert store.read(0, 2).tolist() == [1, 2]
    assert store.read(2, 4).tolist() == [3, 4]


def test_without_a_folder_for_files_all_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> NoReturn:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryFile", none)
    store = TokenStore(in_memory=2)
    places = [store.add(ids(5, number)) for number in range(10)]
    assert [store.read(at, at + 2).tolist() for at in places] == [[5, number] for number in range(10)]
