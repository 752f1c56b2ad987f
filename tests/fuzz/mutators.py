"""Seeded changes of inputs: of bytes, lines, words and JSON values. The same generator gives the same input again."""

from __future__ import annotations

import json
import random
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

Mutator = Callable[[random.Random, bytes], bytes]

HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

TEXTS = (
    "",
    " ",
    "\n",
    "\0",
    "x",
    "user",
    "\x1b[31mred",
    "\x9b1m",
    "\u202eabc",
    "\u2066",
    "\ud800",
    "[bold]x[/]",
    "::error file=a::b",
    "<script>alert(1)</script>",
    "]]>",
    "{{ x }}",
    "{% raw %}",
    "{{ '%s' % 1 }}",
    "../../../etc/hostname",
    "/dev/zero",
    "/",
    "~",
    "-",
    "1",
    "-1",
    "1e9",
    "0x10",
    "1_000",
    "٣",
    "nan",
    "inf",
    "yes",
    "null",
    "5m",
    "20GiB",
    "80%",
    "cycle",
    "zipf",
    "2026-01-05T09:00:00Z",
    "0000-00-00",
    "9999-12-31T23:59:59Z",
    "%Y",
    "%",
    HASH,
    "a" * 3000,
    "漢" * 500,
    "a\u0301" * 99,
    "=1+1",
    "`",
    "'",
    '"',
    "\\",
    "*" * 40,
    "org/model",
    "KV101",
    "KV9",
    "qwen2.5-0.5b",
    "h100",
    "\u2028",
    "\ufeff",
    "e" + "9" * 400,
)
"""What a text may be that its writer did not think of."""

NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    64,
    255,
    65_536,
    1 << 31,
    1 << 32,
    (1 << 53) + 1,
    1 << 63,
    1 << 64,
    -(1 << 63),
    10**30,
    10**400,
    0.5,
    -0.0,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
)


HOSTILE_NUMBERS = (
    *("9" * 5000, "9" * 400, "1e99999999999999999999", "1e-99999999999999999999", "1e300", "1e9999", "-1e300", "-1"),
    *("-0", "-0.0", "NaN", "Infinity", "-Infinity", "true", "1.5", "18446744073709551616", "5e-324", "null", "[]"),
    *(
        '"12"',
        '"1e999999999999"',
        '"\u0663"',
        '"\u00b2"',
        '"NaN"',
        f'"{"9" * 5000}"',
        '"-5"',
        '" 7 "',
        '"1_0"',
        '"0x1"',
    ),
)
"""What may be written in JSON where a number is wanted."""


def nested(depth: int, *, objects: bool) -> Any:
    """A list in a list, or an object in an object, `depth` deep."""
    value: Any = []
    for _ in range(depth):
        value = {"a": value} if objects else [value]
    return value


def value(rng: random.Random) -> Any:
    """Any JSON value, most often one at the edge of what fits."""
    kind = rng.randrange(8)
    if kind < 3:
        return rng.choice(TEXTS)
    if kind < 5:
        return rng.choice(NUMBERS)
    if kind == 5:
        return rng.choice((None, True, False, [], {}, [[]], [None], [""], {"": ""}, {"a": None}, ["a", 1, None]))
    if kind == 6:
        return nested(rng.choice((3, 50, 300)), objects=rng.random() < 0.5)
    return [rng.choice((*TEXTS[:30], *NUMBERS)) for _ in range(rng.randrange(5))]


def similar(rng: random.Random, old: Any) -> Any:
    """A value of the same type, so that more than the check of types is reached."""
    if isinstance(old, bool) or old is None:
        return rng.choice((True, False, None))
    if isinstance(old, str):
        text = rng.choice(TEXTS)
        return rng.choice(
            (text, old + text, text + old, old * rng.choice((0, 2, 50)), old[: len(old) // 2], old.upper())
        )
    if isinstance(old, int | float):
        return rng.choice(
            (0, 1, 2, 3, 7, 31, 64, 255, 4096, -1, old + 1, old - 1, old * 2, old * 10, old // 2, 1 << 31)
        )
    if isinstance(old, list):
        return rng.choice((old[::-1], old + old, old[:1], old[1:], [], [*old, None]))
    pairs = list(old.items())
    rng.shuffle(pairs)
    return dict(pairs[: rng.choice((len(pairs), len(pairs), len(pairs) // 2))])


# Bytes, lines, words


def change_bytes(rng: random.Random, data: bytes) -> bytes:
    """A few bytes flipped, put in, cut out or said twice."""
    edited = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(edited) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(edited):
            edited[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            edited[at:at] = rng.randbytes(rng.randint(1, 4))
        elif kind == 2:
            del edited[at : at + rng.randint(1, 30)]
        elif kind == 3:
            edited[at:at] = edited[at : at + rng.randint(1, 60)] * rng.randint(1, 4)
        elif kind == 4:
            edited[at:at] = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
        else:
            del edited[at:]
    return bytes(edited)


def change_lines(rng: random.Random, data: bytes) -> bytes:
    """Lines left out, said twice, swapped, indented, ended in another way."""
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 1, 3))):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        kind = rng.randrange(7)
        if kind == 0 and len(lines) > 1:
            del lines[at]
        elif kind == 1:
            lines.insert(other % (len(lines) + 1), lines[at])
        elif kind == 2:
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 3:
            lines[at] = b" " * rng.randint(1, 5) + lines[at]
        elif kind == 4:
            lines[at] = lines[at].lstrip()
        elif kind == 5:
            lines[at] += rng.choice((b"\r", b" ", b"\t", b"\\", b"#", b",", b":"))
        else:
            lines[at] = b""
    return b"\n".join(lines)


_WORD = re.compile(rb"[A-Za-z0-9_.%/-]+|[^\sA-Za-z0-9_]")


def words_from(dictionary: Sequence[str]) -> Mutator:
    """Words of the file are replaced, left out, or followed by one of the dictionary or of the file."""

    def change_words(rng: random.Random, data: bytes) -> bytes:
        for _ in range(rng.choice((1, 1, 2, 4))):
            found = list(_WORD.finditer(data))
            if not found:
                return rng.choice(dictionary).encode()
            match = rng.choice(found)
            kind = rng.randrange(4)
            new = (
                rng.choice(dictionary).encode("utf-8", "surrogatepass")
                if rng.random() < 0.7
                else rng.choice(found).group()
            )
            if kind == 0:
                new = b""
            elif kind == 1:
                new = match.group() + b" " + new
            data = data[: match.start()] + new + data[match.end() :]
        return data

    return change_words


# JSON


def change_value(rng: random.Random, document: Any) -> Any:
    """One place of a document replaced, left out, renamed, said twice or put elsewhere; the document itself is changed."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, inner in pairs:
            places.append((node, key))
            walk(inner)

    walk(document)
    if not places:
        return value(rng)
    node, key = rng.choice(places)
    kind = rng.randrange(16)
    if kind < 9:
        node[key] = similar(rng, node[key])
        return document
    kind -= 8
    if kind < 4:
        node[key] = value(rng)
    elif kind == 4:
        del node[key]
    elif kind == 5 and isinstance(node, dict):
        node[rng.choice((*TEXTS[:20], *(str(key) for _, key in places)))] = node.pop(key)
    elif kind == 6:
        other, name = rng.choice(places)
        node[key] = (
            json.loads(json.dumps(other[name]))
            if name in (other if isinstance(other, dict) else range(len(other)))
            else None
        )
    elif isinstance(node, list):
        node[key:key] = [node[key]] * rng.randint(1, 3)
    else:
        node[rng.choice(TEXTS[:20])] = value(rng)
    return document


def dumped(rng: random.Random, document: Any) -> bytes:
    """As JSON, with the spaces and the escapes of one writer or another."""
    ascii_ = rng.random() < 0.5
    text = json.dumps(document, ensure_ascii=ascii_, separators=rng.choice(((",", ":"), (", ", ": "))))
    return text.encode("utf-8", "surrogatepass" if rng.random() < 0.3 else "backslashreplace")


def change_json(rng: random.Random, data: bytes) -> bytes:
    """One to three values of a JSON document."""
    document = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        document = change_value(rng, document)
    return dumped(rng, document)


def change_number(rng: random.Random, data: bytes) -> bytes:
    """A hostile number in the place of a number, or of a text that is one, of a JSON document or of a line of JSON."""
    try:
        documents = [json.loads(data)]
    except ValueError:
        documents = [json.loads(line) for line in data.split(b"\n") if line.strip()]
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key, inner in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
            if type(inner) in (int, float) or (isinstance(inner, str) and inner.lstrip("-").isdecimal()):
                places.append((node, key))
            walk(inner)

    walk(documents)
    names = sorted({str(key) for _, key in places})  # lists of a thousand ids are one of them
    name = rng.choice(names)
    node, key = rng.choice([each for each in places if str(each[1]) == name])
    node[key] = "\0"
    lines = [json.dumps(each).replace(r'"\u0000"', rng.choice(HOSTILE_NUMBERS), 1) for each in documents]
    return "".join(f"{line}\n" for line in lines).encode()


def change_record(rng: random.Random, data: bytes) -> bytes:
    """Values of one or two records of JSON lines."""
    lines = [line for line in data.split(b"\n") if line.strip()]
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(lines))
        try:
            lines[at] = change_json(rng, lines[at])
        except ValueError:  # it was changed already into what is no JSON: a number of no end, half of a pair
            continue
    return b"\n".join([*lines, b""])


def one_of(*weighted: tuple[int, Mutator]) -> Mutator:
    """One of these, by weight; seldom two of them one after the other."""
    weights = [weight for weight, _ in weighted]

    def change(rng: random.Random, data: bytes) -> bytes:
        for _ in range(rng.choice((1, 1, 1, 2))):
            mutator = rng.choices([each for _, each in weighted], weights)[0]
            try:
                data = mutator(rng, data)
            except (ValueError, IndexError, ArithmeticError, RecursionError, OSError, EOFError, zlib.error):
                data = change_bytes(rng, data)  # what came before has left nothing that could be parsed
        return data

    return change
