"""Clocks as prompts write them: languages, digits and calendars."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from scenarios.values import CLOCK

_DIGITS = {
    "arabic": "٠١٢٣٤٥٦٧٨٩",
    "persian": "۰۱۲۳۴۵۶۷۸۹",
    "hindi": "०१२३४५६७८९",
    "bengali": "০১২৩৪৫৬৭৮৯",
    "thai": "๐๑๒๓๔๕๖๗๘๙",
    "wide": "０１２３４５６７８９",
}
_MONTHS = {
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "uk": "січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня",
    "pl": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
    "cs": "ledna února března dubna května června července srpna září října listopadu prosince",
    "tr": "Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık",
    "fi": "tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta "
    "lokakuuta marraskuuta joulukuuta",
    "sv": "januari februari mars april maj juni juli augusti september oktober november december",
    "hu": "január február március április május június július augusztus szeptember október november december",
    "id": "Januari Februari Maret April Mei Juni Juli Agustus September Oktober November Desember",
    "el": "Ιανουαρίου Φεβρουαρίου Μαρτίου Απριλίου Μαΐου Ιουνίου Ιουλίου Αυγούστου Σεπτεμβρίου Οκτωβρίου Νοεμβρίου Δεκεμβρίου",
    "he": "בינואר בפברואר במרץ באפריל במאי ביוני ביולי באוגוסט בספטמבר באוקטובר בנובמבר בדצמבר",
    "hi": "जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर",
    "bn": "জানুয়ারি ফেব্রুয়ারি মার্চ এপ্রিল মে জুন জুলাই আগস্ট সেপ্টেম্বর অক্টোবর নভেম্বর ডিসেম্বর",
    "th": "มกราคม กุมภาพันธ์ มีนาคม เมษายน พฤษภาคม มิถุนายน กรกฎาคม สิงหาคม กันยายน ตุลาคม พฤศจิกายน ธันวาคม",
    "ar": "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
}
_DAYS = {
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "es": "lunes martes miércoles jueves viernes sábado domingo",
    "ja": "月 火 水 木 金 土 日",
    "ko": "월 화 수 목 금 토 일",
    "zh": "一 二 三 四 五 六 日",
}
_HOURS = ("twelve", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven")


def _in(digits: str, text: str) -> str:
    return text.translate({ord(str(at)): digit for at, digit in enumerate(_DIGITS[digits])})


def _month(language: str, at: datetime) -> str:
    return _MONTHS[language].split()[at.month - 1]


def _day(language: str, at: datetime) -> str:
    return _DAYS[language].split()[at.weekday()]


def _words(at: datetime) -> str:
    part = ("just after", "a quarter past", "half past", "ten minutes past")[at.minute // 15]
    return f"{part} {_HOURS[at.hour % 12]} on the {at.day}{'th' if 3 < at.day < 21 else ''} of {at:%B}"


def _korean(at: datetime) -> str:
    half = "오전" if at.hour < 12 else "오후"
    return f"{at.year}년 {at.month}월 {at.day}일 {half} {at.hour % 12 or 12}시 {at.minute}분"


Form = tuple[str, Callable[[datetime], str]]
FORMS: dict[str, Form] = {
    "ja": ("現在の時刻: {}", lambda t: f"{t.year}年{t.month}月{t.day}日 {t.hour}時{t.minute}分"),
    "ja era": ("本日は{}です。", lambda t: f"令和{t.year - 2018}年{t.month}月{t.day}日({_day('ja', t)})"),
    "ja wide": ("日時:{}", lambda t: _in("wide", f"{t.year}年{t.month}月{t.day}日{t.hour}時")),
    "ko": ("지금은 {}입니다.", _korean),
    "ko day": ("오늘: {}", lambda t: f"{t.month}월 {t.day}일 {_day('ko', t)}요일"),
    "zh": ("当前时间:{}", lambda t: f"{t.year}年{t.month}月{t.day}日 星期{_day('zh', t)} {t:%H:%M}"),
    "zh roc": ("今天是{}。", lambda t: f"民國{t.year - 1911}年{t.month}月{t.day}日"),
    "zh spoken": ("现在是{},请据此回答。", lambda t: f"{'上午' if t.hour < 12 else '下午'}{t.hour % 12 or 12}点{t.minute}分"),
    "ar": ("الوقت الحالي: {}", lambda t: _in("arabic", f"{t.day}/{t:%m}/{t.year} {t:%H:%M}")),
    "ar words": ("اليوم هو {}.", lambda t: _in("arabic", f"{t.day} ") + _month("ar", t) + _in("arabic", f" {t.year}")),
    "fa": ("اکنون {} است.", lambda t: _in("persian", f"{t.year - 621}/{t.month}/{t.day} {t:%H:%M}")),
    "hi": ("अभी का समय: {}", lambda t: _in("hindi", f"{t.day} {_month('hi', t)} {t.year}, {t:%H:%M}") + " बजे"),
    "bn": ("আজ {}।", lambda t: _in("bengali", f"{t.day} {_month('bn', t)} {t.year}")),
    "th": ("ขณะนี้ {}", lambda t: f"{t.day} {_month('th', t)} {t.year + 543} เวลา {t:%H:%M} น."),
    "th digits": ("วันที่ {}", lambda t: _in("thai", f"{t.day}/{t.month}/{t.year + 543}")),
    "de": ("Heute ist {} Uhr.", lambda t: f"{_day('de', t)}, der {t.day}. {_month('de', t)} {t.year}, {t.hour}:{t:%M}"),
    "de short": ("Stand: {}", lambda t: f"{t.day:02}.{t.month:02}.{t.year}"),
    "fr": ("Nous sommes le {}.", lambda t: f"{_day('fr', t)} {t.day} {_month('fr', t)}, il est {t.hour} h {t:%M}"),
    "es": ("Hoy es {}.", lambda t: f"{_day('es', t)}, {t.day} de {_month('es', t)} de {t.year}"),
    "pt": ("Agora são {}.", lambda t: f"{t:%H}h{t:%M} de {t.day} de {_month('pt', t)} de {t.year}"),
    "it": ("Oggi è il {}.", lambda t: f"{t.day} {_month('it', t)} {t.year}, ore {t.hour}.{t:%M}"),
    "nl": ("Het is nu {} uur.", lambda t: f"{t.day} {_month('nl', t)} {t.year}, {t.hour}.{t:%M}"),
    "sv": ("Just nu: {}", lambda t: f"{t.day} {_month('sv', t)} {t.year} kl. {t.hour}.{t:%M}"),
    "fi": ("Nyt on {}.", lambda t: f"{t.day}. {_month('fi', t)} {t.year} klo {t.hour}.{t:%M}"),
    "ru": ("Сейчас {}.", lambda t: f"{t.day} {_month('ru', t)} {t.year} г., {t.hour}:{t:%M}"),
    "uk": ("Зараз {}.", lambda t: f"{t.day} {_month('uk', t)} {t.year} року, {t:%H:%M}"),
    "pl": ("Dziś jest {}.", lambda t: f"{t.day} {_month('pl', t)} {t.year}, godz. {t.hour}:{t:%M}"),
    "cs": ("Dnes je {}.", lambda t: f"{t.day}. {_month('cs', t)} {t.year}"),
    "tr": ("Şu an {}.", lambda t: f"{t.day} {_month('tr', t)} {t.year}, saat {t:%H:%M}"),
    "hu": ("Ma {} van.", lambda t: f"{t.year}. {_month('hu', t)} {t.day}., {t.hour}:{t:%M}"),
    "id": ("Sekarang {}.", lambda t: f"{t.day} {_month('id', t)} {t.year} pukul {t:%H}.{t:%M}"),
    "vi": ("Bây giờ là {}.", lambda t: f"{t.hour} giờ {t.minute} phút, ngày {t.day} tháng {t.month} năm {t.year}"),
    "el": ("Τώρα είναι {}.", lambda t: f"{t.day} {_month('el', t)} {t.year}, {t:%H:%M}"),
    "he": ("עכשיו {}.", lambda t: f"{t.day} {_month('he', t)} {t.year}, {t:%H:%M}"),
    "en words": ("It is {}.", _words),
    "iso week": ("Planning week: {}", lambda t: f"{t:%G-W%V-%u}"),
    "epoch": ("now={}", lambda t: str(int(t.timestamp()))),
    "epoch ms": ("ts: {}", lambda t: str(int(t.timestamp() * 1000) + t.day)),
    "mail": ("Date: {}", lambda t: f"{t:%a, %d %b %Y %H:%M:%S} +0000"),
    "day of year": ("Today is {}.", lambda t: f"day {t.timetuple().tm_yday} of {t.year}"),
    "compact": ("stamp {}", lambda t: f"{t:%Y%m%dT%H%M%SZ}"),
    "log": ("[{}] session opened", lambda t: f"{t:%d/%b/%Y:%H:%M:%S +0000}"),
}  # fmt: skip
"""Of a language or notation: the line, and how it writes a time."""
CODES = CLOCK
