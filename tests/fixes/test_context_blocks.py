"""Blocks of context in user messages, and forks: recognized as one thing, moved as a whole, and never a user's own text."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.codes.structure.kv144 import KV144
from kvtool.diagnose.compare.change import RequestPart
from kvtool.diagnose.compare.context_block import context_block_change
from kvtool.diagnose.compare.messages import compare_turns
from kvtool.fixes.moves.context_blocks import ContextBlocks, ContextKept, MovedContext
from kvtool.fixes.moves.parent_prefix import ParentPrefix
from kvtool.fixes.turn_texts import texts_of
from kvtool.text.cache_marks import is_marked
from kvtool.text.structure.framed_blocks import framed_blocks
from kvtool.workload.turn import Turn

HEADS = ["Relevant memory:", "<documents>", "## Open files", "[context]"]
TEXT = st.text("abcdefg ", min_size=4, max_size=30).map(str.strip).filter(bool)
MARK = {"cache_control": {"type": "ephemeral"}}


def block(head: str, lines: list[str]) -> str:
    end = ["</documents>"] if head == "<documents>" else []
    return "\n".join([head, *(f"- {line}" for line in lines), *end])


def conversation(
    head: str, blocks: list[list[str]], *, place: str, session: str = "s", marked: bool = False
) -> list[Turn]:
    """Turns of which each has its block of context: in the first message, in each one as it was sent, or only in the last one."""
    turns: list[Turn] = []
    for number in range(len(blocks)):
        messages: list[dict[str, Any]] = [{"role": "system", "content": "You help."}]
        for at in range(number + 1):
            text = f"Question {at} of {session}?"
            own = {"first": number if at == 0 else None, "last": number if at == number else None, "each": at}[place]
            if own is not None and blocks[own]:
                text = f"{block(head, blocks[own])}\n\n{text}"
            messages.append({"role": "user", "content": text})
            if at < number:
                messages.append({"role": "assistant", "content": f"Answer {at} of {session}."})
        if marked:
            messages[-1] |= MARK
        turns.append(Turn("g", messages=messages, session=session, index=number))
    return turns


BLOCKS = st.lists(st.lists(TEXT, max_size=3), min_size=3, max_size=5).filter(
    lambda blocks: len({str(lines) for lines in blocks if lines}) > 1 and sum(map(bool, blocks)) > 1
)


@given(st.sampled_from(HEADS), BLOCKS, st.sampled_from(["first", "last"]))
def test_a_rewritten_block_is_one_cause(head: str, blocks: list[list[str]], place: str) -> None:
    turns = conversation(head, blocks, place=place)
    for before, after in itertools.pairwise(turns):
        kinds = {change.kind.code for change in compare_turns(before, after)}
        assert kinds <= {KV144.code}


@given(st.sampled_from(HEADS), BLOCKS, st.sampled_from(["first", "last", "each"]), st.booleans())
def test_blocks_go_after_the_question_as_a_whole(head: str, blocks: list[list[str]], place: str, marked: bool) -> None:
    turns = conversation(head, blocks, place=place, marked=marked)
    learned = ContextBlocks.learn(turns)
    assert learned is not None
    assert learned.heads == {head}
    move = MovedContext(learned)
    for turn in turns:
        after = move(turn)
        said, now = (
            [line for at in texts_of(each) for line in str.__str__(at.text).split("\n")] for each in (turn, after)
        )
        assert Counter(filter(str.strip, said)) == Counter(filter(str.strip, now))
        assert move(after).messages == after.messages, "once is enough"
        for message in (after.messages or [])[:-1]:
            assert message["role"] != "user" or head not in message["content"]
        if marked and after is not turn:
            content = (after.messages or [])[-1]["content"]
            assert isinstance(content, list)
            assert is_marked(content[0])
            assert not is_marked(content[-1])
            assert head not in content[0]["text"]


@given(st.sampled_from(HEADS), BLOCKS, st.sampled_from(["first", "last", "each"]), st.booleans())
def test_blocks_go_to_the_end_of_the_instructions(head: str, blocks: list[list[str]], place: str, marked: bool) -> None:
    turns = conversation(head, blocks, place=place)
    learned = ContextBlocks.learn(turns)
    assert learned is not None
    move = MovedContext(learned, first=True)
    for turn in turns:
        if marked and turn.messages:
            turn.messages[0] = {"role": "system", "content": [{"type": "text", "text": "You help.", **MARK}]}
        after = move(turn)
        said, now = (
            Counter(line for at in texts_of(each) for line in str.__str__(at.text).split("\n") if line.strip())
            for each in (turn, after)
        )
        assert said == now
        assert all(head not in at.text for at in texts_of(after) if at.role == "user")
        if marked and after is not turn:
            first, *more = (after.messages or [])[0]["content"]
            assert (first["text"], is_marked(first)) == ("You help.", True)
            assert [is_marked(block) for block in more] == [False]
        alone = Turn("g", messages=[each for each in turn.messages or [] if each["role"] != "system"])
        assert move(alone) is alone


@given(st.sampled_from(HEADS), BLOCKS, st.sampled_from(["first", "last", "each"]))
def test_kept_blocks_make_each_turn_begin_with_the_one_before(head: str, blocks: list[list[str]], place: str) -> None:
    turns = conversation(head, blocks, place=place)
    learned = ContextBlocks.learn(turns)
    assert learned is not None
    keep = ContextKept(learned)
    made = [keep(turn).messages or [] for turn in turns]
    for before, after, turn in zip(made, made[1:], turns[1:], strict=False):
        old = [message for message in before if message["role"] != "user"]
        assert old == [message for message in after[: len(before)] if message["role"] != "user"]
        assert before[:-1] == after[: len(before) - 1], "all but the last message is as it was sent"
        lines = {line for at in texts_of(turn) for line in str.__str__(at.text).split("\n")}
        assert lines <= {line for message in after for line in str.__str__(message["content"]).split("\n")}


def test_what_users_ask_is_no_context() -> None:
    """Each asks something else, and nothing of the application is in it."""
    turns = conversation("Relevant memory:", [[], [], []], place="each")
    assert ContextBlocks.learn(turns) is None
    assert context_block_change("What is this?", "What is that?", RequestPart("message", 1, "user")) is None
    assert context_block_change("Notes:\n- a\n\nOne?", "Notes:\n- b\n\nTwo?", RequestPart("message", 1, "user")) is None


def test_a_block_ends_with_its_tag_or_before_a_blank_line() -> None:
    text = "<docs>\na\n\nb\n</docs>\nWhy?\n\nFiles:\nx.py\n\nHow?"
    assert [text[each.start : each.stop] for each in framed_blocks(text)] == ["<docs>\na\n\nb\n</docs>", "Files:\nx.py"]


def forked() -> tuple[Turn, Turn, Turn]:
    history = [{"role": role, "content": f"{role} {at}"} for at in range(2) for role in ("user", "assistant")]
    task = {"role": "user", "content": "Review it."}
    parent = Turn("g", messages=[{"role": "system", "content": "Parent rules."}, *history], session="p")
    child = Turn("g", messages=[{"role": "system", "content": "You review."}, *history, task], session="c")
    more = [{"role": "assistant", "content": "Fine."}, {"role": "user", "content": "And this?"}]
    assert child.messages is not None
    return parent, child, Turn("g", messages=[*child.messages, *more], session="c", index=1)


def test_a_fork_gets_the_prefix_of_its_parent_and_keeps_its_own_rules_in_its_task() -> None:
    give = ParentPrefix()
    parent, child, later = forked()
    assert give(parent) is parent
    first, second = give(child).messages, give(later).messages
    assert first is not None
    assert second is not None
    assert parent.messages is not None
    assert first[: len(parent.messages)] == parent.messages
    assert first[-1]["content"] == "Review it.\n\nYou review."
    assert second[: len(first)] == first, "later requests of the fork go on from its first one"


def test_conversations_that_only_begin_alike_are_no_forks() -> None:
    parent, child, _ = forked()
    assert parent.messages is not None
    assert child.messages is not None
    child.messages = [child.messages[0], *parent.messages[1:3], {"role": "user", "content": "Something else."}]
    assert not ParentPrefix.helps([parent, child])
    assert ParentPrefix.helps(forked()[:2])
