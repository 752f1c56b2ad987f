"""The blocks of a replica: what is found, what goes first, and what nobody can ask for again."""

from __future__ import annotations

from kvtool.engine.fleet.replica_blocks import ReplicaPool


def filled(pool: ReplicaPool, names: list[int], more: int = 0) -> list[int]:
    """Blocks for these contents and for some without, as one request has them."""
    blocks = pool.take(len(names) + more)
    pool.enter(blocks[: len(names)], names)
    pool.check()
    return blocks


def test_the_tail_of_the_request_that_ended_first_goes_first() -> None:
    pool = ReplicaPool(9)
    one, other = filled(pool, [10, 11, 12], more=1), filled(pool, [20, 21])
    assert (one, other) == ([1, 2, 3, 4], [5, 6])
    assert (pool.used, pool.free) == (6, 2)
    pool.release(one, 3)
    pool.release(other, 2)
    pool.check()
    assert pool.take(8) == [4, 7, 8, 3, 2, 1, 6, 5]
    assert pool.find([10], 1) == []


def test_a_prefix_is_found_up_to_what_is_gone() -> None:
    pool = ReplicaPool(5)
    pool.release(filled(pool, [10, 11, 12]), 3)
    assert pool.find([10, 11, 12, 13], 4) == [1, 2, 3]
    assert pool.find([10, 11, 12], 2) == [1, 2]
    assert pool.take(2) == [4, 3]
    assert pool.find([10, 11, 12], 3) == [1, 2]


def test_what_is_held_stays() -> None:
    """Two that hold a prefix, and then one."""
    pool = ReplicaPool(5)
    one = filled(pool, [10, 11])
    pool.hold(pool.find([10, 11], 2), pool.idle([]))
    pool.release(one, 2)
    pool.check()
    assert pool.used == 2
    assert pool.take(2) == [3, 4]
    assert not pool.free
    pool.release(one, 2)
    assert pool.free == 2
    again = pool.find([10, 11], 2)
    pool.hold(again, pool.idle(again))
    pool.check()
    assert (again, pool.free) == ([1, 2], 0)


def test_two_blocks_of_one_content() -> None:
    """The one that was entered first is found, and then the other."""
    pool = ReplicaPool(4)
    first, second = filled(pool, [10]), filled(pool, [10])
    assert pool.find([10], 1) == first == [1]
    pool.release(second, 1)
    pool.release(first, 1)
    assert pool.take(2) == [3, 2]
    assert pool.find([10], 1) == [1]
    assert pool.take(1) == [1]
    assert pool.find([10], 1) == []
    pool.check()


def test_a_pool_that_grows_keeps_what_has_a_name() -> None:
    pool = ReplicaPool(None)
    blocks = filled(pool, [10, 11], more=2)
    pool.release(blocks, 3)
    pool.check()
    assert (pool.used, pool.find([10, 11], 2)) == (0, [1, 2])
    assert sorted(pool.take(3)) == [3, 4, 5]
    assert pool.find([10, 11], 2) == [1, 2]
