"""Blacking out: planted secrets never survive, other text is left alone, and it takes linear time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvtool.text.redact import redact_marked

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def redact(text: str) -> str:
    return redact_marked(text, 0, 0)[0]


def chars(alphabet: str, least: int, most: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=least, max_size=most)


def after(prefix: str, least: int, most: int, alphabet: str = LETTERS) -> st.SearchStrategy[str]:
    return chars(alphabet, least, most).map(lambda rest: prefix + rest)


def card(digits: list[int]) -> str:
    """A number of sixteen digits that begins with 4 and ends with its check digit (ISO/IEC 7812-1)."""
    body = [4, *digits]
    doubled = [2 * digit - 9 * (digit > 4) for digit in body[::-2]]
    return "".join(map(str, [*body, -(sum(doubled) + sum(body[-2::-2])) % 10]))


BASE64 = LETTERS + "-_"
SECRETS = st.one_of(
    after("sk-", 20, 60, BASE64),
    after("sk-proj-", 20, 150, BASE64),
    after("sk-ant-api03-", 20, 100, BASE64),
    after("AKIA", 16, 16, UPPER),
    after("ghp_", 36, 36),
    after("github_pat_", 40, 80),
    after("glpat-", 20, 20),
    after("AIza", 35, 35),
    after("xoxb-", 20, 60),
    after("xapp-1-", 20, 60),
    after("sk_live_", 24, 24),
    after("rk_test_", 24, 24),
    after("whsec_", 32, 32),
    after("hf_", 34, 34),
    after("npm_", 36, 36),
    st.tuples(*[chars(BASE64, 20, 60)] * 3).map(lambda parts: "eyJ" + parts[0] + ".eyJ" + parts[1] + "." + parts[2]),
    st.tuples(chars(LETTERS, 1, 20), chars(LETTERS, 1, 20)).map(lambda parts: f"{parts[0]}@{parts[1]}.example.com"),
    st.lists(st.integers(0, 9), min_size=14, max_size=14).map(card),
    st.lists(st.integers(0, 9), min_size=7, max_size=9).map(lambda tail: "+49 30 " + "".join(map(str, tail))),
)
WORDS = st.lists(
    st.sampled_from(
        [
            "You",
            "are",
            "the",
            "agent",
            "of",
            "Acme:",
            "answer",
            "in",
            "3",
            "lines,",
            "40%",
            "shorter",
            "than",
            "1,078,400",
            "tokens;",
            "see",
            "(a)",
            "or",
            "b-c.",
        ]
    ),
    max_size=8,
).map(" ".join)


@given(before=WORDS, secret=SECRETS, behind=WORDS, space=st.sampled_from([" ", "\n", ", ", '"', ": "]))
def test_planted_secrets_never_survive(before: str, secret: str, behind: str, space: str) -> None:
    text = redact(f"{before}{space}{secret} and {behind}")
    assert secret not in text
    assert "[redacted " in text
    assert text.endswith(f" and {behind}")
    assert not any(secret[at : at + 12] in text for at in range(len(secret) - 11))


@given(
    name=st.sampled_from(
        ["password", "DB_PASSWORD", "api_key", "apiKey", "client-secret", "auth_token", "PASSWD", "secret_access_key"]
    ),
    sign=st.sampled_from([": ", "=", " = ", '": "', "': '", '\\": \\"', " := ", "=> "]),
    value=chars(LETTERS + "!@#$%^&*+/-_~", 6, 40).filter(lambda text: any(char in LETTERS[:52] for char in text)),
    behind=WORDS,
)
def test_assigned_secrets_never_survive(name: str, sign: str, value: str, behind: str) -> None:
    opening = {'": "': '"', "': '": "'", '\\": \\"': '\\"'}.get(sign, "")
    text = redact(f"{opening}{name}{sign}{value}{opening} \n{behind}").replace("[redacted secret]", "")
    stand_in = (
        value.lower() in ("string", "optional", "required")
        or value.startswith(("${", "$("))
        or set(value.lower()) == {"x"}
    )
    assert stand_in or value[:-1] not in text or len(value) < 2


@given(st.lists(WORDS, max_size=4).map("\n".join))
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert redact(text) == text
    assert redact_marked(text, 0, len(text)) == (text, 0, len(text))


def test_what_only_resembles_is_left() -> None:
    for text in [
        "Now: {{ now }}. You are the support agent for Acme.",
        "api_key: {{ key }}, password=${PASSWORD} token=<your token>",
        "max_tokens: 512, tokens: 42, tokenizer: tekken",
        "2026-11-20 10:15:01, 20.11.2026, 127.0.0.1, 1.2.3.4.5, 01-02-2026",
        "The secret: never give up. A secretary: Jane.",
        "the password is required to sign in",
        "id 0190f3c2-7b1e-7c3a-9d1f-2b6d1f3a4c5e, sha256 9f86d081884c7d659a2feaa0c55ad015",
        "12345678, 1,234,567.89, 4111 1111 1111 1112, +5 pts, +12.5%",
        "https://acme.io/a:b/c and a@b, @home",
        '{"password": null, "token": true, "api_key": ""}',
    ]:
        assert redact(text) == text


def test_what_it_is_replaced_by() -> None:
    for text, expected in [
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted key]"),
        ("postgres://app:p4ss@db/main", "postgres://[redacted login]@db/main"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nrest", "[redacted key]\nrest"),
        ("-----BEGIN RSA PRIVATE KEY-----\\nMIIEow", "[redacted key]"),
        ("x\n" + "aB3+" * 16 + "\ny", "x\n[redacted key]\ny"),
        ("mail jané.doe@müller.de now", "mail [redacted email] now"),
        ("call (212) 555-0147 or 020 7946 0958", "call [redacted phone] or [redacted phone]"),
        ("pay with 4111 1111 1111 1111.", "pay with [redacted card]."),
        ("passphrase: correct horse battery staple", "passphrase: [redacted secret]"),
        ('env["API_KEY"]="q1"', 'env["API_KEY"]="[redacted secret]"'),
        ('password="a\\"b", next', 'password="[redacted secret]", next'),
        ("my password is swordfish.", "my password is [redacted secret]."),
        ("IBAN DE89 3704 0044 0532 0130 00", "IBAN [redacted IBAN]"),
    ]:
        assert redact(text) == expected
        assert redact(expected) == expected


@given(
    pieces=st.lists(st.one_of(WORDS, st.just("a@b.io"), st.just("sk-" + "aB3" * 10)), max_size=6),
    data=st.data(),
)
def test_the_marked_range_goes_along(pieces: list[str], data: st.DataObject) -> None:
    text = " | ".join(pieces)
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    after_text, first, last = redact_marked(text, start, stop)
    assert 0 <= first <= last <= len(after_text)
    marked = text[start:stop]
    if "@" not in text and "sk-" not in text:
        assert after_text[first:last] == marked
    if redact(text[:start]) + redact(marked) + redact(text[stop:]) == after_text:  # nothing is cut in two
        assert after_text[first:last] == redact(marked)


def test_a_range_in_a_secret_takes_in_all_of_it() -> None:
    text = f"key sk-{'aB3' * 10} end"
    assert redact_marked(text, 10, 12) == ("key [redacted key] end", 4, 18)
    assert redact_marked(text, 0, 3) == ("key [redacted key] end", 0, 3)
    assert redact_marked(text, 38, 41) == ("key [redacted key] end", 19, 22)


def test_hostile_text_is_read_to_its_end() -> None:
    for piece in [
        'password="',
        "password=",
        "password={{",
        "-----BEGIN A-----",
        "Bearer ",
        "+1 ",
        "://a:",
        "0123 ",
        "@a.",
        "token",
        "\\",
    ]:
        assert isinstance(redact(piece * (300_000 // len(piece))), str)
