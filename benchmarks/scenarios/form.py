"""The same words in two forms: line ends, Unicode forms, look-alike letters and what nobody sees."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable

from scenarios.case import Block, Case, Cause, Planted, Whole, prompt_case
from scenarios.prose import lines, persona, sections
from scenarios.structure import element, table

REQUESTS = 10
CODES = ("KV121",)
_LOOKS = str.maketrans("aeopcxyAEOPCTBHKM", "аеорсхуАЕОРСТВНКМ")
_ACCENTED = (
    "Être bref, précis et poli; répéter le numéro à la fin.",
    "Größe, Maß und Preis stehen in der Übersicht für Händler.",
    "La señora Núñez decidirá según el régimen y la petición.",
    "Żółty, ręczny i źle opisany towar wróci do działu.",
    "Åsa på kontoret svarar för återköp och följer ärendet.",
)


def _looks(text: str, chance: random.Random) -> str:
    words = [at for at, word in enumerate(text.split(" ")) if any(letter in "aeopcxy" for letter in word)]
    chosen = set(chance.sample(words, max(len(words) // 6, 1)))
    return " ".join(word.translate(_LOOKS) if at in chosen else word for at, word in enumerate(text.split(" ")))


def _between(mark: str) -> Callable[[str, random.Random], str]:
    """A mark behind some of the spaces, or before some of the words."""

    def put(text: str, chance: random.Random) -> str:
        return re.sub(r"(?<=[a-z,]) (?=[a-z])", lambda found: found[0] + mark * (chance.random() < 0.15), text) + mark

    return put


_OTHER: dict[str, Callable[[str, random.Random], str]] = {
    "line ends": lambda text, _: text.replace("\n", "\r\n"),
    "some line ends": lambda text, chance: re.sub("\n", lambda _: "\r\n" if chance.random() < 0.4 else "\n", text),
    "unicode": lambda text, _: unicodedata.normalize("NFD", text),
    "look-alikes": _looks,
    "zero width space": _between("\u200b"),
    "word joiner": _between("\u2060"),
    "byte order mark": lambda text, _: "\ufeff" + text,
    "soft hyphen": lambda text, _: re.sub(r"(?<=[a-z]{4})(?=[a-z]{4})", "\u00ad", text, count=9),
    "no-break space": lambda text, _: re.sub(r" (?=[a-z]{2}\b)", "\u00a0", text),
    "direction mark": _between("\u200e"),
    "trailing spaces": lambda text, _: text.replace(".\n", ".  \n"),
    "double spaces": lambda text, _: text.replace(". ", ".  ").replace(".\n", ".\n"),
    "tabs": lambda text, _: re.sub(r"^", "\t", text, flags=re.MULTILINE),
}


def _form(name: str) -> Callable[[random.Random, int], Case]:
    def make(chance: random.Random, seed: int) -> Case:
        whole = "\n".join((*chance.sample(_ACCENTED, 2), lines(chance, chance.randint(4, 9))))
        if name == "double spaces":
            whole = whole.replace(".\n", ". ")
        pattern = chance.choice(("alternate", "random", "places", "session"))
        variants = [_OTHER[name](whole, random.Random(f"{seed}/{at}")) for at in range(4 if pattern == "places" else 1)]
        if name == "tabs":
            whole = re.sub(r"^", "    ", whole, flags=re.MULTILINE)

        def text(number: int) -> str:
            own = random.Random(f"{seed}/{number}")
            by = {"alternate": number, "session": number // 4}.get(pattern)
            odd = own.random() < 0.6 if by is None else by % 2 == 1
            return own.choice(variants) if odd else whole

        found = frozenset(line.strip() for line in "\n".join((whole, *variants)).split("\n"))
        unit = Planted(text, lambda _: (), Cause(CODES, found), lambda _: whole)
        blocks: list[Block] = [persona(chance), *sections(chance, chance.randint(4, 6))]
        blocks.insert(chance.randint(0, 1), unit)
        guard = chance.choice((table(chance, "Opened", "Monday"), element(chance, "opened", "Monday")))
        blocks.insert(chance.randint(2, len(blocks)), Whole(guard))
        return prompt_case(chance, "form", name, seed, blocks, "normalize", requests=REQUESTS, chat=False)

    return make


MAKERS: tuple[Callable[[random.Random, int], Case], ...] = tuple(_form(name) for name in _OTHER)
