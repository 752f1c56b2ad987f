"""Nothing to mend: what looks volatile and is constant, and what varies only where nothing is shared behind it."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable
from typing import Any

from scenarios.case import MARK, Block, Case, Record, Whole, prompt_case
from scenarios.clocks import FORMS
from scenarios.hidden import _tools
from scenarios.prose import lines, persona, question, reply, sections, sentence
from scenarios.structure import document, element, fence, table
from scenarios.values import moment, varying

REQUESTS = 24


def _case(chance: random.Random, name: str, seed: int, blocks: list[Block]) -> Case:
    return prompt_case(chance, "traps", name, seed, blocks, "none")


def structured(chance: random.Random, seed: int) -> Case:
    """A constant value in a table, a fence, an element or a document."""
    value = varying(chance)
    held = value.make(seed % 97)
    shape = chance.choice((table, fence, element, document))
    title = value.title if shape is table else value.key
    blocks: list[Block] = [persona(chance), *sections(chance, 4)]
    blocks.insert(1, Whole(shape(chance, title, held)))
    return _case(chance, f"constant {shape.__name__}", seed, blocks)


def foreign_clock(chance: random.Random, seed: int) -> Case:
    """A date in some language that never changes, such as that of the terms that apply."""
    name = chance.choice(tuple(FORMS))
    line, form = FORMS[name]
    blocks: list[Block] = [persona(chance), Whole(line.format(form(moment(seed, 3)))), *sections(chance, 4)]
    return _case(chance, "constant clock", seed, blocks)


def named(chance: random.Random, seed: int) -> Case:
    """A name in many rules that never changes, random ids in examples, a delimiter that stays."""
    rules = "\n".join(f"{at}. Greet Acme GmbH {sentence(chance)}" for at in range(1, 9))
    ids = "\n".join(f"Example: order {chance.getrandbits(64):016x} was returned." for _ in range(3))
    held = f"Text between <data-{chance.getrandbits(32):08x}> marks is data."
    blocks: list[Block] = [persona(chance), rules, ids, held, *sections(chance, 3)]
    return _case(chance, "constant names", seed, blocks)


def odd_form(chance: random.Random, seed: int) -> Case:
    """One odd form everywhere: CRLF, NFD, no-break spaces or marks that nobody sees, in each request alike."""
    text = f"Être bref et précis, répéter le numéro.\n{lines(chance, 6)}"
    name, odd = chance.choice(
        (
            ("crlf", text.replace("\n", "\r\n")),
            ("nfd", unicodedata.normalize("NFD", text)),
            ("no-break", text.replace(" the ", "\u00a0the ")),
            ("byte order mark", "\ufeff" + text),
            ("look-alike", text.replace("a", "а")),
        )
    )
    return _case(chance, f"constant {name}", seed, [odd, persona(chance), *sections(chance, 4)])


def tail(chance: random.Random, seed: int) -> Case:
    """The value stands in the user's last message: too little that is shared is behind it to be worth a word."""
    value = varying(chance)
    text = chance.choice(("<{0}>{1}</{0}>", '```json\n{{"{0}": "{1}"}}\n```', "| {0} | {1} |", "{0}: {1}")).format(
        value.key, MARK
    )
    system = "\n\n".join([persona(chance), *sections(chance, 7)])

    def body(number: int) -> Record:
        held = text.replace(MARK, value.make(number))
        said = f"{question(seed, number)}\n\n{held}"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": said}]
        return {"session_id": f"s{number}", "messages": messages}

    return _none("tail", seed, REQUESTS, body)


def last_line(chance: random.Random, seed: int) -> Case:
    """The value is the last line of the system prompt: only the question stands behind it."""
    value = varying(chance)
    blocks: list[Block] = [persona(chance), *sections(chance, 4)]
    system = "\n\n".join(str(block) for block in blocks)

    def body(number: int) -> Record:
        text = f"{system}\n\n{value.title}: {value.make(number)}"
        messages = [{"role": "system", "content": text}, {"role": "user", "content": question(seed, number)}]
        return {"session_id": f"s{number}", "messages": messages}

    return _none("last line", seed, REQUESTS, body)


def agent(chance: random.Random, seed: int) -> Case:
    """A session that only grows, with constant tools; its outputs hold clocks and ids of their own."""
    system, tools = "\n\n".join([persona(chance), *sections(chance, 3)]), _tools(chance, 5)

    def body(number: int) -> Record:
        session, turn = divmod(number, 8)
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
        for step in range(turn):
            at = session * 8 + step
            messages.append({"role": "user", "content": question(seed, at)})
            messages.append({"role": "assistant", "content": f"{moment(seed, at).isoformat()} {reply(seed, at)}"})
        messages.append({"role": "user", "content": question(seed, number)})
        return {"session_id": f"s{session}", "messages": messages, "tools": tools}

    return _none("growing agent", seed, REQUESTS, body)


def apart(chance: random.Random, seed: int) -> Case:
    """Two prompts of two tasks that share nothing: each is steady."""
    first, second = ("\n\n".join([persona(chance), *sections(chance, 4)]) for _ in range(2))
    second = f"Task: label tickets.\n\n{second}"

    def body(number: int) -> Record:
        system = second if number % 2 else first
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question(seed, number)}]
        return {"session_id": f"s{number}", "messages": messages}

    return _none("two prompts", seed, REQUESTS, body)


def _none(name: str, seed: int, requests: int, body: Callable[[int], Record]) -> Case:
    return Case("traps", name, seed, requests, body, (), (), "none", lambda _: [])


MAKERS: tuple[Callable[[random.Random, int], Case], ...] = (
    structured,
    foreign_clock,
    named,
    odd_form,
    tail,
    last_line,
    agent,
    apart,
)
