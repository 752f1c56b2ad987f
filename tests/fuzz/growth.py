"""CPU time per MB of texts that were made to be slow, in two sizes: python -m tests.fuzz.growth [--size BYTES] [--shape NAME].

What takes more than three times as long for twice the text is marked: it grows faster than the text does. Times depend on the
machine, so this is run by hand; the tests count calls (tests/cli/test_hostile_prompts.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from unittest.mock import patch

from kvtool.__main__ import collect_seldom
from kvtool.text.structure import structure
from tests.fuzz.commands import ON, TOKENS
from tests.fuzz.forked import CPU_SECONDS, Job, run_jobs
from tests.fuzz.session import begin
from tests.tokenizers_made import byte_tokenizer_json

STEEP = 3.0
LEAST_SECONDS = 0.3
"""What takes less says nothing about growth."""


def de_bruijn(letters: str, length: int) -> str:
    """A text in which no substring of `length` letters stands twice."""
    found: list[int] = []
    word = [0] * (len(letters) * length)

    def extend(at: int, period: int) -> None:
        if at > length:
            if length % period == 0:
                found.extend(word[1 : period + 1])
            return
        word[at] = word[at - period]
        extend(at + 1, period)
        for letter in range(word[at - period] + 1, len(letters)):
            word[at] = letter
            extend(at + 1, at)

    extend(1, 1)
    return "".join(letters[at] for at in found)


def _filled(unit: str) -> Callable[[int], str]:
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def _lines(form: str) -> Callable[[int], str]:
    """Lines that differ in a number only."""

    def text(size: int) -> str:
        lines, length = [], 0
        while length < size:
            lines.append(form.format(len(lines)))
            length += len(lines[-1]) + 1
        return "\n".join(lines)[:size]

    return text


_SEQUENCE = de_bruijn("abcd", 9)
SHAPES: dict[str, Callable[[int], str]] = {
    "spaces": _filled(" "),
    "line ends": _filled("\n"),
    "a^n": _filled("a"),
    "digits": _filled("7"),
    "digits with commas": _filled("1,"),
    "nested brackets": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "nested objects": lambda size: '{"a":[' * (size // 8) + "]}" * (size // 8),
    "tags": lambda size: "<a>" * (size // 7) + "</a>" * (size // 7),
    "quotes": _filled('"'),
    "backslashes": _filled("\\"),
    "half of an address": _filled("a@b."),
    "paths": _filled("/a/b-c"),
    "near-equal lines": _lines("item {0}: the quick brown fox jumps over the lazy dog"),
    "equal lines": _lines("the quick brown fox jumps over the lazy dog"),
    "alternating lines": _filled("first line of two\nsecond line of two\n"),
    "reversed numbers": lambda size: "\n".join(f"{number:06}" for number in range(size // 7, 0, -1)),
    "hex words": _lines("{0:016x}"),
    "de Bruijn": lambda size: (_SEQUENCE * (size // len(_SEQUENCE) + 1))[:size],
    "dates in words": _filled("4 de März 1/2 日水曜日 "),
    "template tags": _filled("{{ x }}{% if y %}"),
    "template lines": _filled("{% if y %}\n{{ x }}\n"),
    "items of one word": _filled("- word\n"),
    "numbered rules": _filled("1. a\n"),
    "items in items": _filled("".join(f"{'  ' * level}- a\n" for level in range(12))),
    "quotes in quotes": _filled("> " * 10_000 + "a\n"),
    "quotes of each depth": _filled("".join(f"{'> ' * level}a\n" for level in range(40))),
    "quotes apart": _filled("> a\n\n"),
    "quotes in items": _filled("- > a\n"),
    "rows of a table": lambda size: ("| a | b |\n|---|---|\n" + "| c | d |\n" * (size // 10))[:size],
    "headings": _filled("# a\n"),
    "headings of each level": _filled("".join(f"{'#' * level} a\n\nb\n\n" for level in range(1, 7))),
    "fences": _filled("```\na\n```\n"),
    "fences that are open": _filled("```\n"),
    "elements on a line": _filled("<a>b</a>"),
    "elements on lines": _filled("<a>\nb\n</a>\n"),
    "announcements": _filled("a:\n"),
    "banners": _filled("--- A ---\na\n--- END ---\n"),
}
WAYS: dict[str, tuple[str, ...]] = {
    "profile": ("profile", "l.jsonl", "--dry-run", *TOKENS, *ON),
    "diff": ("diff-prompts", "a.txt", "b.txt", *TOKENS, "--offline"),
    "lint": ("lint", "a.txt", *TOKENS, *ON),
}


def job(way: str, text: str, common: dict[str, bytes]) -> Job:
    """The text behind a number, once with a piece in its middle, once without its first character."""
    half = len(text) // 2
    prompts = [f"id 17 {text}", f"id 94 {text[:half]} X9 {text[half:]} end", f"id 94 {text[1:]}tail"]
    files = {
        "l.jsonl": "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts).encode(),
        "a.txt": prompts[0].encode(),
        "b.txt": prompts[1].encode(),
    }
    return Job(way, 0, WAYS[way], common | files)


PARSER = "parser"
"""The way on which only the structure of the text is read, to its sentences, whatever its number of lines."""


def _parsing(text: str) -> float:
    with patch.object(structure, "MOST_LINES", len(text) + 1):
        began = time.process_time()
        structure.Structure(text).tree()
        return time.process_time() - began


def rows(size: int, shapes: list[str], common: dict[str, bytes]) -> Iterator[tuple[str, str, list[float]]]:
    """Shape, way, and the CPU seconds of nothing, of `size` and of twice that; `CPU_SECONDS` where it took more."""
    for shape in shapes:
        yield shape, PARSER, [_parsing(SHAPES[shape](length)) for length in (14, size, 2 * size)]
        for way in WAYS:
            texts = [SHAPES[shape](length) for length in (14, size, 2 * size)]
            ran = list(run_jobs([job(way, text, common) for text in texts], batch=1))
            yield shape, way, [float(CPU_SECONDS) if each.signal is not None else each.seconds for each in ran]


def main() -> int:
    """The exit code is 1 where something is steep."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.growth", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=100_000, help="characters of the smaller text [100000]")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="only this one; repeatable")
    asked = parser.parse_args()
    _, common = begin(byte_tokenizer_json())
    collect_seldom()
    steep = 0
    print(f"{'':24}{'':10}{'s/MB':>8}{'s/MB, twice':>14}{'ratio':>8}")
    for shape, way, (nothing, once, twice) in rows(asked.size, asked.shape or list(SHAPES), common):
        one, two = max(once - nothing, 1e-3), max(twice - nothing, 1e-3)
        mark = two > LEAST_SECONDS and two / one > STEEP
        steep += mark
        megabytes = asked.size / 1e6
        print(
            f"{shape:24}{way:10}{one / megabytes:8.2f}{two / megabytes / 2:14.2f}{two / one:8.1f}{'  steep' if mark else ''}",
            flush=True,
        )
    return 1 if steep else 0


if __name__ == "__main__":
    sys.exit(main())
