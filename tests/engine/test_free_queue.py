from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.errors import EngineError
from kvtool.engine.free_queue import FreeQueue


def test_blocks_are_taken_from_the_head_and_the_null_block_never() -> None:
    queue = FreeQueue(5)
    assert list(queue) == [1, 2, 3, 4]
    assert len(queue) == 4
    assert [queue.pop(), queue.pop()] == [1, 2]
    queue.append([2])
    queue.prepend([1])
    assert list(queue) == [1, 3, 4, 2]
    queue.remove(4)
    assert list(queue) == [1, 3, 2]
    queue.check()


def test_order_of_what_is_put_back() -> None:
    queue = FreeQueue(7)
    taken = [queue.pop() for _ in range(6)]
    assert taken == [1, 2, 3, 4, 5, 6]
    assert list(queue) == []
    queue.append([4, 2])
    queue.prepend([6, 1])  # the first given is the new head
    queue.append([])
    queue.prepend([])
    assert list(queue) == [6, 1, 4, 2]
    queue.check()


def test_a_pool_of_the_null_block_alone_is_empty_and_grows() -> None:
    queue = FreeQueue(1)
    assert list(queue) == []
    assert [queue.grow(), queue.grow()] == [1, 2]
    assert list(queue) == []
    queue.check()
    queue.append([2, 1])
    assert list(queue) == [2, 1]
    queue.check()


def test_no_pool_without_the_null_block() -> None:
    with pytest.raises(EngineError, match="at least the null block"):
        FreeQueue(0)


def test_check_sees_a_lost_block() -> None:
    queue = FreeQueue(4)
    queue.next[1] = 3  # 2 is skipped in one direction only
    with pytest.raises(AssertionError):
        queue.check()


@given(st.integers(1, 8), st.data())
def test_it_behaves_like_a_list(num_blocks: int, data: st.DataObject) -> None:
    queue = FreeQueue(num_blocks)
    model = list(range(1, num_blocks))
    away: list[int] = []
    for _ in range(data.draw(st.integers(0, 20))):
        operation = data.draw(st.sampled_from(["pop", "remove", "append", "prepend", "grow"]))
        if operation == "grow":
            away.append(queue.grow())
        elif operation in ("pop", "remove") and model:
            block = model[0] if operation == "pop" else data.draw(st.sampled_from(model))
            if operation == "pop":
                assert queue.pop() == block
            else:
                queue.remove(block)
            model.remove(block)
            away.append(block)
        elif operation in ("append", "prepend"):
            back = data.draw(st.permutations(away))[: data.draw(st.integers(0, len(away)))]
            away = [block for block in away if block not in back]
            model = model + back if operation == "append" else back + model
            getattr(queue, operation)(back)
        assert list(queue) == model
        assert len(queue) == len(model)
        queue.check()
