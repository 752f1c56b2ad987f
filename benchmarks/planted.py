"""Workloads whose causes of lost hits are known, because they were planted: the truth that `advisor.py` holds kvtool to.

A scenario is a chat log. Its system prompt is made of constant passages and of planted parts: slots (a line with a value that
varies), forms (tools or keys or documents in another order, white space) and traps (what looks volatile and is not, or must not be
touched). The user's question is another one in each request and stands last.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

Scope = Literal["request", "session"]
TOOLS = -1
"""Stands for the tools among the indices of passages."""
_START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
_SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in ("a", "e", "i", "o", "u", "an", "er", "il")]
_OPENINGS = ("Always", "Never", "When asked,", "Remember to", "If unsure,", "Politely", "As a rule,", "In every case,")


def word(chance: random.Random) -> str:
    """A made-up word."""
    return "".join(chance.choices(_SYLLABLES, k=chance.choice((2, 2, 3))))


def passage(chance: random.Random, characters: int) -> str:
    """Lines of made-up sentences, about as long as asked."""
    lines: list[str] = []
    while sum(len(line) + 1 for line in lines) < characters:
        body = " ".join(word(chance) for _ in range(chance.randint(6, 14)))
        lines.append(f"{chance.choice(_OPENINGS)} {body}.")
    return "\n".join(lines)


Value = Callable[[random.Random, int, int, int], str]
"""Of a source of chance, the number of distinct values, the number of the request (or session), and the seed: the value."""


@dataclass(frozen=True)
class SlotKind:
    """What can be planted as a varying value: the code it must be given, lines that it may stand in, and how it is made."""

    name: str
    code: str
    lines: tuple[str, ...]
    value: Value


def _time(form: str, **step: float) -> Value:
    def value(chance: random.Random, cardinality: int, number: int, seed: int) -> str:
        del chance, cardinality
        return (_START + timedelta(days=seed % 300) + number * timedelta(**step)).strftime(form)

    return value


def _uuid(chance: random.Random, cardinality: int, number: int, seed: int) -> str:
    del cardinality, number, seed
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def _hex(chance: random.Random, cardinality: int, number: int, seed: int) -> str:
    del cardinality, number, seed
    return f"{chance.getrandbits(128):032x}"


def _request_id(chance: random.Random, cardinality: int, number: int, seed: int) -> str:
    del cardinality, number, seed
    return f"req_{chance.getrandbits(64):016x}"


def _counter(chance: random.Random, cardinality: int, number: int, seed: int) -> str:
    del chance, cardinality
    return str(100 + seed % 800 + number)


def _of(make: Callable[[random.Random], str]) -> Value:
    """One of `cardinality` values, which do not depend on the request's own chance."""

    def value(chance: random.Random, cardinality: int, number: int, seed: int) -> str:
        del number
        return make(random.Random(f"{seed}/{chance.randrange(max(cardinality, 2))}"))

    return value


def _choice(*values: str) -> Value:
    def value(chance: random.Random, cardinality: int, number: int, seed: int) -> str:
        del number, seed
        return values[chance.randrange(min(max(cardinality, 2), len(values)))]

    return value


def _longer(chance: random.Random, cardinality: int, number: int, seed: int) -> str:
    """Values that differ in nothing but their length."""
    del number, seed
    return "#" * (5 + 3 * chance.randrange(max(cardinality, 2)))


def _note(chance: random.Random, cardinality: int, number: int, seed: int) -> str:
    del cardinality, number, seed
    return " ".join(word(chance) for _ in range(chance.randint(12, 40)))


SLOTS: tuple[SlotKind, ...] = (
    SlotKind("length", "KV201", ("Progress {}.", "So far: {}"), _longer),
    SlotKind("note", "KV201", ("Summary: {}", "What is known: {}."), _note),
    SlotKind(
        "timestamp",
        "KV101",
        ("Current time: {}", "It is now {}, so act on it."),
        _time("%Y-%m-%dT%H:%M:%SZ", seconds=61),
    ),
    SlotKind("date", "KV101", ("Today is {}.", "Date: {}"), _time("%B %d, %Y", days=1)),
    SlotKind("clock", "KV101", ("Local time {}", "The clock says {}."), _time("%H:%M:%S", seconds=13)),
    SlotKind("uuid", "KV102", ("Conversation: {}", "This request is {}."), _uuid),
    SlotKind("hex", "KV102", ("Trace {}", "Nonce: {}"), _hex),
    SlotKind("request_id", "KV102", ("Id: {}", "Log everything under {}, please."), _request_id),
    SlotKind("counter", "KV105", ("Step {}", "This is call number {}."), _counter),
    SlotKind(
        "user",
        "KV104",
        ("User: user_{}", "You talk to user_{} now."),
        _of(lambda chance: str(chance.randrange(10**5, 10**6))),
    ),
    SlotKind(
        "email",
        "KV104",
        ("Account: {}", "Signed in as {}."),
        _of(lambda chance: f"{word(chance)}@{word(chance)}.com"),
    ),
    SlotKind(
        "locale",
        "KV104",
        ("Locale: {}", "Answer for the locale {}."),
        _choice("en-US", "de-DE", "fr-FR", "pt-BR", "ja-JP", "it-IT"),
    ),
    SlotKind(
        "directory",
        "KV106",
        ("Working directory: {}", "You are in {} now."),
        _of(lambda chance: f"/home/{word(chance)}/{word(chance)}/{word(chance)}"),
    ),
    SlotKind(
        "commit",
        "KV106",
        ("HEAD commit: {}", "The repository is at commit {}."),
        _of(lambda chance: f"{chance.getrandbits(160):040x}"),
    ),
)


@dataclass(frozen=True)
class FormKind:
    """What can be planted as another form of the same content, and the code it must be given."""

    name: str
    code: str


FORMS: tuple[FormKind, ...] = (
    FormKind("tool_order", "KV111"),
    FormKind("key_order", "KV112"),
    FormKind("documents", "KV113"),
    FormKind("examples", "KV114"),
    FormKind("white_space", "KV121"),
    FormKind("optional", "KV107"),
)


@dataclass(frozen=True)
class PlantedSlot:
    """A slot of a scenario: `before` and `after` are the constant words of its line."""

    kind: SlotKind
    before: str
    after: str
    scope: Scope
    cardinality: int
    seed: int

    def value(self, number: int, session: int) -> str:
        index = number if self.scope == "request" else session
        return self.kind.value(random.Random(f"{self.seed}/{index}"), self.cardinality, index, self.seed)

    def line(self, number: int, session: int) -> str:
        return f"{self.before}{self.value(number, session)}{self.after}"


Passage = str | PlantedSlot | tuple[FormKind, tuple[str, ...]]


@dataclass(frozen=True)
class Scenario:
    """A log with its truth. `traps` names what must not be flagged; `passages` are the parts of the system prompt, in order."""

    name: str
    seed: int
    passages: tuple[Passage, ...]
    requests: int
    sessions: int
    block_size: int
    capacity_share: float | None
    traps: tuple[str, ...] = ()
    tools: bool = False
    form: FormKind | None = None
    chat: bool = False
    """Whether the requests of a session are turns of one conversation, each with all before it."""

    @property
    def slots(self) -> tuple[PlantedSlot, ...]:
        return tuple(part for part in self.passages if isinstance(part, PlantedSlot))

    @property
    def planted(self) -> tuple[int, ...]:
        """What was planted, by the index of its passage; `TOOLS` for a form of the tools."""
        found = [index for index, part in enumerate(self.passages) if not isinstance(part, str)]
        return (*found, *((TOOLS,) if self.tools else ()))

    def code_of(self, planted: int) -> str:
        """The code that must be found for it."""
        part = self.passages[planted] if planted != TOOLS else None
        if isinstance(part, PlantedSlot):
            return part.kind.code
        assert self.form is not None
        return self.form.code

    def session_of(self, number: int) -> int:
        return number % self.sessions

    def parts(self, number: int, steady: Collection[int] = ()) -> list[str]:
        """The passages of request `number`, as text; those that are `steady` are as in the first request."""
        shown: list[str] = []
        for index, part in enumerate(self.passages):
            as_of = 0 if index in steady else number
            if isinstance(part, str):
                shown.append(part)
            elif isinstance(part, PlantedSlot):
                shown.append(part.line(as_of, self.session_of(as_of)))
            else:
                shown.append(_formed(part[0], part[1], random.Random(f"{self.seed}/form/{as_of}"), as_of))
        return [text for text in shown if text]

    def record(self, number: int, steady: Collection[int] = ()) -> dict[str, Any]:
        """The chat body of request `number`, with what is `steady` as in the first one."""
        session = self.session_of(number)
        messages = [{"role": "system", "content": "\n".join(self.parts(number, steady))}]
        for earlier in range(session, number, self.sessions) if self.chat else ():
            messages.append({"role": "user", "content": self._question(earlier)})
            answer = passage(random.Random(f"{self.seed}/answer/{earlier}"), 240)
            messages.append({"role": "assistant", "content": answer})
        messages.append({"role": "user", "content": self._question(number)})
        body: dict[str, Any] = {"session_id": f"s{session}", "messages": messages}
        if self.tools:
            as_of = 0 if TOOLS in steady else number
            body["tools"] = _tools(self.seed)
            if self.form is not None and self.form.name == "tool_order":
                random.Random(f"{self.seed}/tools/{as_of}").shuffle(body["tools"])
            if self.form is not None and self.form.name == "key_order":
                body["tools"] = [_shuffled(tool, random.Random(f"{self.seed}/keys/{as_of}")) for tool in body["tools"]]
        return body

    def _question(self, number: int) -> str:
        chance = random.Random(f"{self.seed}/question/{number}")
        return f"{word(chance).capitalize()} {word(chance)} {word(chance)} {number}?"

    def write(self, path: Path, *, first: int = 0) -> None:
        """The log, from request `first` on: another `first` is held-out traffic of the same templates."""
        rows = (json.dumps(self.record(first + number)) for number in range(self.requests))
        path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")


def _formed(form: FormKind, items: tuple[str, ...], chance: random.Random, number: int) -> str:
    if form.name == "documents":
        return "\n".join(f"<document>\n{item}\n</document>" for item in chance.sample(items, len(items)))
    if form.name == "examples":
        return "\n\n".join(chance.sample(items, len(items)))
    if form.name == "optional":
        return items[0] if chance.random() < 0.5 else ""
    assert form.name == "white_space"
    return items[0] if number % 2 else items[0].replace(".\n", ".  \n")


def _shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: _shuffled(value[key], chance) for key in keys}
    return [_shuffled(item, chance) for item in value] if isinstance(value, list) else value


def _tools(seed: int) -> list[dict[str, Any]]:
    chance = random.Random(f"{seed}/tools")
    tools = []
    for _ in range(8):
        properties = {word(chance): {"type": "string", "description": passage(chance, 60)} for _ in range(2)}
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        function = {
            "name": f"{word(chance)}_{word(chance)}",
            "description": passage(chance, 90),
            "parameters": parameters,
        }
        tools.append({"type": "function", "function": function})
    return tools


def _slot(chance: random.Random, kind: SlotKind, sessions: int) -> PlantedSlot:
    before, after = chance.choice(kind.lines).split("{}")
    scope: Scope = "session" if sessions < 10**6 and chance.random() < 0.35 else "request"
    return PlantedSlot(kind, before, after, scope, chance.choice((2, 3, 5, 12)), chance.randrange(10**9))


def _trap(chance: random.Random, name: str) -> str:
    """Text that looks volatile and is the same in every request."""
    if name == "constant_date":
        return f"The terms of {(_START + timedelta(days=chance.randrange(300))).strftime('%B %d, %Y')} apply."
    if name == "constant_uuid":
        return "\n".join(f"Example: order {_uuid(chance, 0, 0, 0)} was {word(chance)}." for _ in range(3))
    assert name == "stated_above"
    return "Keep to what is stated above, and to the list that follows."


TRAPS = ("constant_date", "constant_uuid", "stated_above")


def scenario(seed: int) -> Scenario:
    """The scenario of a seed: one cause, two, a form, or only traps; everything else is drawn, too."""
    chance = random.Random(f"scenario/{seed}")
    sessions = chance.choice((4, 8, 10**9))
    requests = chance.choice((24, 40))
    sort = chance.choices(
        ("one", "pair", "correlated", "chat", "form", "form_and_slot", "trap"), (4, 3, 1, 2, 3, 1, 2)
    )[0]
    if sort == "chat":
        sessions = chance.choice((3, 6))
    passages: list[Passage] = [
        passage(chance, chance.choice((120, 300, 700, 1500))) for _ in range(chance.randint(3, 5))
    ]
    traps = tuple(chance.sample(TRAPS, chance.randint(1, 3))) if sort == "trap" or chance.random() < 0.3 else ()
    for name in traps:
        passages.insert(chance.randint(0, len(passages)), _trap(chance, name))
    form = chance.choice(FORMS) if sort in ("form", "form_and_slot") else None
    tools = form is not None and form.name in ("tool_order", "key_order")
    if form is not None and not tools:
        items = _items(chance, form)
        passages.insert(chance.randint(0, len(passages) - 1), (form, items))
    count = {"one": 1, "pair": 2, "correlated": 2, "chat": 1, "form_and_slot": 1}.get(sort, 0)
    slots = [_slot(chance, kind, sessions) for kind in chance.sample(SLOTS, count)]
    if sort == "correlated":  # both depend on the same thing, so they always change together
        slots[1] = replace(slots[1], scope=slots[0].scope, cardinality=slots[0].cardinality, seed=slots[0].seed)
    for slot in slots:
        passages.insert(chance.randint(0, len(passages) - 1), slot)
    return Scenario(
        f"{sort}-{seed}",
        seed,
        tuple(passages),
        requests,
        sessions,
        chance.choice((16, 16, 32, 64)),
        chance.choice((None, None, None, 0.5)),
        traps,
        tools,
        form,
        sort == "chat",
    )


def _items(chance: random.Random, form: FormKind) -> tuple[str, ...]:
    if form.name == "examples":
        return tuple(f"Q: {passage(chance, 40)}\nA: {passage(chance, 60)}" for _ in range(6))
    count = 6 if form.name == "documents" else 1
    return tuple(passage(chance, chance.choice((200, 400))) for _ in range(count))
