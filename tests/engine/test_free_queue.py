from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.blocks.free_queue import FreeQueue
from kvtool.engine.engine_error import EngineError


def test_blocks_are_taken_from_the_head_and_the_null_block_never() -> None:
    queue = FreeQueue(5)
    assert list(queue) == [1, 2, 3, 4]
    assert len(queue) == 4
    assert queue.peek() == 1
    assert queue.take(2) == [1, 2]
    queue.append([2])
    queue.prepend([1])
    assert list(queue) == [1, 3, 4, 2]
    assert queue.peek() == 1
    queue.remove([2])
    assert list(queue) == [1, 3, 4]
    assert queue.take(3) == [1, 3, 4]
    assert queue.peek() == 0
    queue.check()


def test_order_of_what_is_put_back() -> None:
    queue = FreeQueue(7)
    assert queue.take(6) == [1, 2, 3, 4, 5, 6]
    assert list(queue) == []
    queue.append([4, 2])
    queue.prepend([1, 6])  # the last given is the new head
    queue.append([])
    queue.prepend([])
    assert list(queue) == [6, 1, 4, 2]
    assert queue.take(0) == []
    assert queue.take(3) == [6, 1, 4]
    queue.check()


def test_a_prefix_leaves_at_once_and_scattered_blocks_one_by_one() -> None:
    queue = FreeQueue(9)
    queue.append(queue.take(8)[3:])
    queue.append([3, 2, 1])
    assert list(queue) == [4, 5, 6, 7, 8, 3, 2, 1]
    assert queue.among([1, 2]) == [1, 2]  # as they were freed: tail first
    queue.remove([1, 2])
    assert queue.among([1, 6, 2, 4]) == [6, 4]
    queue.remove([6, 4])
    assert list(queue) == [5, 7, 8, 3]
    assert queue.peek() == 5
    assert queue.take(2) == [5, 7]
    queue.check()


def test_the_line_does_not_grow_with_what_goes_through_it() -> None:
    queue = FreeQueue(4)
    queue.append(queue.take(3))
    longest = 0
    for _ in range(3000):
        queue.append(queue.take(1))
        queue.remove([3] if queue.among([3]) else [1])
        queue.append([block for block in (1, 2, 3) if block not in list(queue)])
        longest = max(longest, len(queue._line))
    assert sorted(queue) == [1, 2, 3]
    assert longest < 1200
    queue.check()


def test_a_pool_of_the_null_block_alone_is_empty_and_grows() -> None:
    queue = FreeQueue(1)
    assert list(queue) == []
    assert list(queue.grow(2)) == [1, 2]
    assert list(queue) == []
    assert queue.among([1, 2]) == []
    queue.check()
    queue.append([2, 1])
    assert list(queue) == [2, 1]
    queue.check()


def test_no_pool_without_the_null_block() -> None:
    with pytest.raises(EngineError, match="at least the null block"):
        FreeQueue(0)


def test_check_sees_a_lost_block() -> None:
    queue = FreeQueue(4)
    queue.append(queue.take(3))
    queue._line[1] = 0
    with pytest.raises(AssertionError):
        queue.check()


def test_check_sees_a_block_that_is_queued_twice() -> None:
    queue = FreeQueue(4)
    queue.prepend([2])
    with pytest.raises(AssertionError):
        queue.check()


@given(st.integers(1, 8), st.data())
def test_it_behaves_like_a_list(num_blocks: int, data: st.DataObject) -> None:
    queue = FreeQueue(num_blocks)
    front: list[int] = []
    new = list(range(1, num_blocks))
    line: list[int] = []
    away: list[int] = []
    for _ in range(data.draw(st.integers(0, 20))):
        operation = data.draw(st.sampled_from(["take", "remove", "append", "prepend", "grow"]))
        if operation == "grow":
            away += queue.grow(data.draw(st.integers(0, 2)))
        elif operation == "take":
            count = data.draw(st.integers(0, len(front + new + line)))
            taken = (front + new + line)[:count]
            assert queue.take(count) == taken
            away += taken
            front, new, line = ([block for block in part if block not in taken] for part in (front, new, line))
        elif operation == "remove":
            gone = data.draw(st.permutations(line))[: data.draw(st.integers(0, len(line)))]
            queue.remove(gone)
            line = [block for block in line if block not in gone]
            away += gone
        else:
            back = data.draw(st.permutations(away))[: data.draw(st.integers(0, len(away)))]
            away = [block for block in away if block not in back]
            if operation == "append":
                queue.append(back)
                line += back
            else:
                queue.prepend(back)
                front = back[::-1] + front
        assert list(queue) == front + new + line
        assert len(queue) == len(front + new + line)
        assert queue.peek() == (front + new + line + [0])[0]
        mixed = data.draw(st.permutations(line + away + front))
        assert queue.among(mixed) == [block for block in mixed if block in line]
        queue.check()
