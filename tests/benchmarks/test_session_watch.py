from __future__ import annotations

import random
from typing import Any

from benchmarks.session_watch import SessionWatch
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

WORDS = [
    "the",
    "plane",
    "leaves",
    "when",
    "all",
    "of",
    "the",
    "bags",
    "have",
    "been",
    "put",
    "where",
    "nobody",
    "will",
    "ever",
    "look",
    "for",
    "them",
    "again",
]


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=12))


def messages(rng: random.Random, count: int, system: str) -> list[dict[str, Any]]:
    roles = ["user", "assistant"]
    return [
        {"role": "system", "content": system},
        *({"role": roles[at % 2], "content": sentence(rng)} for at in range(count)),
    ]


def test_conversations_that_take_turns_in_one_session() -> None:
    rng = random.Random(0)
    agents = [messages(rng, 12, sentence(rng)) for _ in range(3)]
    watch = SessionWatch()
    for length in range(2, 13):
        for agent in agents:
            assert watch.see(Turn("g", messages=agent[:length], session="s", index=length)) == []
    assert len(watch) == 3  # each one's last turn
    changed = [{"role": "system", "content": "Answer in one word."}, *agents[1][1:]]
    assert watch.see(Turn("g", messages=changed, session="s"))[0].kind.key == "other"
    watch.check()


def test_a_change_is_told_once() -> None:
    rng = random.Random(1)
    rest = messages(rng, 9, "Be brief.")[1:]

    def at(time: str, length: int) -> Turn:
        return Turn(
            "g", messages=[{"role": "system", "content": f"It is {time}.\nBe brief."}, *rest[:length]], session="s"
        )

    watch = SessionWatch()
    told = [
        [change.kind.code for change in watch.see(turn)] for turn in (at("10:00", 3), at("10:01", 5), at("10:01", 7))
    ]
    assert told == [[], ["KV101"], []]


def test_without_sessions_the_turn_with_most_text_in_common_is_the_predecessor() -> None:
    rng = random.Random(2)
    system = "\n".join(sentence(rng) for _ in range(30))
    conversations = [messages(rng, 9, system) for _ in range(20)]
    watch = SessionWatch()
    for length in (2, 4, 6):
        for conversation in conversations:
            assert watch.see(Turn("g", messages=conversation[:length])) == []
    cut = [conversations[7][0], *conversations[7][3:8]]
    (change,) = watch.see(Turn("g", messages=cut))
    assert change.kind.key == "window"
    assert change.before == "\n".join(each["content"] for each in conversations[7][1:3])


def test_texts_know_where_their_history_begins() -> None:
    rng = random.Random(3)
    head = "\n\n".join(sentence(rng) for _ in range(4))
    steps = [sentence(rng) for _ in range(8)]
    watch = SessionWatch()
    for count in range(7):
        assert watch.see(Turn("g", text=Traced("\n\n".join([head, *steps[:count]])), session="s")) == []
    (change,) = watch.see(Turn("g", text=Traced("\n\n".join([head, *steps[3:8]])), session="s"))
    assert change.kind.key == "window"
    assert steps[0] in change.before
    watch = SessionWatch()
    for count in (0, 6):
        watch.see(Turn("g", text=Traced("\n\n".join([head, *steps[:count]])), session="s"))
    (change,) = watch.see(Turn("g", text=Traced("\n\n".join([head, steps[0], "dropped", *steps[2:7]])), session="s"))
    assert (change.kind.key, change.after) == ("history_edited", "dropped")


def test_it_holds_no_more_than_it_may() -> None:
    rng = random.Random(4)
    watch = SessionWatch(turns=5, characters=2_000)
    for at in range(60):
        watch.see(Turn("g", messages=messages(rng, rng.randrange(1, 9), sentence(rng)), session=f"s{at % 9}"))
        watch.check()
        assert len(watch) <= 5
    watch.see(Turn("g", text=Traced("x" * 10_000)))
    assert len(watch) == 1
    watch.check()


def test_what_has_no_text_is_passed_over() -> None:
    watch = SessionWatch()
    assert watch.see(Turn("g")) == []
    assert len(watch) == 0
    assert watch.see(Turn("g", messages=[])) == []
    assert watch.see(Turn("g", messages=[{"content": [1, None, {"text": 3}]}])) == []
