"""Invented prose: sections of rules, questions and answers of several trades."""

from __future__ import annotations

import random

_WHO = (
    "the guest",
    "a tenant",
    "the driver",
    "the clerk",
    "a patient",
    "the buyer",
    "the tutor",
    "an auditor",
    "the pilot",
)
_WHAT = (
    "the invoice", "a booking", "the second opinion", "an open claim", "the delivery note", "a spare part", "the lease",
    "the blood test", "a refund", "the timetable", "a test plan", "the warranty", "the harvest report", "a visa form",
)  # fmt: skip
_DO = (
    "explain", "confirm", "compare", "summarize", "translate", "check", "return", "mark", "forward", "keep", "question",
)  # fmt: skip
_HOW = (
    "in plain words", "within two sentences", "before anything else", "without naming a colleague", "only once",
    "as the handbook says", "with the amount and the unit", "even where it takes longer", "in the tone of the house",
)  # fmt: skip
_WHEN = (
    "When {who} asks about {what},", "If {what} is missing,", "For {who} who is in a hurry,", "Where {what} is disputed,",
    "Unless {who} says otherwise,", "Once {what} is settled,", "As long as {who} waits,",
)  # fmt: skip
_TITLES = (
    "Tone", "Scope", "Refunds", "Escalation", "Wording", "Privacy", "Sources", "Limits", "Style", "Handover", "Delivery",
    "Complaints", "Follow-up", "Accuracy", "Languages", "Payments", "Appointments", "Records",
)  # fmt: skip
_NAMES = ("Ada", "Milo", "Runa", "Pico", "Vera", "Odo", "Lumi", "Tarek", "Ines", "Bruno")
_HOUSES = (
    "Lume Bank", "the Harbor Clinic", "Otter Freight", "the city library", "Fennel & Co", "the Alder Hotel", "Quarry Games",
)  # fmt: skip


def _of(chance: random.Random, words: tuple[str, ...]) -> str:
    return chance.choice(words)


def sentence(chance: random.Random) -> str:
    """One rule."""
    when = _of(chance, _WHEN).format(who=_of(chance, _WHO), what=_of(chance, _WHAT))
    return f"{when} {_of(chance, _DO)} {_of(chance, _WHAT)} {_of(chance, _HOW)}."


def lines(chance: random.Random, count: int) -> str:
    """Rules, each on a line of its own."""
    return "\n".join(sentence(chance) for _ in range(count))


def paragraph(chance: random.Random, count: int) -> str:
    """Rules on one line."""
    return " ".join(sentence(chance) for _ in range(count))


def persona(chance: random.Random) -> str:
    """Who the model is."""
    return f"You are {_of(chance, _NAMES)}, the assistant of {_of(chance, _HOUSES)}. {sentence(chance)}"


def sections(chance: random.Random, count: int, heading: str = "## {}") -> list[str]:
    """Sections with headings; an empty `heading` leaves them out."""
    titles = chance.sample(_TITLES, count)
    style = chance.choice((lines, paragraph))
    return [
        (heading.format(title) + "\n" if heading else "") + style(chance, chance.randint(4, 11)) for title in titles
    ]


def question(seed: int, number: int) -> str:
    """What the user of a request asks: another thing in each."""
    chance = random.Random(f"{seed}/question/{number}")
    return f"How do I {_of(chance, _DO)} {_of(chance, _WHAT)} for {_of(chance, _WHO)}, case {chance.randrange(10**6)}?"


def reply(seed: int, number: int) -> str:
    """What the model answered."""
    return paragraph(random.Random(f"{seed}/reply/{number}"), 2)
