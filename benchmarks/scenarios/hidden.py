"""Causes that hide: in the history, among the tools, in a role, behind each other and on one line."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from scenarios.case import MARK, Block, Case, Cause, Planted, Record, prompt_case, slotted
from scenarios.prose import lines, paragraph, persona, question, reply, sections, sentence
from scenarios.values import CLOCK, RANDOM, WHO, drawn, moment, varying

REQUESTS = 24
_VERBS = ("read", "write", "list", "find", "move", "send", "close", "open", "plan", "rate")
_NOUNS = ("file", "order", "ticket", "room", "note", "claim", "route", "sheet")


def _tools(chance: random.Random, count: int) -> list[dict[str, Any]]:
    names = chance.sample([f"{verb}_{noun}" for verb in _VERBS for noun in _NOUNS], count)
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": sentence(chance),
                "parameters": {
                    "type": "object",
                    "properties": {"id": {"type": "string", "description": sentence(chance)}},
                },
            },
        }
        for name in names
    ]


def _no_units(number: int) -> list[tuple[str, ...]]:
    del number
    return []


def elided(chance: random.Random, seed: int) -> Case:
    """An agent whose old tool outputs are replaced by a note, so that each turn rewrites the history of the one before it."""
    note = chance.choice(
        ("[removed to save space]", "[Old tool result content cleared]", "(output elided)", "<omitted/>")
    )
    keep, turns = chance.choice((3, 4, 5)), chance.choice((10, 12))
    system = "\n\n".join([persona(chance), *sections(chance, 2)])

    def body(number: int, *, ideal: bool = False) -> Record:
        session, turn = divmod(number, turns)
        own = f"{seed}/{session}"
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": system},
            {"role": "user", "content": question(seed, session)},
        ]
        for step in range(turn):
            call = {"id": f"call_{session}_{step}", "type": "function"}
            function = {"name": "read_file", "arguments": json.dumps({"path": f"part_{step}.txt"})}
            messages.append({"role": "assistant", "content": "", "tool_calls": [{**call, "function": function}]})
            output = lines(random.Random(f"{own}/{step}"), 9)
            if not ideal and step < turn - keep:
                output = note
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
        return {"session_id": f"s{session}", "messages": messages}

    outputs = [lines(random.Random(f"{seed}/{session}/{step}"), 9) for session in range(3) for step in range(turns)]
    found = frozenset((note, *(line for output in outputs for line in output.split("\n"))))
    return Case(
        "hidden", "elided outputs", seed, turns * 2, body, (lambda at: body(at, ideal=True),),
        (Cause(("KV143", "KV142"), found),), "words", _no_units,
    )  # fmt: skip


def tools_added(chance: random.Random, seed: int) -> Case:
    """A session that gets another tool every few turns."""
    tools, turns = _tools(chance, 10), 8
    system = "\n\n".join([persona(chance), *sections(chance, 6)])
    front = chance.random() < 0.5
    first = chance.choice((3, 4))

    def body(number: int, *, ideal: bool = False) -> Record:
        session, turn = divmod(number, turns)
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
        for earlier in range(turn):
            messages.append({"role": "user", "content": question(seed, session * turns + earlier)})
            messages.append({"role": "assistant", "content": reply(seed, session * turns + earlier)})
        messages.append({"role": "user", "content": question(seed, number)})
        count = min(first + turn, 10)
        held = tools if ideal else tools[:count]
        return {"session_id": f"s{session}", "messages": messages, "tools": held[::-1] if front and not ideal else held}

    return Case(
        "hidden", "tools added", seed, 24, body, (lambda at: body(at, ideal=True),),
        (Cause(("KV115",), part="tools"),), "words", _no_units,
    )  # fmt: skip


def role(chance: random.Random, seed: int) -> Case:
    """The same instructions, now as the system's message, now as the user's."""
    system = "\n\n".join([persona(chance), *sections(chance, chance.randint(4, 6))])

    def body(number: int, *, ideal: bool = False) -> Record:
        own = random.Random(f"{seed}/{number}")
        said = "user" if not ideal and own.random() < 0.5 else "system"
        messages = [{"role": said, "content": system}, {"role": "user", "content": question(seed, number)}]
        return {"session_id": f"s{number}", "messages": messages}

    return Case(
        "hidden", "role", seed, 10, body, (lambda at: body(at, ideal=True),),
        (Cause(("KV116", "KV103", "KV107", "KV142", "KV201")),), "words", _no_units, says=("role",),
    )  # fmt: skip


def tool_line(chance: random.Random, seed: int) -> Case:
    """Tools that one line of the prompt lists, in another order each time."""
    tools = _tools(chance, chance.randint(6, 9))
    names = [tool["function"]["name"] for tool in tools]
    form = chance.choice(("names", "json", "quoted"))

    def line(order: list[int]) -> str:
        if form == "json":
            return "Tools: " + json.dumps([tools[at]["function"] for at in order])
        if form == "quoted":
            return "You may call " + ", ".join(f"`{names[at]}`" for at in order) + "."
        return "Available tools: " + ", ".join(names[at] for at in order)

    def text(number: int) -> str:
        return line(random.Random(f"{seed}/{number}").sample(range(len(names)), len(names)))

    found = frozenset(text(number) for number in range(REQUESTS))
    steady = line(list(range(len(names))))
    unit = Planted(text, lambda _: (), Cause(("KV111",), found), lambda _: steady)
    blocks: list[Block] = [persona(chance), *sections(chance, chance.randint(4, 6))]
    blocks.insert(chance.randint(1, 2), unit)
    return prompt_case(chance, "hidden", f"tools as {form}", seed, blocks, "order", chat=False)


def together(chance: random.Random, seed: int) -> Case:
    """Two causes on lines apart that always change together: to mend one wins little."""
    start, pool = chance.randrange(10**6), chance.choice((5, 10**9))

    def clock(at: int) -> str:
        return moment(start, at if pool > 5 else drawn(start, at, 5).randrange(99)).isoformat()

    pairs = (
        (f"Current time: {MARK}", CLOCK, clock),
        (f"Request {MARK}", RANDOM, lambda at: f"req_{drawn(start, at, pool).getrandbits(64):016x}"),
        (f"Signed in as {MARK}", WHO, lambda at: f"user_{drawn(start, at, pool).randrange(10**6):06d}"),
    )
    blocks: list[Block] = [persona(chance), *sections(chance, 5)]
    first = chance.randint(0, 1)
    for at, (text, codes, make) in zip((first, first + chance.choice((2, 3))), chance.sample(pairs, 2), strict=True):
        blocks.insert(at, slotted(text, make, codes, REQUESTS))
    return prompt_case(chance, "hidden", "together", seed, blocks, "move", chat=False)


def one_line(chance: random.Random, seed: int) -> Case:
    """Two causes on one line, which moves once."""
    one, two = varying(chance), varying(chance)
    while two.title == one.title:
        two = varying(chance)
    text, value = f"{one.title}: {MARK} | {two.title}: {MARK}", (one.make, two.make)

    def line(at: int) -> str:
        return f"{one.title}: {value[0](at)} | {two.title}: {value[1](at)}"

    found = frozenset(line(at) for at in range(REQUESTS))
    pieces = tuple(text.split(MARK))
    unit = Planted(line, lambda _: pieces, Cause((*one.codes, *two.codes), found))
    blocks: list[Block] = [persona(chance), *sections(chance, chance.randint(4, 6))]
    blocks.insert(chance.randint(0, 2), unit)
    return prompt_case(chance, "hidden", "one line", seed, blocks, "move")


def scratch(chance: random.Random, seed: int) -> Case:
    """Free text that nothing names: a summary of the day before the constant rules."""
    start = chance.randrange(10**6)

    def text(at: int) -> str:
        return "What is known so far: " + paragraph(drawn(start, at, 10**9), 2)

    found = frozenset(text(at) for at in range(REQUESTS))
    unit = Planted(text, lambda at: (text(at),), Cause(("KV201", "KV142"), found))
    blocks: list[Block] = [persona(chance), unit, *sections(chance, chance.randint(4, 6))]
    return prompt_case(chance, "hidden", "scratch", seed, blocks, "move", chat=False)


def context_first(chance: random.Random, seed: int) -> Case:
    """A user message that an application writes: what to read stands before the constant words that say how."""
    start, name = chance.randrange(10**6), chance.choice(("context", "document", "note", "passage"))
    rules = "\n\n".join([persona(chance), *sections(chance, chance.randint(4, 6))])

    def element(at: int) -> str:
        return f"<{name}>\n{paragraph(drawn(start, at, 10**9), 2)}\n</{name}>"

    def body(number: int, *, ideal: bool = False) -> Record:
        parts = [element(number), rules]
        return {"messages": [{"role": "user", "content": "\n\n".join(parts[::-1] if ideal else parts)}]}

    found = frozenset(line for at in range(REQUESTS) for line in element(at).split("\n")[1:-1])
    return Case(
        "hidden", "context first", seed, REQUESTS, body, (lambda at: body(at, ideal=True),),
        (Cause(("KV201",), found),), "move", lambda at: [(element(at),)],
    )  # fmt: skip


MAKERS: tuple[Callable[[random.Random, int], Case], ...] = (
    elided,
    tools_added,
    role,
    tool_line,
    together,
    one_line,
    scratch,
    context_first,
)
