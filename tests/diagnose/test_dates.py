# ruff: noqa: RUF001 - digits and signs of other scripts are meant
"""Dates and times in the words, digits and calendars of many languages; their forms are written by hand, not taken from CLDR."""

from __future__ import annotations

import random
import re
import sys
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.diagnose.dates.calendar_words import calendar_words
from kvtool.diagnose.dates.written import written_in
from kvtool.diagnose.values.ascii_digits import plain_signs
from kvtool.diagnose.values.classify import classify, classify_in
from kvtool.fixes.forms.coarsen import coarsened

DIGITS = {
    "ar": "٠١٢٣٤٥٦٧٨٩",
    "fa": "۰۱۲۳۴۵۶۷۸۹",
    "hi": "०१२३४५६७८९",
    "bn": "০১২৩৪৫৬৭৮৯",
    "th": "๐๑๒๓๔๕๖๗๘๙",
    "my": "၀၁၂၃၄၅၆၇၈၉",
    "wide": "０１２３４５６７８９",
}
MONTHS = {
    "hr": "siječnja veljače ožujka travnja svibnja lipnja srpnja kolovoza rujna listopada studenoga prosinca",
    "ro": "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie decembrie",
    "da": "januar februar marts april maj juni juli august september oktober november december",
    "lt": "sausio vasario kovo balandžio gegužės birželio liepos rugpjūčio rugsėjo spalio lapkričio gruodžio",
    "bg": "януари февруари март април май юни юли август септември октомври ноември декември",
    "ka": "იანვარი თებერვალი მარტი აპრილი მაისი ივნისი ივლისი აგვისტო სექტემბერი ოქტომბერი ნოემბერი დეკემბერი",
    "ca": "gener febrer març abril maig juny juliol agost setembre octubre novembre desembre",
    "sw": "Januari Februari Machi Aprili Mei Juni Julai Agosti Septemba Oktoba Novemba Desemba",
    "ta": "ஜனவரி பிப்ரவரி மார்ச் ஏப்ரல் மே ஜூன் ஜூலை ஆகஸ்ட் செப்டம்பர் அக்டோபர் நவம்பர் டிசம்பர்",
    "ur": "جنوری فروری مارچ اپریل مئی جون جولائی اگست ستمبر اکتوبر نومبر دسمبر",
    "sk": "januára februára marca apríla mája júna júla augusta septembra októbra novembra decembra",
    "is": "janúar febrúar mars apríl maí júní júlí ágúst september október nóvember desember",
}  # fmt: skip
"""Languages that no example in the code names."""


def in_digits(script: str, text: str) -> str:
    return text.translate({ord(str(at)): digit for at, digit in enumerate(DIGITS[script])})


MOMENTS = st.integers(0, 40_000_000).map(lambda minutes: datetime(1960, 1, 1) + timedelta(minutes=minutes))


def covers(line: str, value: str) -> bool:
    """Whether any part of a value in a line is named as a time, and nothing beyond the value taken with it."""
    start = line.index(value)
    stop = start + len(value)
    for low, high in ((start, stop), (start, start + 1)):
        kind, first, last = classify_in(line, low, high)
        if kind.code != KV101.code or first < start or last > stop:
            return False
    return True


@given(MOMENTS, st.sampled_from(sorted(MONTHS)), st.integers(0, 4))
def test_a_day_and_a_month_in_words_are_a_date(at: datetime, language: str, form: int) -> None:
    month = MONTHS[language].split()[at.month - 1]
    value = (
        f"{at.day} {month} {at.year}",
        f"{at.day}. {month} {at.year}, {at:%H:%M}",
        f"{at.year} {month} {at.day}",
        f"{at.day} de {month} de {at.year}",
        f"{month} {at.day}, {at.year}",
    )[form]
    assert covers(f"@@ {value} @@", value)


@given(MOMENTS, st.sampled_from(sorted(DIGITS)), st.integers(0, 3))
def test_digits_of_every_script_are_digits(at: datetime, script: str, form: int) -> None:
    value = in_digits(
        script,
        (f"{at.day}/{at:%m}/{at.year}", f"{at:%Y-%m-%d %H:%M}", f"{at:%H:%M:%S}", f"{at:%Y-%m-%dT%H:%M:%S}")[form],
    )
    assert covers(f"({value})", value)


@given(MOMENTS, st.sampled_from(("buddhist", "persian", "hijri", "reiwa", "minguo", "korean", "chinese", "vietnamese")))
def test_calendars_and_scripts_without_blanks(at: datetime, which: str) -> None:
    h12 = at.hour % 12 or 12
    value = {
        "buddhist": f"{at.day}/{at.month}/{at.year + 543}",
        "persian": in_digits("fa", f"{at.year - 621}/{at.month}/{min(at.day, 29)}"),
        "hijri": f"{min(at.day, 29)} رمضان {1380 + at.year % 80} هـ",
        "reiwa": f"令和{1 + at.year % 30}年{at.month}月{at.day}日",
        "minguo": f"民國{at.year - 1911}年{at.month}月{at.day}日",
        "korean": f"{at.month}월 {at.day}일 {'오전' if at.hour < 12 else '오후'} {h12}시 {at.minute}분",
        "chinese": f"{'上午' if at.hour < 12 else '下午'}{h12}点{at.minute}分",
        "vietnamese": f"{at.day} tháng {at.month} năm {at.year}",
    }[which]
    found = [(sort, plain[low:high]) for plain in [plain_signs(f"[{value}]")] for sort, low, high in written_in(plain)]
    assert found, value
    assert all(sort in ("date", "timestamp", "clock") for sort, _ in found)


def test_forms() -> None:
    for text, key in [
        ("2026年3月4日 9時13分", "timestamp"), ("令和8年3月4日 午後1時5分", "timestamp"), ("二〇二六年三月四日", "date"),
        ("오후 1시 20분", "clock"), ("٤/٠٣/٢٠٢٦", "date"), ("٤\u200f/٣\u200f/٢٠٢٦", "date"), ("4. März 2026", "date"),
        ("mercredi 4 mars", "date"), ("le 4 mars", "other"), ("среда, 4 марта 2026", "date"),
        ("วันพุธที่ 4 มีนาคม พ.ศ. 2569", "date"), ("4. фебруара", "date"), ("9 Uhr", "clock"), ("9h13", "clock"),
        ("1 PM", "clock"), ("04.03.26", "date"), ("水曜日", "weekday"), ("Mittwoch", "weekday"), ("2026-W10-3", "date"),
    ]:  # fmt: skip
        assert classify(text).key == key


def test_what_is_no_time() -> None:
    """Relative words, counts, durations, telephone numbers."""
    for text in [
        "tomorrow", "gestern", "昨日", "Answer in 4 sentences.", "see table 7 so far", "3 to 5",
        "Section 12 of the act", "2 h", "rated 9点", "+49 30 12 34 56", "555-0134-2299", "4 die 3", "turn 3 de 12",
        "1 mar", "10.0.0.1", "max 5 items", "4 of 7", "13,50", "Mars", "May", "№ 12", "第3章", "3人", "7時間", "2시간",
        "100%", "v1.2",
    ]:  # fmt: skip
        assert not [found for found in written_in(plain_signs(text)) if found.sort != "weekday"]


def test_a_row_does_not_take_the_number_before_it() -> None:
    assert [line[low:high] for line in ["item 5, 4 mars 2026"] for _, low, high in written_in(line)] == ["4 mars 2026"]


def test_plain_signs_stand_at_their_places() -> None:
    chance = random.Random(3)
    for _ in range(200):
        text = "".join(chance.choice("a1٤۴४৪๔４／：٫\u00a0月é\u0301😀") for _ in range(40))
        plain = plain_signs(text)
        assert len(plain) == len(text)
        assert all(one == other or not re.match(r"[a月é]", one) for one, other in zip(text, plain, strict=True))


def test_a_clock_in_other_digits_is_coarsened_in_them() -> None:
    assert coarsened("٩:١٣", "hour") == "٩:٠٠"
    assert coarsened("4 मार्च २०२६, ९:१३", "day") == "4 मार्च २०२६, ०:००"


def test_the_packed_words_are_those_of_many_languages() -> None:
    words = calendar_words()
    for line in MONTHS.values():
        assert sum(words.get(word.casefold()) == "month" for word in line.split()) >= 11, line
    assert {words[each] for each in ("mercredi", "среда", "水曜日")} == {"weekday"}
    assert words["오후"] == words["午後"] == words["शाम"] == "period"


def test_hostile_rows_cost_what_they_are_long() -> None:
    """Counted in looked up words: none is asked for again and again."""
    for unit in ("de ", "1/", "3月", "日", "4 mars ", "1 de ", "9時", "มีนาคม", "٤/"):
        found = written_in(plain_signs(unit * 20_000))
        assert len(found) <= 20_000


def test_a_dotted_clock_is_one_with_its_day() -> None:
    for text, part, whole in [
        ("Kello on nyt 7.05, keskiviikkona 4.11. Halli", "05", "7.05, keskiviikkona 4.11"),
        ("I dag er det fredag den 4.12. kl. 17.40.", "40", "fredag den 4.12. kl. 17.40"),
        ("Es ist Dienstag, der 1.12., 9.55 Uhr.", "1.", "Dienstag, der 1.12., 9.55 Uhr"),
        ("Oggi, martedì 1.12, ore 8.30, apre", "30", "martedì 1.12, ore 8.30"),
        ("現在九時十七分です", "七", "九時十七分"),
        ("เวลา ๑๓.๐๙ น. วันนี้", "๐๙", "๑๓.๐๙"),
    ]:
        start = text.index(part)
        kind, low, high = classify_in(text, start, start + len(part))
        assert (kind.code, text[low:high]) == (KV101.code, whole)


def test_other_numbers_are_no_clock() -> None:
    for text, part in [
        ("Es kostet am Donnerstag 7.50 Euro.", "7.50"),
        ("Torstaina saa 6.50 euroa takaisin.", "6.50"),
        ("The plan of chapter 12.30 holds.", "12.30"),
        ("Version 26.11 is out.", "26.11"),
        ("请提出三点建议。", "三点"),
    ]:
        start = text.index(part)
        assert classify_in(text, start, start + len(part))[0].code != KV101.code


AGES = {
    "en": ["2 min ago", "3 hours ago", "1 day ago", "5 minutes earlier"],
    "de": ["vor 2 Stunden", "vor 3 Min."],
    "fr": ["il y a 5 minutes", "il y a 2 h"],
    "es": ["hace 2 horas"],
    "pt": ["há 3 dias", "2 horas atrás"],
    "it": ["2 ore fa"],
    "nl": ["3 uur geleden"],
    "pl": ["2 godziny temu"],
    "da": ["for 2 timer siden"],
    "sv": ["för 3 dagar sedan"],
    "fi": ["2 tuntia sitten"],
    "ru": ["5 минут назад"],
    "uk": ["3 години тому"],
    "tr": ["2 saat önce"],
    "id": ["5 menit yang lalu"],
    "vi": ["3 phút trước"],
    "zh": ["5分钟前", "3 小時前", "2天之前"],
    "ja": ["5分前", "3時間前"],
    "ko": ["5분 전", "3시간전"],
    "th": ["5 นาทีที่แล้ว"],
    "ar": ["منذ ٣ ساعات", "قبل 2 دقائق"],
    "he": ["לפני 3 שעות"],
    "el": ["πριν από 2 ώρες"],
    "cs": ["před 2 hodinami"],
    "ro": ["acum 2 ore"],
    "hu": ["2 napja ezelőtt"],
}


def test_how_long_ago_something_was() -> None:
    for language in AGES:
        for age in AGES[language]:
            text = f"[{age}] Hello"
            at = next(place for place, sign in enumerate(text) if sign.isdigit())
            found, *_ = classify_in(text, at, at + 1)
            assert (found.key, found.code) == ("age", "KV101"), age


def test_other_lengths_of_time_are_no_ages() -> None:
    for text in ["2 min", "3 hours later", "Answer in 3 days", "5 people waiting", "page 3 of 7"]:
        at = next(place for place, sign in enumerate(text) if sign.isdigit())
        assert classify_in(text, at, at + 1)[0].key != "age"


def test_no_part_of_a_word_is_one_where_blanks_part_words() -> None:
    """A sign that says `morning` alone is a letter of other words: `فصل` is a chapter."""
    for text in ["فصل 4", "بخش 12 از فصل 3", "شماره 7 متصل 5", "פרק 4", "אחרי 7 פרקים"]:
        at = next(place for place, sign in enumerate(text) if sign.isdigit())
        assert classify_in(text, at, at + 1)[0].code != "KV101"


def test_a_sign_that_is_a_digit_and_no_number_is_no_part_of_a_date() -> None:
    for sign in filter(lambda each: each.isdigit() and not each.isdecimal(), map(chr, range(sys.maxunicode))):
        assert classify_in(f"on {sign} March {sign}\u65e5", 3, 4)[0].code != KV101.code, sign
