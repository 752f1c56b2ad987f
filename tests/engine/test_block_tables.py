from __future__ import annotations

import numpy as np

from kvtool.engine.blocks.block_tables import BlockTables
from kvtool.engine.request import Request


def table(tables: BlockTables, *rows: tuple[Request, int]) -> list[list[int]]:
    counts = np.array([count for _, count in rows], dtype=np.int32)
    return tables.table([request for request, _ in rows], counts).tolist()


def test_rows_grow_come_and_go() -> None:
    one, other = Request("1", 4), Request("2", 4)
    one.block_ids, other.block_ids = [3, 4], [7]
    tables = BlockTables()
    assert table(tables, (one, 2), (other, 1)) == [[3, 4], [7, 0]]
    one.block_ids += [5, 6]
    assert table(tables, (one, 3)) == [[3, 4, 5]]  # the last is there, but not in use yet
    assert table(tables, (other, 1), (one, 4)) == [[7, 0, 0, 0], [3, 4, 5, 6]]


def test_other_blocks_after_a_preemption() -> None:
    request = Request("1", 4)
    request.block_ids = [3, 4]
    tables = BlockTables()
    assert table(tables, (request, 2)) == [[3, 4]]
    request.num_preemptions += 1
    request.block_ids[:] = [8, 9, 10]
    assert table(tables, (request, 3)) == [[8, 9, 10]]


def test_a_returned_table_stays_as_it_was() -> None:
    request = Request("1", 4)
    request.block_ids = [3]
    tables = BlockTables()
    first = tables.table([request], np.array([1], dtype=np.int32))
    request.num_preemptions += 1
    request.block_ids[:] = [9]
    assert table(tables, (request, 1)) == [[9]]
    assert first.tolist() == [[3]]
