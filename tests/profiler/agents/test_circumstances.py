"""What a circumstance reaches in an agent's requests: random faults under random circumstances, none missed and none invented."""

from __future__ import annotations

import random
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.profiler.agents.agent_run import Ended
from kvtool.profiler.agents.chance import Chance, changes
from kvtool.profiler.agents.circumstances import AGAIN, BASE, VARIED, Circumstance
from kvtool.profiler.agents.compared_runs import AgentRequests, read_runs
from kvtool.profiler.agents.prefix_stability import judged
from kvtool.profiler.agents.stub_answers import StubTokens, write_answer
from kvtool.profiler.agents.stub_script import answer, read_request
from kvtool.profiler.agents.stub_server import KeptRequest
from kvtool.text.tokens.tokenizer import Tokenizer, load_tokenizer
from tests.conftest import some
from tests.profiler.agents.fake_agent import FACTORS, PLACES, FakeAgent, World

PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-2.5-pro:generateContent",
}
OTHERS = ("date", "shuffled tools", "late tool", "servers", "model name", "double result", "title", "retry")
TURNS = 2
STEPS = 5
"""Of two turns of three requests."""


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(None)


def world(how: Circumstance, turn: int) -> World:
    """Return what the agent would see."""
    variables = how.variables
    return World(
        {
            "folder": how.folder,
            "home": how.home,
            "git": f"feature-{turn}" if how.commits else "main",
            "locale": variables.get("LANG", "C.UTF-8"),
            "zone": variables.get("TZ", "UTC"),
            "tomorrow": f"2026-03-{10 + how.days * (turn + 1)}",
        },
        {server.name: server.delay / 2 for server in how.servers},
    )


def run(protocol: Any, faults: list[str], how: Circumstance, number: int) -> AgentRequests:
    """Return the requests of a session in this process; its number decides the order of shuffled tools."""
    kept: list[KeptRequest] = []
    agent = FakeAgent(protocol, faults, rotated=number % 2)
    for turn in range(TURNS if how.session else 1):

        def send(body: dict[str, Any], retry: int = 0, turn: int = turn) -> dict[str, Any]:
            headers = {"x-stainless-retry-count": str(retry)}
            at = 1_770_000_000.0 + len(kept)
            kept.append(KeptRequest(how.name, turn, protocol, PATHS[protocol], headers, deepcopy(body), at))
            return write_answer(protocol, "m", answer(read_request(protocol, body), "/"), StubTokens(9, 0), len(kept))

        agent.turn(f"Prompt {turn}.", world(how, turn), send)
    return AgentRequests(how, kept, [Ended(0, 1.0, "")])


def broken(faults: list[str], how: Circumstance) -> Counter[object]:
    """Return where the steps of a session break first: tools, then the system prompt line by line, then messages."""
    places: list[object] = []
    for step in range(1, STEPS + 1 if how.session else 3):
        late, resumed = step % 3 == 2, step == 3
        active: list[tuple[int, object]] = []
        for at, factor in enumerate(FACTORS):
            varies = (factor == "git" and how.commits) or (factor == "tomorrow" and how.days)
            if resumed and varies and f"{factor} anew in tools" in faults:
                active.append((0, "note"))
            if resumed and varies and f"{factor} anew in system" in faults:
                active.append((10 + at, factor))
        added = ["late tool"] * ("late tool" in faults)
        added += ["servers"] * ("servers" in faults and any(server.delay for server in how.servers))
        if added and (late or resumed):
            active.append((2, added[0] if late else "removed"))
        active += [
            (order, fault) for order, fault in ((1, "model name"), (90, "double result")) if resumed and fault in faults
        ]
        active += [(80, "date")] * ("date" in faults)
        if active:
            places.append(min(active, key=lambda each: each[0])[1])
    return Counter(places)


def section(place: str) -> str:
    if place.startswith("tools"):
        return "tools"
    return "system" if "system" in place or "instructions" in place.lower() else "user"


@pytest.mark.parametrize("seed", some(range(10), 2))
def test_what_reaches_the_requests_is_found_and_none_is_invented(
    seed: int, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        protocol = rng.choice(sorted(PATHS))
        others = rng.sample(OTHERS, rng.randint(0, 3))
        leaks: dict[str, str] = {}
        for factor in rng.sample(FACTORS, rng.randint(0, 3)):
            anew = rng.random() < 0.5
            leaks[factor] = f"anew in {rng.choice(PLACES[:2])}" if anew else f"in {rng.choice(PLACES)}"
        faults = [*(f"{factor} {where}" for factor, where in leaks.items()), *others]
        chosen = [how for how in VARIED if not how.other and rng.random() < 0.5]
        runs = [run(protocol, faults, how, number) for number, how in enumerate((BASE, AGAIN, *chosen))]
        left_out = read_runs(runs, tmp_path, lambda: tokenizer)
        found = judged(runs, left_out)
        rows = {row.name: row for row in found.circumstances}
        said = (protocol, faults)
        base = broken(faults, BASE)
        assert found.steps.broken == base.total(), said
        assert rows["resume"].broken == bool({"model name", "double result", "date", "late tool"} & set(faults)), said
        assert (rows["again"].place is not None) == bool({"date", "shuffled tools"} & set(faults)), said
        for how in chosen:
            row = rows[how.name]
            servers = "servers" in faults and any(not server.delay for server in how.servers)
            assert (row.place is not None) == (how.name in leaks or servers), (said, row)
            if row.place is not None:
                wanted = leaks.get(how.name, "in tools").rpartition(" ")[2]
                assert section(row.place) == wanted, (said, row)
            assert row.broken == (broken(faults, how) - base).total(), (said, row)
        assert (found.verdict == "broken") == bool(base or any(rows[how.name].broken for how in chosen if how.judged))


WORDS = st.lists(st.sampled_from(["tide", "harbor", "7", "12:05", "\n", "(x)", "é"]), max_size=12)


@given(WORDS, WORDS)
def test_changes_make_one_text_of_the_other(one: list[str], other: list[str]) -> None:
    a, b = " ".join(one), " ".join(other)
    made, at = "", 0
    for change in changes(a, b):
        made += a[at : change.a0] + b[change.b0 : change.b1]
        at = change.a1
    assert made + a[at:] == b


@given(WORDS, st.text("0123456789abcdef", min_size=8, max_size=8), st.text("0123456789", min_size=8, max_size=8), WORDS)
def test_a_value_of_chance_is_no_change_and_what_stands_beside_it_is(
    before: list[str], one: str, other: str, after: list[str]
) -> None:
    def text(value: str, more: str = "") -> str:
        return f"{' '.join(before)} run {value}{more} {' '.join(after)} end"

    chance = Chance(text(one), text(other))
    assert chance.first_change(text("c0ffee00")) is None or one == other
    assert chance.first_change(text("c0ffee00", " twice")) is not None


def test_an_order_of_chance_is_no_change_and_a_new_word_is() -> None:
    chance = Chance("rules: alpha; beta; gamma; end", "rules: gamma; alpha; beta; end")
    assert chance.first_change("rules: beta; gamma; alpha; end") is None
    found = chance.first_change("rules: beta; delta; gamma; alpha; end")
    assert found is not None
    assert "delta" in "rules: beta; delta; gamma; alpha; end"[found[0] - 1 : found[0] + 6]
