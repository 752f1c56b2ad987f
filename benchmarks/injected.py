"""Single changes to recorded agent conversations, of twelve kinds: what is put where, and under which names it may be found."""

from __future__ import annotations

import json
import random
import re
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

_BEHIND = 400
"""Characters of the earlier request that stand behind every change: one at the very end costs nothing."""


@dataclass(frozen=True)
class Case:
    """Requests of one conversation, the last of which has the change."""

    earlier: list[Turn]
    changed: Turn


Rng = random.Random
Inject = Callable[[list[Turn], Turn, Rng], Case | None]


@dataclass(frozen=True)
class Injection:
    """A kind of change, the kinds of `kvtool.compare` that name it (keys or codes), and what makes one."""

    name: str
    expected: frozenset[str]
    inject: Inject


# Values: the same line in all requests before, with another value in the changed one.


def _time(rng: Rng) -> list[str]:
    at = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randrange(60_000_000))
    form = rng.choice(
        [
            "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%f+00:00", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d", "%A, %B %d, %Y",
            "%a, %d %b %Y %H:%M:%S GMT", "%d/%m/%Y %H:%M", "%B %d, %Y at %I:%M %p", "%H:%M:%S", "unix", "%Y/%m/%d",
        ]
    )  # fmt: skip
    later = at + timedelta(seconds=rng.choice([1, 7, 61, 3_700, 90_000, 3_000_000]))
    if form == "unix":
        return [f"{at.timestamp():.0f}", f"{later.timestamp():.0f}"]
    if at.strftime(form) == later.strftime(form):
        later = at + timedelta(days=40, seconds=61)
    return [at.strftime(form), later.strftime(form)]


def _uuid(rng: Rng) -> list[str]:
    letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    forms: list[Callable[[], str]] = [
        lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)).upper(),
        lambda: f"{rng.getrandbits(128):032x}",
        lambda: f"{rng.getrandbits(256):064x}",
        lambda: "01" + "".join(rng.choices("0123456789ABCDEFGHJKMNPQRSTVWXYZ", k=24)),
        lambda: "req_" + "".join(rng.choices(letters, k=23)) + "7",
        lambda: f"00-{rng.getrandbits(128):032x}-{rng.getrandbits(64):016x}-01",
    ]
    made = rng.choice(forms)
    return [made(), made()]


def _count(rng: Rng) -> list[str]:
    low = rng.choice([1, 3, 8, 9, 12, 99, 120])
    form = rng.choice(["{}", "{} of 250", "{}/250", "#{}"])
    return [form.format(low), form.format(low + 1)]


def _path(rng: Rng) -> list[str]:
    names = ["atlas", "billing-api", "crawler", "docs_site", "engine", "frontend", "geo", "harbor", "infra.v2", "jobs"]
    forms = ["/home/{}/src/{}", "/srv/{}/{}", "/mnt/{}-{}/work", "~/{}/{}", "C:\\Users\\{}\\{}", "/Users/{}/{}"]
    form = rng.choice(forms)
    first, second, third = rng.sample(names, 3)
    return [form.format(first, second), form.format(*rng.choice([(first, third), (third, second)]))]


def _user(rng: Rng) -> list[str]:
    pools = [
        ["ada.lovelace@example.com", "grace@navy.example.org", "linus+dev@kernel.example", "barbara@example.edu"],
        ["user_18274", "user_99120", "user_4417", "user_73001"],
        ["tenant-0042", "tenant-0917", "tenant-1180"],
        ["en_US", "de_DE", "fr-FR", "pt_BR", "ja-JP"],
        ["Europe/Berlin", "America/New_York", "Asia/Tokyo", "Australia/Sydney"],
        ["English", "German", "French", "Portuguese"],
    ]
    return rng.sample(rng.choice(pools), 2)


_LINES = {
    "timestamp": [
        "Current time: {}", "Today is {}.", "<now>{}</now>", "What follows is valid as of {} until changed.", "[{}]", "- now: {}",
    ],
    "uuid": ["Request id: {}", "[trace {}]", "<session>{}</session>", "nonce={}", "X-Request-Id: {}", 'context: {{"id": "{}"}}'],
    "counter": ["Step {}", "Turn: {}", "<iteration>{}</iteration>", "This is attempt {}, keep it short.", "[{}]", "retries: {}"],
    "path": ["Working directory: {}", "<cwd>{}</cwd>", "You are in {} now.", "cwd = {}", "- Directory: {}", "PWD={}"],
    "user": ["Signed in: {}", "<profile>{}</profile>", "The person you talk to is {}, be polite.", "for={}", "- {}", "User: {}"],
}  # fmt: skip


def _value(name: str, make: Callable[[Rng], list[str]]) -> Inject:
    def inject(earlier: list[Turn], after: Turn, rng: Rng) -> Case | None:
        spot = _spot(earlier, after, rng)
        if spot is None:
            return None
        line = rng.choice(_LINES[name])
        before, now = (line.format(value) + "\n" for value in make(rng))
        return Case([_inserted(turn, spot, before) for turn in earlier], _inserted(after, spot, now))

    return inject


Spot = tuple[int | None, int]
"""A message (None: the text of the request) and a character of it."""


def _spot(earlier: list[Turn], after: Turn, rng: Rng) -> Spot | None:
    """The beginning of a line that all the requests have, well before the end of the last one."""
    first = earlier[0]
    if after.text is not None:
        last, own = str.__str__(earlier[-1].text or ""), str.__str__(first.text or "")
        if not last.startswith(own):
            return None
        starts = _line_starts(last[: len(last) - _BEHIND])
        return None, rng.choice(starts)
    messages = earlier[-1].messages or []
    places = [at for at, each in enumerate(messages[:-1]) if isinstance(each.get("content"), str) and each["content"]]
    if not places:
        return None
    at = 0 if rng.random() < 0.4 else rng.choice(places)
    return at, rng.choice(_line_starts(str.__str__(messages[at]["content"])))


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer(r"\n", text) if match.end() < len(text))]


def _inserted(turn: Turn, spot: Spot, text: str) -> Turn:
    """The turn with `text` at the spot, where it has that far."""
    message, at = spot
    if message is None:
        whole = str.__str__(turn.text or "")
        return _with_text(turn, whole[:at] + text + whole[at:]) if at < len(whole) else turn
    if message >= len(turn.messages or []):
        return turn
    content = str.__str__((turn.messages or [])[message]["content"])
    return _with_message(turn, message, content[:at] + text + content[at:])


def _with_text(turn: Turn, text: str) -> Turn:
    return replace(turn, text=Traced(text))


def _with_message(turn: Turn, at: int, content: str) -> Turn:
    messages = list(turn.messages or [])
    messages[at] = {**messages[at], "content": Traced(content)}
    return replace(turn, messages=messages)


# Tools and JSON.


def _tool_text(tools: list[Any], lines: bool) -> str:
    if lines:
        return "Tools:\n" + "\n".join(json.dumps(tool) for tool in tools) + "\n\n"
    return "You may call these tools: " + json.dumps(tools, indent=2) + "\n\n"


def _tools(change: Callable[[list[Any], Rng], list[Any]]) -> Inject:
    """Tools beside the messages or, in a text, as JSON at its beginning."""

    def inject(earlier: list[Turn], after: Turn, rng: Rng) -> Case | None:
        tools = after.tools
        if not tools:
            return None
        other = change(list(tools), rng)
        if json.dumps(other) == json.dumps(tools):
            return None
        if after.text is None:
            return Case(earlier, replace(after, tools=other))
        lines = rng.random() < 0.5
        earlier = [_with_text(turn, _tool_text(tools, lines) + str.__str__(turn.text or "")) for turn in earlier]
        return Case(earlier, _with_text(after, _tool_text(other, lines) + str.__str__(after.text)))

    return inject


def _reorder(tools: list[Any], rng: Rng) -> list[Any]:
    if rng.random() < 0.5:
        first, second = rng.sample(range(len(tools)), 2)
        tools[first], tools[second] = tools[second], tools[first]
    else:
        rng.shuffle(tools)
    return tools


def _other_set(tools: list[Any], rng: Rng) -> list[Any]:
    at = rng.randrange(len(tools))
    gone = tools.pop(at)
    if rng.random() < 0.5:
        function = {
            **gone["function"],
            "name": gone["function"]["name"] + "_v2",
            "description": "Does the same, but better.",
        }
        tools.insert(rng.randrange(len(tools) + 1), {**gone, "function": function})
    return tools


def _other_keys(value: Any, rng: Rng) -> Any:
    if isinstance(value, dict):
        items = [(key, _other_keys(item, rng)) for key, item in value.items()]
        rng.shuffle(items)
        return dict(items)
    return [_other_keys(item, rng) for item in value] if isinstance(value, list) else value


def _keys(earlier: list[Turn], after: Turn, rng: Rng) -> Case | None:
    """Keys of a tool, of a recorded JSON message, of a call's arguments, or of a record put into a text."""
    spots = list(_records(earlier[-1]))
    if spots and rng.random() < 0.7:
        at, value = rng.choice(spots)
        messages = list(after.messages or [])
        dumped = json.dumps(_shuffled(value, rng))
        calls = messages[at].get("tool_calls")
        if calls:
            changed = [
                {**call, "function": {**call["function"], "arguments": dumped}}
                if _json(call["function"]["arguments"]) == value
                else call
                for call in calls
            ]
            messages[at] = {**messages[at], "tool_calls": changed}
        else:
            messages[at] = {**messages[at], "content": Traced(dumped)}
            # the recorded text has its own spacing: only the order may change
            same = Traced(json.dumps(value))
            earlier = [_with_message(turn, at, same) if at < len(turn.messages or []) else turn for turn in earlier]
        return Case(earlier, replace(after, messages=messages))
    if after.messages is not None and after.tools and rng.random() < 0.5:
        return _tools(lambda tools, one: _shuffled(tools, one))(earlier, after, rng)
    spot = _spot(earlier, after, rng)
    if spot is None:
        return None
    record = {"name": "record", "rank": rng.randrange(9), "tags": ["a", "b"], "owner": {"team": "search", "level": 3}}
    indent = rng.choice([None, 2])
    form = rng.choice(["{}\n", "Profile: {}\n", "```json\n{}\n```\n"])
    before, now = (form.format(json.dumps(each, indent=indent)) for each in (record, _shuffled(record, rng)))
    return Case([_inserted(turn, spot, before) for turn in earlier], _inserted(after, spot, now))


def _records(turn: Turn) -> Iterator[tuple[int, Any]]:
    """JSON objects that are a message, or the arguments of a call in one."""
    for at, message in enumerate((turn.messages or [])[:-1]):
        found = [_json(call["function"]["arguments"]) for call in message.get("tool_calls") or []]
        yield from ((at, value) for value in [_json(message.get("content")), *found] if value and len(value) > 1)


def _shuffled(value: Any, rng: Rng) -> Any:
    while True:
        other = _other_keys(value, rng)
        if json.dumps(other) != json.dumps(value):
            return other


def _json(text: object) -> Any:
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


# Spelling: other characters that look the same.


def _respelled(change: Callable[[str, Rng], str], planted: str = "") -> Inject:
    """One message, or the whole text that was there before, in other characters that look the same."""

    def inject(earlier: list[Turn], after: Turn, rng: Rng) -> Case | None:
        if planted and (spot := _spot(earlier, after, rng)) is not None:
            earlier = [_inserted(turn, spot, planted) for turn in earlier]
            after = _inserted(after, spot, planted)
        if after.text is not None:
            shared = len(str.__str__(earlier[-1].text or ""))
            text = str.__str__(after.text)
            changed = change(text[:shared], rng) + text[shared:]
            return Case(earlier, _with_text(after, changed)) if changed != text else None
        messages = earlier[-1].messages or []
        places = []
        for at, message in enumerate(messages[:-1]):
            content = message.get("content")
            if isinstance(content, str) and content and change(content, random.Random(0)) != content:
                places.append(at)
        if not places:
            return None
        at = rng.choice(places)
        content = str.__str__(messages[at]["content"])
        changed = change(content, rng)
        return Case(earlier, _with_message(after, at, changed)) if changed != content else None

    return inject


def _white(text: str, rng: Rng) -> str:
    text = str.__str__(text)
    lines = text.split("\n")
    forms: list[Callable[[], str]] = [
        lambda: text.replace("\n", "\r\n"),
        lambda: "\n".join(line + "  " if index == len(lines) // 2 else line for index, line in enumerate(lines)),
        lambda: "\n".join(line + " " if line else line for line in lines),
        lambda: text.replace("\n\n", "\n\n\n"),
        lambda: text.replace(". ", ".  "),
        lambda: text.replace("\n- ", "\n-  "),
    ]
    rng.shuffle(forms)
    return next((made for form in forms if (made := form()) != text), text)


def _unicode(text: str, rng: Rng) -> str:
    text = str.__str__(text)
    forms: list[Callable[[], str]] = [
        lambda: unicodedata.normalize("NFD", text),
        lambda: re.sub("[\u00c0-\u017f]", lambda found: unicodedata.normalize("NFD", found[0]), text, count=1),
    ]
    rng.shuffle(forms)
    return next((made for form in forms if (made := form()) != text), text)


# History.


def _blocks(earlier: list[Turn]) -> tuple[str, int, list[int]] | None:
    """The text of the last request, where its history begins, and the blank lines in it well before the end."""
    first, last = (str.__str__(turn.text or "") for turn in (earlier[0], earlier[-1]))
    if not last.startswith(first):
        return None
    inner = [match.end() for match in re.finditer(r"\n\n", last) if len(first) < match.end() < len(last) - _BEHIND]
    return (last, len(first), inner) if inner else None


def _window(earlier: list[Turn], after: Turn, rng: Rng) -> Case | None:
    if after.text is not None:
        found = _blocks(earlier)
        if found is None:
            return None
        _, head, cuts = found
        text = str.__str__(after.text)
        cut = rng.choice(cuts)
        lead = re.match(r"\n*", text[head:])
        begin = head + (lead.end() if lead else 0)
        return Case(earlier, _with_text(after, text[:begin] + text[cut:])) if cut > begin else None
    messages = after.messages or []
    head = 1 if messages[0]["role"] == "system" else 0
    most = len(earlier[-1].messages or []) - 2
    if most <= head:
        return None
    cut = rng.randint(head + 1, most)
    return Case(earlier, replace(after, messages=[*messages[:head], *messages[cut:]]))


_SUMMARY = (
    "Summary of the conversation so far: the customer explained what they want, the assistant looked up the account, listed the"
    " options and asked for confirmation; nothing has been booked or changed yet."
)
_SENTENCES = [
    "The assistant should keep in mind that the earlier result was wrong and has been corrected by hand.",
    "Nothing useful came out of this step, so its output was dropped to save room.",
    "(the tool printed a long list here, which is left out)",
    "We agreed to go on with the second option and to leave everything else alone.",
]


def _edited(earlier: list[Turn], after: Turn, rng: Rng) -> Case | None:
    """A passage written anew, messages taken out of the middle, or several of them replaced by a summary."""
    if after.text is not None:
        found = _blocks(earlier)
        if found is None or len(found[2]) < 3:
            return None
        text, cuts = str.__str__(after.text), found[2]
        first = rng.randrange(1, len(cuts) - 1)
        last = rng.randrange(first + 1, min(len(cuts), first + 4))
        if len(text[cuts[first] : cuts[last]].strip()) < 40:
            return None
        passage = rng.choice([_SUMMARY, *_SENTENCES]) + "\n\n"
        return Case(earlier, _with_text(after, text[: cuts[first]] + passage + text[cuts[last] :]))
    messages = list(after.messages or [])
    head = 1 if messages[0]["role"] == "system" else 0
    most = len(earlier[-1].messages or []) - 2
    if most - head < 4:
        return None
    match rng.choice(["passage", "passage", "removed", "summary"]):
        case "passage":
            places = [at for at in range(head, most) if len(messages[at].get("content") or "") > 60]
            if not places:
                return None
            at = rng.choice(places)
            content = str.__str__(messages[at]["content"])
            begin = rng.choice([0, *(match.end() for match in re.finditer(r"[.!?] ", content))])
            messages[at] = {**messages[at], "content": Traced(content[:begin] + rng.choice(_SENTENCES))}
        case "removed":
            at = rng.randrange(head + 3, most)
            del messages[at : min(at + rng.choice([1, 2, 2]), most)]
        case _:
            last = rng.randrange(head + 2, most)
            messages[head:last] = [{"role": rng.choice(["user", "assistant"]), "content": Traced(_SUMMARY)}]
    return Case(earlier, replace(after, messages=messages))


def _set(*names: str) -> frozenset[str]:
    return frozenset(names)


_ACCENTS = "Menu du café: crème brûlée, gâteau à l'orange, ragoût; prêt à être servi où vous êtes.\n"

INJECTIONS: tuple[Injection, ...] = (
    Injection("timestamp", _set("KV101"), _value("timestamp", _time)),
    Injection("uuid", _set("KV102"), _value("uuid", _uuid)),
    Injection("counter", _set("KV105"), _value("counter", _count)),
    Injection("directory", _set("KV106"), _value("path", _path)),
    Injection("user or locale", _set("KV104"), _value("user", _user)),
    Injection("tool order", _set("tools_reordered"), _tools(_reorder)),
    Injection("tool set", _set("tools_changed"), _tools(_other_set)),
    Injection("JSON key order", _set("json_keys"), _keys),
    Injection("white space", _set("line_endings", "trailing_space", "whitespace", "final_newline"), _respelled(_white)),
    Injection("Unicode form", _set("unicode_form"), _respelled(_unicode, _ACCENTS)),
    Injection("sliding window", _set("window"), _window),
    Injection("history edit", _set("history_edited", "cut_short"), _edited),
)
