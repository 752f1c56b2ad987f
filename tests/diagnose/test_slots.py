"""Slots and their values: what a name says, what values say together, and which tokens stand behind which slots."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.prompt_layout import Layout
from kvtool.diagnose.slots import MOST_SLOT_SETS, Slot, SlotSets, places_in_log, words_around
from kvtool.diagnose.values.classify import classify
from kvtool.diagnose.values.slot_values import MOST_EXAMPLES, SlotValues
from kvtool.diagnose.values.variable_names import kind_of_name
from kvtool.text.traced import Origin, Traced, concat
from kvtool.workload.turn import Turn

NAMES = {
    "KV101": ["now", "today", "currentDate", "session_time", "request.timestamp", "created_date", "clock", "utcnow"],
    "KV102": ["uuid", "nonce", "trace_id", "requestId", "request.id", "spanId", "msg_id", "jobNumber"],
    "KV104": ["user", "user_id", "tenantName", "customer.name", "locale", "timezone", "time_zone", "session_id", "plan", "lang"],
    "KV105": ["step", "userCount", "retry", "turn_number", "version", "attempt", "loop.index"],
    "KV106": ["cwd", "branch", "commit_sha", "os.name", "workDir", "platform", "git_tree"],
    "KV107": ["feature_flag", "variant", "experiment", "abBucket"],
    None: ["", "x", "user_message", "userInput", "request", "documents", "cart_item_id", "city", "conversation", "chat.history"],
}  # fmt: skip


def test_what_a_name_says() -> None:
    for code, name in [(code, name) for code, names in NAMES.items() for name in names]:
        kind = kind_of_name(name)
        assert (kind.code if kind else None) == code


def test_a_name_of_a_megabyte_is_no_trouble() -> None:
    assert kind_of_name("aB" * 500_000) is None
    assert kind_of_name("A" * 1_000_000) is None


def resolved(
    values: list[str],
    *,
    variable: str | None = None,
    label: str = "",
    sessions: list[str] | None = None,
    constant_within: bool = False,
    absent: bool = False,
) -> tuple[str, float]:
    """Code and confidence of values that were seen in this order; empty ones stood on the other side only."""
    known = SlotValues()
    for index, value in enumerate(values):
        session = sessions[index] if sessions else None
        known.add(value, classify(value), label, session, absent=absent)
    kind, confidence = known.resolve(variable, constant_within=constant_within)
    assert 0 <= confidence <= 1
    return kind.code, confidence


UUIDS = [f"7a1d2f3e-5b6c-4d7e-8f90-{number * 7919:012x}" for number in range(8)]
DATES = [f"2025-01-{day:02d}" for day in range(1, 9)]
TIMES = [f"2025-01-01T10:00:{second:02d}Z" for second in range(8)]


def test_what_values_say_together() -> None:
    for values, options, code in [
        (TIMES, {}, "KV101"),
        (DATES, {}, "KV101"),
        (UUIDS, {}, "KV102"),
        ([*UUIDS[:7], "none"], {}, "KV102"),  # the majority counts
        ([*UUIDS[:4], *DATES[:4]], {}, "KV201"),  # there is none
        (["101", "102", "103", "104"], {}, "KV105"),
        (["9", "7", "5", "3"], {}, "KV105"),
        (["1", "1", "2", "2", "3", "3"], {"sessions": ["a", "b"] * 3}, "KV105"),  # each session counts for itself
        (["3", "4", "7", "8", "12", "20", "31"], {}, "KV105"),  # it only rises
        (["17", "4", "92", "55"], {}, "KV201"),
        (["17", "4", "92", "55"], {"variable": "step"}, "KV105"),
        (["17", "4", "92", "55"], {"label": "Attempt"}, "KV105"),
        (["101", "102", "103"], {"variable": "user_id"}, "KV104"),  # a name says more than a series
        (UUIDS, {"variable": "tenant"}, "KV104"),
        (UUIDS, {"label": "Tenant"}, "KV104"),
        (DATES, {"label": "Version"}, "KV101"),  # a label does not outvote what plainly is a date
        (DATES, {"variable": "version"}, "KV105"),
        (TIMES, {"variable": "session"}, "KV101"),
        (["on", "off"], {}, "KV107"),
        (["A", "B", "A"], {}, "KV107"),
        (["Be extra careful.", ""], {"absent": True}, "KV107"),
        (["one text", "another text", "a third"], {"absent": True}, "KV201"),
        (
            ["gold", "gold", "free", "free", "gold", "gold", "free", "free"],
            {"sessions": list("aabbccdd"), "constant_within": True},
            "KV104",
        ),
        (["gold", "gold", "free", "free", "gold", "gold", "free", "free"], {"sessions": list("aabbccdd")}, "KV201"),
        (
            ["gold", "free", "free", "gold", "gold", "free", "free", "gold"],
            {"sessions": list("aabbccdd"), "constant_within": True},
            "KV201",
        ),
        ([f"question {word}" for word in "abcdefgh"], {"sessions": list("abcdefgh"), "constant_within": True}, "KV201"),
        (["en-US", "de-DE"], {}, "KV104"),
        (["$12.99", "€3.50"], {}, "KV201"),
        (["hello", "world"], {}, "KV201"),
    ]:
        assert resolved(values, **options)[0] == code  # type: ignore[arg-type]


def test_more_values_make_surer() -> None:
    assert resolved(UUIDS[:2])[1] == pytest.approx(2 / 3)
    assert resolved(UUIDS)[1] == pytest.approx(8 / 9)
    assert resolved([*UUIDS[:6], "x", "y"])[1] == pytest.approx(6 / 8 * 8 / 9)


def test_examples_are_few_and_short() -> None:
    known = SlotValues()
    for number in range(100):
        known.add(f"{number} " * 1000, classify(""), "", None, absent=False)
    assert len(known.examples) == MOST_EXAMPLES
    assert max(map(len, known.examples)) == 256
    assert len(known.distinct) == 100


def slot(name: str) -> Slot:
    return Slot("p", 1, 1, variable=name)


def test_prediction_counts_chains_that_are_closed_as_a_whole() -> None:
    chains = SlotSets()
    a, b, c = map(slot, "abc")
    chains.promise((a,), 5)
    chains.promise((a, b), 7)
    chains.promise((a, b, c), 11)
    chains.promise((b,), 13)
    assert chains.predicted([a]) == 5
    assert chains.predicted([b]) == 13
    assert chains.predicted([a, b]) == 25
    assert chains.predicted([c]) == 0
    assert chains.predicted([a, b, c]) == 36


@given(st.lists(st.tuples(st.lists(st.sampled_from("abcd"), min_size=1, unique=True), st.integers(1, 9)), max_size=30))
def test_prediction_is_the_sum_over_subsets(added: list[tuple[list[str], int]]) -> None:
    chains = SlotSets()
    for names, tokens in added:
        chains.promise(tuple(map(slot, names)), tokens)
    for closed in ("a", "ab", "bd", "abcd"):
        want = sum(tokens for names, tokens in added if set(names) <= set(closed))
        assert chains.predicted(set(map(slot, closed))) == want


def test_rare_chains_are_merged_into_their_beginning() -> None:
    chains = SlotSets()
    first = slot("first")
    chains.add((first,), 1_000_000)
    for number in range(MOST_SLOT_SETS + 10):
        chains.add((first, slot(str(number))), 2 + (number < 5))
    assert len(chains.tokens) <= MOST_SLOT_SETS
    assert chains.tokens.total() == 1_000_000 + 2 * (MOST_SLOT_SETS + 10) + 5
    assert chains.tokens[first,] > 1_000_000
    assert all(chains.tokens[first, slot(str(number))] == 3 for number in range(5))  # the weightiest stay


def test_words_beside_a_value() -> None:
    for line, value, words in [
        ("The current time is 10:31, so hurry.", "10:31", "current time is"),
        ("10:31 is the time", "10:31", "is the time"),
        ("a long way off\nat 10:31", "10:31", "at"),
        ("10:31", "10:31", ""),
        ("Step 10 took 10:31", "10:31", "Step took"),
    ]:
        start = line.rindex(value)
        assert words_around(line, start, start + len(value)) == words


def logged(text: str, part: str = "messages[4] (tool)") -> Traced:
    return Traced.of(text, Origin("log", 1, verbatim=False, pointer=("messages", 4, "content"), part=part, text=text))


def test_a_value_is_found_by_its_words_on_any_line() -> None:
    by_words = Slot("", 0, 0, part="messages (tool)", kind="clock", logged=True, words="Finished at")
    text = logged("one\nStarted at 10:30\nFinished at 10:31\ntwo\n  Finished at 10:45")
    assert [text[low:high] for low, high in places_in_log(text, by_words)] == ["10:31", "10:45"]
    assert list(places_in_log(logged(str(text), part="messages[1] (user)"), by_words)) == []


def test_a_line_of_a_log_is_found_where_others_were_taken_out() -> None:
    by_line = Slot("", 0, 0, part="messages[0] (system)", kind="clock", logged=True, line_in_text=2)
    text = logged("You help.\nId: 7\nNow: 10:31\nBe brief.", part="messages[0] (system)")
    assert [text[low:high] for low, high in places_in_log(text, by_line)] == ["10:31"]
    without = concat([text[:10], text[16:]])
    assert without == "You help.\nNow: 10:31\nBe brief."
    assert [without[low:high] for low, high in places_in_log(without, by_line)] == ["10:31"]
    named = Slot("", 0, 0, part="messages[0] (system)", kind="line", logged=True, line_in_text=1)
    assert [text[low:high] for low, high in places_in_log(text, named)] == ["Id: 7"]


def test_messages_are_found_in_a_rendered_prompt() -> None:
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "  Be brief. \n"},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]},
        {"role": "assistant", "content": "left out by the template"},
        {"role": "tool", "content": "42"},
    ]
    text = "<system>Be brief.<user>Hello there<tool>42<end>"
    layout = Layout(Turn("g", messages=messages), text)

    def at(words: str) -> tuple[int, int] | None:
        start = text.index(words)
        found = layout.message_part(start, start + len(words))
        return None if found is None else (found.index, found.offset + start - found.start)

    assert at("Be") == (0, 2)  # two spaces were stripped
    assert at("Hello") == (1, 0)
    assert at("there") == (1, 5)
    assert at("42") == (3, 0)
    assert at("tool") is None
    assert layout.next_message(text.index("<user>") + 2) == 1
    assert (layout.shifts(0), layout.shifts(1), layout.shifts(3)) == (False, False, True)
    assert layout.around(*(text.index("<end>") + 1, len(text))) == (text.index("<end>"), len(text))


def test_texts_that_are_not_there_are_not_looked_for_forever() -> None:
    """Each message is searched in what is left of the prompt; a bound on the whole keeps that linear."""
    messages = [{"role": "user", "content": f"not there {number}"} for number in range(5000)]
    layout = Layout(Turn("g", messages=[*messages, {"role": "user", "content": "x"}]), "x" * 100_000)
    assert layout.message_part(0, 1) is None  # the search was given up before the last message


def test_tools_are_told_by_their_names() -> None:
    tools = [{"type": "function", "function": {"name": "find_order"}}]
    text = 'Tools: [{"name": "find_order"}]\nuser:find it<end>'
    turn = Turn("g", messages=[{"role": "user", "content": "find it"}], tools=tools)
    assert Layout(turn, text).holds_tools(9, 12)
    assert not Layout(turn, text).holds_tools(len(text) - 3, len(text))
    turn.tools = None  # the other prompt had some
    assert Layout(turn, text).holds_tools(0, 0)


def test_counts_of_values_are_counts() -> None:
    known = SlotValues()
    for value in ["a", "b", "a", "c"]:
        known.add(value, classify(value), "Mode", "s", absent=value == "c", other="" if value == "c" else None)
    assert (known.seen, known.absent, len(known.distinct)) == (4, 1, 4)
    assert known.examples == ["a", "b", "c", ""]
    assert known.labels == Counter({"Mode": 4})
