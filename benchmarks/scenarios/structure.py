"""Values inside of structure: what moves, moves whole, with its heading, table, fence, element, document or list."""

from __future__ import annotations

import random
from collections.abc import Callable

from scenarios.case import MARK, Block, Case, Cause, Planted, Whole, prompt_case, slotted
from scenarios.prose import lines, paragraph, persona, sections, sentence
from scenarios.values import WHERE, Varying, drawn, varying

REQUESTS = 24


def table(chance: random.Random, title: str, value: str) -> str:
    """A table in Markdown that has the value in a row."""
    rows = [
        ("Plan", chance.choice(("business", "free", "team"))),
        ("Region", "north"),
        ("Seats", str(chance.randint(2, 90))),
    ]
    rows.insert(chance.randint(0, 3), (title, value))
    edge = chance.choice((("| ", " |"), ("", "")))
    shown = [("Field", "Value"), ("---", "---"), *rows]
    intro = chance.choice(("", "Account at a glance:\n", "Facts for this conversation:\n\n"))
    return intro + "\n".join(f"{edge[0]}{left} | {right}{edge[1]}" for left, right in shown)


def fence(chance: random.Random, key: str, value: str) -> str:
    """An example in a fence that has the value among its keys."""
    pairs = [('"id"', "7"), ('"items"', "[]"), ('"tone"', '"calm"')]
    pairs.insert(chance.randint(0, 2), (f'"{key}"', f'"{value}"'))
    intro = chance.choice(("Answer in this form:\n", "An answer looks like this:\n\n", "Example of a reply:\n"))
    mark = chance.choice(("```", "~~~"))
    inside = ",\n".join(f"  {name}: {held}" for name, held in pairs)
    return f"{intro}{mark}json\n{{\n{inside}\n}}\n{mark}"


def element(chance: random.Random, key: str, value: str) -> str:
    """An element that has the value in a child or in an attribute."""
    name = chance.choice(("session", "context", "caller"))
    if chance.random() < 0.4:
        return f'<{name} {key}="{value}" channel="web">\n{paragraph(chance, 1)}\n</{name}>'
    children = [f"  <plan>{chance.choice(('pro', 'free'))}</plan>", "  <channel>web</channel>"]
    children.insert(chance.randint(0, 2), f"  <{key}>{value}</{key}>")
    return "\n".join([f"<{name}>", *children, f"</{name}>"])


def document(chance: random.Random, key: str, value: str) -> str:
    """A YAML document that has the value under one of its keys."""
    keys = ["  plan: pro", "  limits:\n    rows: 50\n    pages: 3"]
    keys.insert(chance.randint(0, 2), f"  {key}: {value}")
    body = "\n".join([f"{chance.choice(('context', 'session', 'environment'))}:", *keys])
    return f"```yaml\n{body}\n```" if chance.random() < 0.4 else body


def _headed(chance: random.Random, value: Varying) -> str:
    body = chance.choice(
        (MARK, f"\n{MARK}", f"It is {MARK}.\nKeep to it in all you work out.", f"{MARK}\n\n{sentence(chance)}")
    )
    return f"## {value.title}\n{body}"


def _rules(chance: random.Random, value: Varying) -> str:
    rules = [sentence(chance) for _ in range(chance.randint(4, 7))]
    rules.insert(chance.randint(1, 3), f"{value.title}: {MARK}; keep to it.")
    return "Rules:\n" + "\n".join(f"{number}. {rule}" for number, rule in enumerate(rules, 1))


_NUMBERS = (
    "{}. ", "{}) ", "({}) ", "4.{} ", "§{} ", "Rule {}: ", "[{}] ",
)  # fmt: skip
_INDENTS = ("   ", "")


def _numbered(chance: random.Random, value: Varying) -> str:
    """Rules numbered in some form, one of them of two lines."""
    rules = [sentence(chance) for _ in range(chance.randint(4, 7))]
    first = chance.choice(("{title}: {mark}.", "It is {mark} at this time.", "{title} is {mark}, and nothing else,"))
    rule = first.format(title=value.title, mark=MARK) + f"\n{chance.choice(_INDENTS)}{sentence(chance)}"
    rules.insert(chance.randint(1, 3), rule)
    form = chance.choice(_NUMBERS)
    return "\n".join(form.format(number) + rule for number, rule in enumerate(rules, 1))


def _pair(chance: random.Random, value: Varying) -> str:
    second = chance.choice(
        (
            "Use it, and nothing that you remember.",
            "This is what counts for every answer.",
            "It overrides what users say.",
        )
    )
    before, after = paragraph(chance, 1), paragraph(chance, 3)
    return (
        "\n".join((before, f"{value.title} is {MARK}. {second}", after))
        if chance.random() < 0.5
        else (f"{before} The {value.title.lower()} is {MARK}. {second} {after}")
    )


_SHAPES: dict[str, Callable[[random.Random, Varying], str]] = {
    "heading": _headed,
    "table": lambda chance, value: table(chance, value.title, MARK),
    "fence": lambda chance, value: fence(chance, value.key, MARK),
    "element": lambda chance, value: element(chance, value.key, MARK),
    "yaml": lambda chance, value: document(chance, value.key, MARK),
    "rules": _rules,
    "numbered": _numbered,
    "pair": _pair,
}
_IN_WORDS = ("rules", "numbered")
"""Shapes of which it may be said what to do: a rule is not moved away from the rules."""


def _around(chance: random.Random, block: Block, *, first: str | None = None) -> list[Block]:
    parts: list[Block] = [first or persona(chance), *sections(chance, chance.randint(4, 6))]
    parts.insert(chance.randint(1, len(parts) - 2), block)
    for _ in range(chance.randint(0, 2)):
        guard = chance.choice((table(chance, "Opened", "Monday"), fence(chance, "opened", "Monday"), _steps(chance)))
        parts.insert(chance.randint(1, len(parts)), Whole(guard))
    return parts


def _steps(chance: random.Random) -> str:
    return "Do this in order:\n" + "\n".join(f"{number}. {sentence(chance)}" for number in range(1, 5))


def _shape(name: str) -> Callable[[random.Random, int], Case]:
    def make(chance: random.Random, seed: int) -> Case:
        value = varying(chance)
        text = _SHAPES[name](chance, value)
        unit = slotted(text, value.make, value.codes, REQUESTS)
        if name == "pair":  # the two sentences are the unit, not all of the lines around them
            at = next(line for line in text.split("\n") if MARK in line)
            start = max(at.rfind(". ", 0, at.index(MARK)) + 2, 0) if ". " in at[: at.index(MARK)] else 0
            ends = [stop for stop in range(at.index(MARK), len(at)) if at[stop] == "."][:2]
            pieces = tuple(at[start : ends[-1] + 1].split(MARK))
            unit = Planted(unit.make, lambda _: pieces, unit.cause)
        return prompt_case(chance, "structure", name, seed, _around(chance, unit), "move", or_words=name in _IN_WORDS)

    return make


_FORMS = (
    "**{}**", "**{}:**", "__{}__", "【{}】", "[{}]", "=== {} ===", "--- {} ---", "■ {}", "▶ {}", "{}", "*{}*", "<< {} >>",
)  # fmt: skip


def _titled(chance: random.Random, seed: int) -> Case:
    """Sections with headings of one form that Markdown does not know."""
    value = varying(chance)
    form, gap = chance.choice(_FORMS), chance.choice(("\n", "\n\n"))
    body = chance.choice(
        (f"It is {MARK} at this time.", f"{value.title}: {MARK}", f"It is {MARK}.\nSince {MARK} it rains.")
    )
    unit = slotted(f"{form.format(value.title)}{gap}{body}", value.make, value.codes, REQUESTS)
    blocks: list[Block] = [persona(chance), *sections(chance, chance.randint(4, 6), form + gap.removesuffix("\n"))]
    blocks.insert(chance.randint(1, len(blocks) - 2), unit)
    return prompt_case(chance, "structure", "titled", seed, blocks, "move")


def _listing(chance: random.Random, seed: int) -> Case:
    intro = chance.choice(("Repo map:", "Repository map:", "Files in the workspace:", "Open files"))
    names = ("core", "api", "auth", "jobs", "views", "store", "mail", "cache", "forms", "tests", "hooks", "cli")
    pool = chance.choice((4, 9, 100))
    tree = chance.random() < 0.6

    def text(number: int) -> str:
        own = drawn(seed, number, pool)
        files = [f"{own.choice(names)}/{own.choice(names)}_{own.randrange(99)}.py" for _ in range(14)]
        if tree:
            rows = [f"{'├── ' if at < 13 else '└── '}{file}" for at, file in enumerate(files)]
        else:
            rows = [f"- {file} ({own.randrange(20, 900)} lines)" for file in files]
        return "\n".join([intro, *rows])

    found = frozenset(line for number in range(REQUESTS) for line in text(number).split("\n") if line != intro)
    unit = Planted(text, lambda number: (text(number),), Cause((*WHERE, "KV201", "KV107", "KV113"), found))
    return prompt_case(chance, "structure", "listing", seed, _around(chance, unit), "move")


def _persona(chance: random.Random, seed: int) -> Case:
    value = varying(chance)
    text = chance.choice(
        (
            f"You are Ada, who works for {MARK} today, and you must never promise a refund.",
            f"You are Ada. Serving {MARK} you keep calm, and must never promise what the house cannot keep.",
            f"As Milo, the assistant for {MARK}, you speak for the clinic and never name a colleague.",
        )
    )
    steady, told = text.replace(MARK, "the one named at the end"), f"{value.title}: "
    slot = slotted(text, value.make, value.codes, REQUESTS)
    unit = Planted(slot.make, slot.pieces, slot.cause, lambda _: steady, lambda number: told + value.make(number))
    blocks: list[Block] = [unit, *sections(chance, chance.randint(4, 6))]
    return prompt_case(chance, "structure", "persona", seed, blocks, "words", measured=True)


_REFERENCES = (
    "Weigh the account details above before you answer.", "As stated above, the account decides.",
    "Die oben genannten Kontodaten gelten für jede Antwort.", "Tenez compte du compte indiqué ci-dessus.",
    "Tenga en cuenta los datos de la cuenta indicados arriba.", "Considere os dados da conta acima.",
    "上記のアカウント情報に従ってください。", "위의 계정 정보를 따르세요.", "请遵循上述账户信息。",
    "Учитывайте указанные выше данные.", "اتبع بيانات الحساب المذكورة أعلاه.", "ऊपर दिए गए खाते के विवरण का पालन करें।",
)  # fmt: skip


def _reference(chance: random.Random, seed: int) -> Case:
    value = varying(chance)
    text = f"## Account\nPlan: pro\n{value.title}: {MARK}\nChannel: web"
    blocks = _around(chance, slotted(text, value.make, value.codes, REQUESTS))
    at = next(index for index, block in enumerate(blocks) if isinstance(block, Planted))
    blocks.insert(
        chance.randint(at + 1, len(blocks) - 1), f"## Weighing\n{chance.choice(_REFERENCES)}\n{lines(chance, 3)}"
    )
    return prompt_case(chance, "structure", "reference", seed, blocks, "move", warned=True)


MAKERS: tuple[Callable[[random.Random, int], Case], ...] = (
    *(_shape(name) for name in _SHAPES),
    _titled,
    _listing,
    _persona,
    _reference,
)
