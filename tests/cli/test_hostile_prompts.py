"""Prompts that somebody made to hurt: nothing fails on them, and twice as much of them is at most about twice the work.

Where the work is done by Python code, its calls are counted. Patterns get enough of it that one which backtracks would not end.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kvtool.accounting.plan import Plan
from kvtool.cli.commands.diff import DiffCommand
from kvtool.config.option import made
from kvtool.diagnose.compare.order import shuffled
from kvtool.diagnose.values.ascii_digits import plain_signs
from kvtool.diagnose.values.classify import classify_in, value_span
from kvtool.diagnose.values.detectors import DETECTORS
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.results.report import Report
from kvtool.text.sensitive import find_sensitive
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.text.tokens.tokenizer_files import TokenizerFiles
from kvtool.text.traced import Origin, Traced
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.render import Renderer

SIZE = 2_000
MUCH = 100_000

REPEATED = [
    "7", "1 ", "-", "a@", "a.b@c.d", ":", "a:", "[", "{", '{"', '["a",', "<a>", "\n", "\r\n", "\r", " ", "\t", "\u00a0", '"', "\\",
    "/", "/a", "a/", "~", ".", "1.", "1,", ",000", "_", "aA0", "eyJabcdefghijklm.", "sk-", "x-request-id:", "commit ", "2024-01-01",
    "2024-01-01T", "Jan ", "C:\\a ", "http://", "user:\n", "-----BEGIN ", "DE89 ", "4111 ", "550e8400e29b", "Example 1:\n",
    "[1] a\n", '<document index="1">\n', '{"a":1}', '{"b":2,"a":1}\n', '[{"a":1},{"b":2}]\n', "{{ x }}", "{% if x %}", "{#",
    "\u200d", "\u0301", "\u2028", "\x00", "\x1b[31m", "a\nb\n",
]  # fmt: skip

NOISE = random.Random(1)
SHAPES: dict[str, str] = {
    **{repr(unit): unit * (SIZE // len(unit)) for unit in REPEATED},
    "deep brackets": "[" * 5_000 + "]" * 5_000,
    "deep JSON": '{"a":[' * 2_500 + "1" + "]}" * 2_500,
    "deep tags": "<a>" * 2_000 + "</a>" * 2_000,
    "random characters": "".join(chr(NOISE.randrange(1, 0x250)) for _ in range(SIZE)),
    "random bytes": NOISE.randbytes(SIZE).decode("latin-1"),
    "base64": "".join(NOISE.choices("ABCDEFabcdef0123+/", k=SIZE)),
    "surrogates": "\ud800" * (SIZE // 3),
}


def prompts(shape: str) -> list[str]:
    """The shape behind two numbers, cut through, and at the end of a text without its first character."""
    half = len(shape) // 2
    return [f"id 17 {shape}", f"id 94 {shape}", f"{shape[:half]} X9 {shape[half:]} end", f"id 94 {shape[1:]}tail"]


def profile(renderer: Renderer, folder: Path, records: list[dict[str, Any]]) -> Report:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    plan = Plan(EngineConfig(block_size=16), LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100")))
    source = LogSource([str(path)], LogOptions())
    return Profiler(
        source, renderer, plan, ReportOptions(), progress=Progress(None), locate=locate, path=str(path)
    ).run()


@pytest.mark.parametrize("name", SHAPES)
def test_profile(name: str, byte_renderer: Renderer, tmp_path: Path) -> None:
    found = profile(byte_renderer, tmp_path, [{"prompt": prompt} for prompt in prompts(SHAPES[name])])
    assert found.totals.requests == 4
    assert sum(found.fates.values()) == found.totals.prompt_tokens


def test_diff(bytes_json: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / f"{number}.json" for number in range(2)]
    command = made(
        DiffCommand, prompts=list(map(str, paths)), tokenizer=bytes_json, color="never", width=100, exit_code=True
    )
    for name, shape in SHAPES.items():
        for path, prompt in zip(paths, prompts(shape)[1:3], strict=True):
            path.write_text(json.dumps({"prompt": prompt}), encoding="utf-8")
        assert command.run() == 1, name
        shown = capsys.readouterr().out
        assert shown, name
        assert not set(shown) & {"\x1b", "\x00", "\r"}, name


def test_sensitive_text_is_looked_for_in_any_text() -> None:
    for name, shape in SHAPES.items():
        text = shape * (MUCH // SIZE)
        assert all(0 <= start < stop <= len(text) for _, start, stop in find_sensitive(text)), name


def test_items_are_told_apart_in_any_white_space() -> None:
    for blank in (" ", "\n", "\t", "\u00a0", " \n", ", ", "\n, ", ". "):
        space = blank * (MUCH // len(blank))
        assert not shuffled(f"one{space}two", f"one{space}three"), blank
        assert shuffled(f"first one,{space}second one, third", f"third, first one,{space}second one"), blank


def reference(text: str, start: int, end: int) -> str | None:
    """The kind of the first detector that covers a range, looked for in all of a line."""
    for kind, pattern in DETECTORS:
        if any(low <= start and end <= high for low, high in map(value_span, pattern.finditer(plain_signs(text)))):
            return kind.key
    return None


def test_words_alone_are_named_as_in_their_line() -> None:
    """Detectors that take no white space look at one word of a line; they find there what they find in the line."""
    chance = random.Random(2)
    pieces = [
        "2026-01-05", "T08:00:07", "+00:00", " ", "  ", "\t", "/home/u/x.py", "a@b.co", "user-12", "req_9f8e", "1.2.3", "v2",
        "12", "3,000", "10:30", "AM", "Jan 5, 2026", "https://x.y/z", "en-US", "€5", "USD", "C:\\a b\\c", "commit ", "deadbeef1",
        "\u00a0", "550e8400-e29b-41d4-a716-446655440000", "é", ".", ",", ":", "-", "(", ")", "/", "~", "$HOME", "eyJhbGciOi.eyJz",
        "192.168.0.1", "fe80::1", "United States", "1700000000", "x", "=", "_", "ABCdef1234567890ghijK", "\x0b", "\u2028",
        "i-0abcdef12",
    ]  # fmt: skip
    named = 0
    for _ in range(2_000):
        text = "".join(chance.choices(pieces, k=chance.randint(1, 12)))[:256]
        start = chance.randrange(len(text) + 1)
        end = min(start + chance.choice((0, 0, 1, 2, 9)), len(text))
        expected = reference(text, start, end)
        named += expected is not None
        assert classify_in(text, start, end)[0].key == (expected or "other"), (text, start, end)
    assert named > 500


def calls(action: Callable[[], object]) -> int:
    """How many functions an action calls."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def messages(count: int, mark: str) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": f"text {at} {mark if at == 3 else ''}"} for at in range(count + 1)]


def tools(count: int, order: int) -> list[dict[str, Any]]:
    listed = [
        {
            "type": "function",
            "function": {"name": f"f{at}", "description": f"does {at}", "parameters": {"type": "object"}},
        }
        for at in range(count)
    ]
    random.Random(order).shuffle(listed)
    return listed


def text_of(unit: Callable[[int], str]) -> Callable[[int], list[dict[str, Any]]]:
    return lambda size: [{"prompt": prompt} for prompt in prompts("".join(map(unit, range(size))))]


GROWING: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "messages": lambda size: [{"messages": messages(size, mark)} for mark in ("one", "two", "three")],
    "messages cut": lambda size: [{"messages": messages(size, "")[cut:]} for cut in (0, 2, 40)],
    "equal messages": lambda size: [
        {"messages": [{"role": "user", "content": first}, *[{"role": "user", "content": "x"}] * size]} for first in "ab"
    ],
    "tools": lambda size: [
        {"messages": messages(2, "x"), "tools": tools(size, order)} for order in (1, 2, 3)
    ],
    "content parts": lambda size: [
        {"messages": [{"role": "user", "content": [{"type": "text", "text": f"{at} {mark}"} for at in range(size)]}]}
        for mark in ("x", "y")
    ],
    "addresses": text_of(lambda at: f"a{at}@b{at}.de "),
    "documents": text_of(lambda at: f"[{at}] document {at}\n"),
    "JSON lines": text_of(lambda at: f'{{"b": {at}, "a": 1}}\n'),
    "numbers": text_of(lambda at: f"{at * 7919} "),
    "lines": text_of(lambda at: f"{at % 3}\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_twice_as_much_is_twice_the_work(name: str, byte_renderer: Renderer, tmp_path: Path) -> None:
    small, large = (
        calls(lambda size=size: profile(byte_renderer, tmp_path, GROWING[name](size)))  # type: ignore[misc]  # mypy cannot type a default
        for size in (100, 400)
    )
    assert large <= 5 * small, (small, large)


def test_offsets_that_are_remembered_are_bounded(byte_spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a token take eight times the memory of its character."""
    monkeypatch.setattr("kvtool.text.tokens.tokenizer._OFFSET_CHARACTERS", 1_000)
    tokenizer = Tokenizer(TokenizerFiles("bytes", "bytes", byte_spec.encode, {}, None))
    for number in range(8):
        prompt = tokenizer.encode(Traced.of(f"{number}" * 400, Origin("prompt")), add_special_tokens=False)
        assert prompt.char_range(7) == (7, 8)
        assert prompt.token_at(7) == 7
        assert sum(map(len, tokenizer._offset_memo)) == tokenizer._offset_characters <= 1_000
    for number in range(200):
        tokenizer.encode(Traced.of(f"{number:05}", Origin("prompt")), add_special_tokens=False).char_range(3)
    assert len(tokenizer._offset_memo) == 64
    assert sum(map(len, tokenizer._offset_memo)) == tokenizer._offset_characters
