"""Names of volatile values."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from re import _parser as parser  # type: ignore[attr-defined]  # it alone says what a pattern is made of
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.dates.written import DateForm
from kvtool.diagnose.invisible_differences import NORMALIZERS, cosmetic, first_word, normalized
from kvtool.diagnose.values import classify as module
from kvtool.diagnose.values.ascii_digits import plain_signs
from kvtool.diagnose.values.classify import DETECTORS, classify, classify_in, value_span
from kvtool.diagnose.values.detectors import YEAR

CASES = {
    "timestamp_iso": [
        "2026-11-20T10:15:01Z",
        "2026-11-20T10:15",
        "2026-11-20T10:15:01.123456+01:00",
        "20261120T101501Z",
    ],
    "timestamp_rfc2822": ["Fri, 20 Nov 2026 10:15:01 +0000", "20 Nov 2026 10:15:01 GMT"],
    "timestamp_asctime": ["Fri Nov 20 10:15:01 2026", "Fri Nov 20 10:15:01 UTC 2026"],
    "timestamp_log": ["20/Nov/2026:10:15:01 +0000"],
    "timestamp": ["2026-11-20 10:15:01", "2026-11-20 10:15", "November 20, 2026 at 10:15 AM", "20/11/2026 09:00"],
    "unix": ["1763632501", "1763632501123", "1763632501.25", "1763632501123456", "1763632501123456789"],
    "clock": ["10:15:01", "10:15", "9:05 PM", "12:30:45.123"],
    "date": [
        "2026-11-20", "November 20, 2026", "Friday, November 20, 2026", "20 Nov 2026", "20/11/2026", "11/20/2026",
        "20.11.2026", "20261120", "Nov 20", "20th of November 2026", "November 2026",
    ],
    "weekday": ["Friday"],
    "uuid": ["550e8400-e29b-41d4-a716-446655440000", "550E8400-E29B-41D4-A716-446655440000"],
    "ulid": ["01ARZ3NDEKTSV4RRFFQ69G5FAV"],
    "hex": [
        "deadbeef1",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "0x7ffd4c2a9b10",
    ],
    "digest": ["sha256:abcdef0123456789"],
    "trace": ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
    "jwt": ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc-def_123"],
    "token": ["sk-proj-AbC123xyz789QQ"],
    "id": ["req_01HXYZ", "chatcmpl-9aBc1", "session-42"],
    "user": ["user-42", "tenant:7", "cus_9f3K"],
    "email": ["a.b+c@example.co.uk"],
    "ksuid": ["0ujtsYcgvSTl8PAuAdqWYSMnLOv", "2NpXbRfjUBVSsxLvHkqzGmYcTdW"],
    "nanoid": ["V1StGXR8_Z5jdHi6B-myT", "aB3_5678901234567890-"],
    "objectid": ["507f1f77bcf86cd799439011"],
    "snowflake": ["1541815603606036480", "17592186044416123"],
    "base64": ["dGhpcyBpcyBhIG5vbmNlIQ1+/w==", "q83vEjRWeJCrze8SNFZ4kA=="],
    "aws": [
        "i-0abcd1234efgh5678".replace("gh", "ab"),
        "arn:aws:s3:::my-bucket/key",
        "1-5759e988-bd862e3fe1be46a994272793",
    ],
    "gcp": ["projects/my-app/zones/europe-west4-a/instances/web-1"],
    "git": ["commit 7f85625", "HEAD: 8d777f385d3dfec8815d20f7496026dc9b2a1c3d"],
    "header": ["X-Request-Id: 8f14e45f-ea", "traceparent=00-4bf92f35-01"],
    "locale": ["en-US", "pt_BR", "zh-Hant-TW", "de_DE.UTF-8", "es-419"],
    "timezone": ["Europe/Berlin", "America/Argentina/Buenos_Aires", "UTC+02:00", "GMT-5"],
    "amount": ["$12.99", "€1,234.50", "12.50 EUR", "USD 40", "£5"],
    "currency": ["EUR"],
    "language": ["French"],
    "country": ["South Korea"],
    "url": ["https://a.example/c?d=1"],
    "ip": ["192.168.0.1", "192.168.0.1:8080", "2001:db8::1", "fe80::1", "::1"],
    "path": [
        "$HOME/src", "%USERPROFILE%\\src", "\\\\server\\share\\x.txt", "/home/me/src", "/tmp", "~/work/x.py", "./a/b",
        "src/kvtool/a.py", "C:\\Users\\me",
    ],
    "version": ["v1.2", "1.2.3", "1.2.3-rc1", "1.2.3-beta.2+build.5"],
    "number": ["42", "1,234", "3.14", "-7", "12345678"],
    "other": [
        "7f85625", "hello", "and/or", "gpt-four", "a::b", "deadbeef", "", "  ", "May", "1:2:3:4", "99:99",
        "std::vector", "getUserAccountBalance", "x-ray", "well-known", "projects/mine",
    ],
}  # fmt: skip
CODES = {
    "KV101": ["timestamp_iso", "timestamp_rfc2822", "timestamp", "unix", "clock", "date", "weekday"],
    "KV102": [
        "ksuid", "nanoid", "objectid", "snowflake", "base64", "aws", "gcp", "header", "uuid", "ulid", "hex", "digest",
        "trace", "jwt", "token", "id",
    ],
    "KV104": ["email", "user", "locale", "timezone", "currency", "language", "country"],
    "KV105": ["number", "version"],
    "KV106": ["path", "git"],
    "KV201": ["ip", "url", "amount", "other"],
}  # fmt: skip


def test_classify() -> None:
    for key, text in [(key, text) for key, texts in CASES.items() for text in texts]:
        assert classify(text).key == key


def test_codes() -> None:
    for code, key in [(code, key) for code, keys in CODES.items() for key in keys]:
        kinds = {kind for kind, _ in DETECTORS} | {OTHER}
        assert {kind.code for kind in kinds if kind.key == key} == {code}


def test_quotes_and_space_around_a_value_do_not_matter():
    assert classify(' "2026-11-20T10:15:01Z"\n').name == "timestamp (ISO 8601)"


IN_TEXT = [
    ("Now: 2026-11-20T10:15:01Z. You are", "15:0", "timestamp_iso", "2026-11-20T10:15:01Z"),
    ("id=550e8400-e29b-41d4-a716-446655440000;", "e29b", "uuid", "550e8400-e29b-41d4-a716-446655440000"),
    ("Today is November 20, 2026.", "November 2", "date", "November 20, 2026"),
    ("seen at 10:15.", "5", "clock", "10:15"),
    ("cwd /home/bob/x is", "bob", "path", "/home/bob/x"),
    ("mail bob@acme.com,", "ob", "email", "bob@acme.com"),
    ("Call step3 now", "3", "number", "3"),
    ("a red car", "e", "other", "red"),
    ("first line\nretry 3 of 5\n", "3", "number", "3"),
    ("HEAD is at commit 7f85625 now", "856", "git", "7f85625"),
    ("x-request-id: a1b2c3d4\n", "b2", "header", "a1b2c3d4"),
    ("Answer in French, please.", "ren", "language", "French"),
    ("It costs $1,299.00.", "299", "amount", "$1,299.00"),
    ("Locale: en-US;", "US", "locale", "en-US"),
    ("at 10:15, user bob", "5, user b", "other", "10:15, user bob"),
]


def test_classify_in_widens_to_the_value() -> None:
    for text, differing, key, value in IN_TEXT:
        start = text.index(differing)
        kind, left, right = classify_in(text, start, start + len(differing))
        assert (kind.key, text[left:right]) == (key, value)


@given(st.text(alphabet="0123456789abcdefT:-/.,@ \nZxyz_{", max_size=80), st.data())
def test_the_widened_range_holds_the_span_within_the_line(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    _, left, right = classify_in(text, start, end)
    assert left <= start <= end <= right <= len(text)
    assert "\n" not in text[left:start] + text[end:right]


def test_hostile_text_of_a_megabyte_is_no_trouble() -> None:
    for unit in [
        "a", "1", "/a", "a.", "aA1", "a-", ":", "1.", "1,000", "f0", "a@", "eyJ.", "user-1", " ", "http://", "C:\\a ",
        "\n", "0-", "Mon ", "commit ", "x-request-id:", "projects/a/", "aB1+", "arn:aws:", "$1,", "$HOME/", "en-",
        "Asia/", "A1a/", "i-0",
    ]:  # fmt: skip
        text = unit * (1_000_000 // len(unit))
        started = time.process_time()
        middle = len(text) // 2
        classify_in(text, middle, middle + 2)
        classify_in(text, 0, len(text) - 5)
        assert classify(text) == OTHER
        classify(text[:4095] + "!")
        # a quadratic pattern takes minutes here; the bound only tells the two apart
        assert time.process_time() - started < 5


COSMETIC = [
    ("a\nb", "a\r\nb", ["line_endings"]), ("a", "\ufeffa", ["bom"]), ("a\nb", "a \nb", ["trailing_space"]),
    ("a", "a\n", ["final_newline"]), ("caf\u00e9", "cafe\u0301", ["unicode_form"]), ("ab", "a\u200bb", ["invisible"]),
    ("a b", "a\u00a0b", ["space_kind"]), ("a b", "a   b", ["whitespace"]),
    ("a\nb", "\ufeffa\r\nb", ["bom", "line_endings"]), ("a", "b", []), ("a", "a", []), ("a b", "ab", []),
]  # fmt: skip


def test_cosmetic_differences_are_named_by_the_mildest_cause() -> None:
    for a, b, keys in COSMETIC:
        needed = cosmetic(a, b)
        assert [one.kind.key for one in needed] == keys
        assert not needed or normalized(a, needed) == normalized(b, needed)
        assert {one.kind.code for one in needed} <= {"KV121"}


@given(st.text("a\u0435e\u0301\u200b\ufeff \u00a0\t\r\n\uff76\uff9e\ufe70\u2026-", max_size=12))
def test_texts_that_look_the_same_begin_with_the_same_word(text: str) -> None:
    assert first_word(text) == next(iter(normalized(text, NORMALIZERS).split()), "")


PIECES = [
    "commit deadbee", "at 12:30 pm", "2026-01-05 08:00", "5 January 2026", "Mon, 05 Jan 2026 08:00:00 GMT",
    "x-request-id: abcd-1", "United States", "traceparent=00-a", "C:\\Users\\me x", "$ 12.50", "12 EUR", "USD",
    "Jan 5", "May 2026", "on Monday", "hello", "v1.2", "step3", "/usr/lib/x", "٣:٣٠", "de_DE", "二〇二六年一月五日", "三点半",
    "eyJhbGciOiJIUzI.eyJzdWIi", "ada@example.org", "$HOME/notes", "~/notes", "Europe/Lisbon", "UTC",
    "AKIAIOSFODNNEXAMPLEX", "arn:aws:s3:::bucket/key", "i-deadbeef", "deadbeef-dead-beef-dead-beefdeadbeef",
    "Portuguese", "Lars",
]  # fmt: skip


def found_by_all(line: str, start: int, stop: int) -> tuple[str, int, int] | None:
    """What the first of all detectors finds that holds a range, asked for all of the line; names of weekdays are of one word."""
    for kind, pattern in DETECTORS:
        weekday = isinstance(pattern, DateForm) and pattern.sort == "weekday"
        word = (line.rfind(" ", 0, start) + 1, line.find(" ", stop) % (len(line) + 1))
        for match in pattern.finditer(line, *(word if weekday else (0, len(line)))):
            low, high = value_span(match)
            if low <= start and stop <= high:
                return kind.name, low, high
    return None


@given(st.lists(st.sampled_from(PIECES), max_size=16), st.integers(0, 240), st.integers(0, 40))
def test_a_detector_that_is_passed_over_would_find_nothing(pieces: list[str], start: int, length: int) -> None:
    line = plain_signs(" ".join(pieces))
    start = min(start, len(line))
    stop = min(start + length, len(line))
    line = line[: stop + 256]
    kind, low, high = classify_in(line, start, stop)
    found = found_by_all(line, start, stop)
    assert (None if kind is OTHER else (kind.name, low, high)) == found


@given(st.lists(st.sampled_from(PIECES), max_size=5), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20))))
def test_what_was_asked_before_changes_no_answer(pieces: list[str], asked: list[tuple[int, int]]) -> None:
    line = " ".join(pieces)
    places = [(min(start, len(line)), min(start + length, len(line))) for start, length in asked]
    found = [classify_in(line, *place) for place in places]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_detected", module._detected.__wrapped__)
        assert [classify_in(line, *place) for place in places] == found


def _around(sequence: Any) -> int:
    """The most characters that a part of a pattern looks at ahead or behind."""
    looked = [what[1].getwidth()[1] for kind, what in sequence if str(kind) in ("ASSERT", "ASSERT_NOT")]
    inside = [
        _around(each)
        for _, what in sequence
        for part in (what if isinstance(what, tuple) else ())
        for each in (part if isinstance(part, list) else [part])
        if isinstance(each, parser.SubPattern)
    ]
    return max([0, *looked, *inside])


def test_no_value_reaches_further_than_it_is_looked_for() -> None:
    for detector in module._IN_ORDER:
        if isinstance(detector.pattern, DateForm) or detector.reach in (0, module.MAX_VALUE):
            continue
        parsed = parser.parse(detector.pattern.pattern, detector.pattern.flags)
        longest = parsed.getwidth()[1] + (-256 if detector.within else _around(parsed))
        assert longest <= detector.reach, (detector.kind, longest)


Fits = Callable[[str], bool]


def _has_one_of(sequence: Any, fits: Fits) -> bool:
    """Whether whatever a parsed pattern matches has a sign that fits, as far as its parts tell by themselves."""
    return any(_part_has(kind, what, fits) for kind, what in sequence)


def _part_has(kind: Any, what: Any, fits: Fits) -> bool:
    name = str(kind)
    if name == "LITERAL":
        return fits(chr(what))
    if name == "RANGE":
        return what[1] - what[0] < 128 and all(map(fits, map(chr, range(what[0], what[1] + 1))))
    if name == "CATEGORY":
        return str(what) == "CATEGORY_DIGIT" and fits("7") and fits("٣")
    if name == "IN":
        return all(_part_has(*each, fits) for each in what)
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return what[0] > 0 and _has_one_of(what[2], fits)
    if name == "SUBPATTERN":
        return _has_one_of(what[3], fits)
    if name == "BRANCH":
        return all(_has_one_of(each, fits) for each in what[1])
    if name == "ASSERT":  # what stands ahead, within the word
        return what[0] > 0 and _has_one_of(what[1], fits)
    return name == "ATOMIC_GROUP" and _has_one_of(what, fits)


def test_what_a_detector_needs_is_in_all_that_it_matches() -> None:
    for kind, pattern, _, _, needed in module._IN_ORDER:
        if needed is None or needed == YEAR or kind.name == "path (Windows)":
            continue
        signs, any_case = re.compile(needed), "(?i" in pattern.pattern

        def fits(sign: str, signs: re.Pattern[str] = signs, any_case: bool = any_case) -> bool:
            return all(map(signs.fullmatch, {sign.lower(), sign.upper()} if any_case else {sign}))

        assert _has_one_of(parser.parse(pattern.pattern, pattern.flags), fits), (kind, needed)


def test_a_date_in_numerals_of_its_own_is_found_on_a_line_without_digits() -> None:
    assert classify_in("今天是二〇二六年一月五日。", 4, 5)[0].key == "date"
