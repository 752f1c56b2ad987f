# ruff: noqa: RUF001 - letters of other alphabets are meant
"""A slot named by all of its values, and by the words beside them."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.slots import Frame
from kvtool.diagnose.values.classify import classify
from kvtool.diagnose.values.labels import kind_by_label, kind_of_label, kind_of_variable, label_before, shared_label
from kvtool.diagnose.values.slot_values import SlotValues, kind_in_urls
from kvtool.diagnose.values.value_shapes import shape_of

ALPHABETS = (
    "0123456789abcdef",
    string.ascii_lowercase,
    string.ascii_uppercase + "23456789",
    string.ascii_letters + string.digits,
)
WORDS = (
    *("harbour", "lantern", "meadow", "orchard", "thicket", "granite", "whisper"),
    *("current", "problem", "chapter", "balance", "teacher", "journal", "kitchen"),
)


def resolved(values: list[str], label: str = "") -> tuple[str, float]:
    slot = SlotValues()
    for number, value in enumerate(values):
        slot.add(value, classify(value), label, str(number), absent=False)
    found = slot.resolve(None, constant_within=False)
    return found.kind.code, found.confidence


@pytest.mark.parametrize("sign", [",", "."])
def test_a_count_in_groups_of_three_digits_is_one(sign: str) -> None:
    assert resolved([f"{1_996 + number:,}".replace(",", sign) for number in range(16)])[0] == "KV105"


@given(
    st.integers(0, 10**9),
    st.sampled_from(ALPHABETS),
    st.integers(8, 24),
    st.sampled_from(("{}", "data-{}", "<{}]]…[[/{}>", "k {} x")),
)
def test_random_ids_of_any_alphabet(seed: int, alphabet: str, length: int, form: str) -> None:
    chance = random.Random(seed)
    ids = ["".join(chance.choices(alphabet, k=length)) for _ in range(16)]
    assert resolved([form.replace("{}", each) for each in ids])[0] == "KV102"


@given(st.integers(0, 10**9), st.integers(1, 9))
def test_words_are_no_random_ids(seed: int, count: int) -> None:
    """Words of one length, and sentences of them: text that varies."""
    chance = random.Random(seed)
    assert resolved([" ".join(chance.choices(WORDS, k=count)) for _ in range(16)])[0] == "KV201"


def test_shapes() -> None:
    for values, code in [
        ("main|feature/cart|fix/login-2|release/2026.3", "KV106"),
        ("web-7f9c6bd5d4-x2x8k|web-7f9c6bd5d4-9qk2z|web-6c4d8f9b7c-bb5tw", "KV106"),
        ("db-1.eu.internal|db-2.us.internal|cache-4.eu.internal", "KV106"),
        ("node=web-03.prod|node=api-2.eu-west|node=runner-77", "KV106"),
        ("gpt-4o|claude-3-5-sonnet|gpt-4.1-mini", "KV105"),
        ("12,345|11,020|9,871|8,400|7,012|6,440|4,100|3,333", "KV105"),
        ("INV-1201|INV-7713|INV-2210|INV-9034", "KV201"),
        ("well-known|long-term|open-source|in-house", "KV201"),
        ("Ada asks why|Bob asks how|Cy asks when", "KV201"),
        ("$12.99|$14.50|$9.00|$18.20", "KV201"),
        ("2026.3.7-rc2|2026.4.1-rc1|2026.4.19-beta.3", "KV105"),
        ("DKER-DCNN-GWKK|EFDY-NCTW-WXTN|BADS-GWTB-VAYB|RUUP-SEHA-JZWM|QWMX-TRLP-ZZKD|HNBV-CDFG-PLKM", "KV102"),
        ("LONG-TERM-PLAN|OPEN-CASE-FILE|LATE-NOTE-ITEM|NEAR-AREA-CODE|EACH-IDEA-USED|REAL-TIME-BASE", "KV201"),
        ("main|wip-parser|rel-4|feat/cart", "KV106"),
        ("in-house|well-known|and/or|long-term", "KV201"),
        ("二〇二六年三月四日九点十五分|二〇二六年三月五日十点半|二〇二六年四月十二日三点〇五分", "KV101"),
        ("+49 (30) 3848219|+44 20 7946 0018|+1 555 010 9999", "KV104"),
    ]:
        assert resolved(values.split("|"))[0] == code


def test_what_the_label_says_of_the_same_shape() -> None:
    for values, label, code in [
        ("1760000417|1760000430|1760000443|1760000456|1760000469|1760000482|1760000495", "Vermerk", "KV105"),
        ("1760000417|1760000430|1760000443|1760000456|1760000469|1760000482|1760000495", "Server clock", "KV101"),
        ("1760000417|1760000430|1760000443|1760000456|1760000469|1760000482|1760000495", "seen_at", "KV101"),
        ("1760000417|1760003999|1760009000|1760012345|1760020000|1760020001|1760030303", "", "KV101"),
        ("1760000417|1712003999|1760009000|1762012345", "Ticket number", "KV102"),
        ("2026.1.1|2026.2.4|2026.3.7", "App release", "KV105"),
        ("2026.1.1|2026.2.4|2026.3.7", "Datum", "KV101"),
        ("Leeds|York|Hull|Bath", "Branch", "KV104"),
        ("main|fix|parser|cart", "Branch", "KV106"),
    ]:
        assert resolved(values.split("|"), label)[0] == code


def test_nearly_all_values_must_have_the_shape() -> None:
    chance = random.Random(4)
    ids = [f"{chance.getrandbits(48):012x}" for _ in range(30)]
    assert shape_of([*ids, "deadbeefcafe"]) is not None
    assert shape_of([*ids[:10], "please", "see the note below"]) is None
    assert shape_of([f"zq7xk2mw{number:02}" for number in range(20)]) is None  # alike but for a number
    assert shape_of(["elephant", "mountain", "children", "triangle", "airplane", "computer", "notebook"]) is None


def test_labels_of_many_languages() -> None:
    for line, value, code in [
        ("Kundin: Löhr", "Löhr", "KV104"), ("Benutzer: Özlem", "Özlem", "KV104"),
        ("Пользователь: Анна", "Анна", "KV104"), ("お客様: 佐藤", "佐藤", "KV104"), ("当前用户：李娜", "李娜", "KV104"),
        ("उपयोगकर्ता: अनिता", "अनिता", "KV104"), ("العميل: ليلى", "ليلى", "KV104"),
        ("Répertoire : src", "src", "KV106"), ("Zweig = kasse", "kasse", "KV106"), ("现在的日期：初四", "初四", "KV101"),
        ("Schritt: drei", "drei", "KV105"), ("Modell: atlas", "atlas", "KV105"), ("Hinweis: lang", "lang", None),
        ("Resumen: corto", "corto", None),
    ]:  # fmt: skip
        label = label_before(line, line.index(value))
        kind = kind_of_label(label) if label else None
        assert (kind and kind.code) == code


def test_words_beside_a_short_value() -> None:
    assert [
        kind and kind.code for kind in map(kind_by_label, ("You are talking to", "On branch", "The weather is"))
    ] == [
        "KV104",
        "KV106",
        None,
    ]
    assert shared_label("org=acme", 0, 4) == ("org", 4)
    assert shared_label("Customer: Ms. Ada", 14, 14) == ("Customer", 14)
    assert shared_label("see http://a", 4, 11) is None


def test_a_frame_finds_each_value_and_narrows_to_what_all_have() -> None:
    texts = [f"You help.\n<data-{value}>, {extra}\nRules" for value, extra in (("a1", "now"), ("zz9", "not"))]
    frames = [Frame.around(text, text.index("data-") + 5, text.index(">"), 0, len(text)) for text in texts]
    frame = frames[0].narrowed(frames[1])
    assert frame == Frame("\n<data-", ">, no")
    assert frame.is_specific
    assert frame.value_in("\n<data-whatever>, nobody\n") == (7, 15)
    assert frame.value_in("\nYou help.\n") is None
    assert not Frame("\n", "\n").is_specific


def test_a_frame_begins_with_its_line_where_one_value_begins_before_another() -> None:
    lines = ["You talk with Ms. Ada today.", "You talk with Bo today."]
    titled, plain = Frame("\nYou talk with Ms. ", " today.\n"), Frame("\nYou talk with ", " today.\n")
    frame = titled.narrowed(plain)
    assert frame == plain.narrowed(titled) == plain
    assert [line[slice(*(at - 1 for at in frame.value_in(f"\n{line}\n") or (1, 1)))] for line in lines] == [
        "Ms. Ada",
        "Bo",
    ]
    assert Frame("\nA b c d, seen by ", "\n").narrowed(Frame("\nA b, seen by ", "\n")).before == ", seen by "
    assert not Frame(" ", " x").is_specific
    assert Frame.around("ab12cd", 2, 4, 0, 6) == Frame("\nab", "cd\n")
    assert Frame.around("xx\nab12cd\nyy", 5, 7, 0, 12) == Frame("\nab", "cd\n")


def test_a_word_that_says_when_something_is_so_is_no_time_of_it() -> None:
    for label, code in [
        ("Weather now", "KV201"), ("Погода сейчас", "KV201"), ("Wetter heute", "KV201"), ("User today", "KV104"),
        ("Quote of the day", None), ("of the day", None), ("seats left right now", None), ("Time now", "KV101"),
        ("Right now", "KV101"), ("Today is", "KV101"), ("Heute ist der", "KV101"), ("Текущее время", "KV101"),
        ("day of the week", "KV101"),
    ]:  # fmt: skip
        kind = kind_of_label(label)
        assert (kind and kind.code) == code


@pytest.mark.parametrize("mark", ["<s>[SYSTEM_PROMPT]", "<|start|>", "[/INST]"])
def test_marks_of_a_chat_template_are_no_words_of_a_label(mark: str) -> None:
    text = f"{mark}now=17"
    assert label_before(text, len(text) - 2) == "now"


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=2, max_size=8))
def test_words_of_several_switches_are_flags(rows: list[list[bool]]) -> None:
    values = [", ".join(f'"flag_{at}": {str(each).lower()}' for at, each in enumerate(row))[10:] for row in rows]
    assert resolved(values)[0] == "KV107"
    assert resolved([f"{value}, and more" for value in values])[0] == "KV201"


def test_a_url_is_what_varies_in_it() -> None:
    for form, code in [
        ("https://a.example/t?session={}&lang=de", "KV104"),
        ("https://a.example/users/{}/files", "KV104"),
        ("https://a.example/box/{}/in", "KV102"),
        ("https://a.example/box?q={}", "KV102"),
        ("https://{}.example/box", "KV201"),
    ]:
        chance = random.Random(5)
        ids = ["".join(chance.choices("0123456789abcdef", k=18)) for _ in range(12)]
        assert resolved([form.format(each) for each in ids])[0] == code


@given(st.lists(st.text("ab/?=&.:#", max_size=12), max_size=6))
def test_any_urls_are_read(tails: list[str]) -> None:
    assert kind_in_urls([f"https://a.example/{tail}" for tail in tails]) is None or len(tails) > 1


def test_a_date_in_urls() -> None:
    urls = [f"https://a.example/log/2026-03-{day:02d}/all" for day in range(1, 20)]
    assert resolved(urls)[0] == "KV101"


def test_a_variable_that_varies_is_what_its_noun_says() -> None:
    for name, code in [
        ("company", "KV104"),
        ("company_name", "KV104"),
        ("customer_id", "KV104"),
        ("patient_history", None),
        ("topic", None),
        ("now", "KV101"),
        ("_", None),
    ]:
        kind = kind_of_variable(name)
        assert (kind and kind.code) == code


def test_a_label_in_another_script_says_what_it_names() -> None:
    for label in ["பெயர்", "பெயர்:", "সময়", "नाव"]:
        assert kind_of_label(label) is not None
