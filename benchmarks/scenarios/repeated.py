"""One value that stands in many rules: it is named once at the end; the rules stay where they are."""

from __future__ import annotations

import random
from collections.abc import Callable

from scenarios.case import Block, Case, Cause, Planted, prompt_case
from scenarios.prose import persona, sections, sentence
from scenarios.values import CLOCK, WHO, drawn, moment

REQUESTS = 24
_RULES = (
    "Address {} by name in the first line.", "Never share what {} wrote with anybody else.", "If {} is upset, slow down.",
    "Offer {} a call before you close the case.", "Ask {} for the order number once.", "Do not promise {} a date.",
    "Remind {} of the return window.", "Quote prices to {} with tax.", "Thank {} at the end.", "Tell {} what comes next.",
)  # fmt: skip
_DATED = (
    "Count every deadline from {}.", "Anything before {} is in the past.", "Ages are as of {}.", "Quote rates of {}.",
    "Treat events after {} as unknown.", "Sign letters with {}.", "Offers that end before {} are void.",
)  # fmt: skip
_PEOPLE = ("Marta Olsen", "Jon Abara", "Liv Tran", "Omar Saidi", "Ruth Feld", "Ana Prado", "Ken Ito", "Eva Roth")
_HOUSES = ("Acme GmbH", "Northwind", "Globex", "Initech", "Umbra Labs", "Vandelay", "Stark Farms", "Hooli West")


def _rules(chance: random.Random, seed: int) -> Case:
    start = chance.randrange(10**6)
    sort = chance.choice(("person", "tenant", "date"))
    held, codes = (_DATED, CLOCK) if sort == "date" else (_RULES, WHO)
    pool = _PEOPLE if sort == "person" else _HOUSES
    rules = chance.sample(held, chance.randint(5, len(held)))
    rules += [sentence(chance) for _ in range(chance.randint(10, 24))]
    chance.shuffle(rules)
    number = chance.choice(("{0}. {1}", "- {1}", "{1}"))
    shown = [number.format(at, rule) for at, rule in enumerate(rules, 1)]
    noun = {"person": "the customer", "tenant": "the company", "date": "today"}[sort]

    def value(at: int) -> str:
        return f"{moment(start, at * 9):%d %B %Y}" if sort == "date" else drawn(start, at, 10**6).choice(pool)

    def text(held: str) -> str:
        return "\n".join(["Rules:", *(line.replace("{}", held) for line in shown)])

    found = frozenset(line.replace("{}", value(at)) for line in shown if "{}" in line for at in range(REQUESTS))
    unit = Planted(
        lambda at: text(value(at)),
        lambda _: tuple(text("\0").split("\0")),
        Cause((*codes, "KV201"), found),
        lambda _: text(noun),
        lambda at: f"{noun.capitalize()}: {value(at)}",
    )
    blocks: list[Block] = [persona(chance), *sections(chance, chance.randint(2, 4), chance.choice(("", "## {}")))]
    blocks.insert(chance.randint(1, len(blocks) - 1), unit)
    return prompt_case(chance, "repeated", f"{sort} in rules", seed, blocks, "words", measured=True)


MAKERS: tuple[Callable[[random.Random, int], Case], ...] = (_rules,)
