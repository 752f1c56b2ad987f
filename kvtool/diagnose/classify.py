"""Names for text that changes from request to request: a timestamp, a UUID, a path.

Detectors only NAME text that is known to vary; that it varies is measured elsewhere. They look at a bounded window with patterns
that do not backtrack over each other, so hostile text costs what plain text costs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MAX_VALUE = 4096
_WINDOW = 256


@dataclass(frozen=True, slots=True)
class Kind:
    """What a volatile value is: a stable `key`, a `name` for people, and the diagnostic `code` it leads to."""

    key: str
    name: str
    code: str


OTHER = Kind("other", "text", "KV201")

# Parts of patterns. `_B`, `_E`: not inside a longer word or number.
_B, _E = r"(?<![\w])", r"(?![\w])"
_YEAR, _MONTH, _DAY = r"(?:19|20)\d\d", r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])"
_MM, _DD, _HH = r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])", r"(?:[01]\d|2[0-4])"
_FRACTION, _OFFSET = r"(?:[.,]\d{1,9})?", r"(?:Z|[+-]\d\d(?::?\d\d)?)?"
_CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::(?:[0-5]\d|60)(?:[.,]\d{1,9})?)?"
_AMPM = r"(?:\s?[AaPp]\.?[Mm]\b\.?)?"
_ZONE = r"(?:\s?(?:Z|UTC|GMT|[+-]\d\d:?\d\d|[ECMP][SD]T|CES?T))?"
_MONTH_NAME = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t(?:ember)?)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_WEEKDAY = r"(?:(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs?)?|Fri|Sat(?:ur)?|Sun)(?:day)?)\.?"
_DAY_NTH = rf"{_DAY}(?:st|nd|rd|th)?"
_WRITTEN_DATE = (
    rf"(?:{_WEEKDAY},?\s)?(?:{_MONTH_NAME}\s{_DAY_NTH},?\s{_YEAR}|{_DAY_NTH}(?:\sof)?\s{_MONTH_NAME},?\s{_YEAR})"
)
_NUMERIC_DATE = rf"(?:{_YEAR}([-/.]){_MONTH}\1{_DAY}|(?:{_DAY}|{_MONTH})([-/.])(?:{_DAY}|{_MONTH})\2{_YEAR})"
_ID_WORDS = (
    r"(?:req(?:uest)?|trace|span|run|job|task|conv(?:ersation)?|thread|msg|message|call|chatcmpl|resp|cmpl"
    r"|ses(?:s(?:ion)?)?|nonce|id|order|ticket|tx|txn)"
)
_USER_WORDS = r"(?:user|usr|uid|tenant|customer|cust|cus|account|acct|org|member|employee)"

_TABLE: list[tuple[str, str, str, str]] = [
    # key, name, code, pattern; the first that covers the differing text wins, so the specific come first
    ("jwt", "token (JWT)", "KV102", r"(?<![\w.-])eyJ[\w-]++\.[\w-]++(?:\.[\w-]*+)?"),
    ("trace", "trace header (W3C traceparent)", "KV102", rf"{_B}00-[0-9a-f]{{32}}-[0-9a-f]{{16}}-[0-9a-f]{{2}}{_E}"),
    ("uuid", "UUID", "KV102", rf"{_B}\{{?[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}\}}?{_E}"),
    ("ulid", "ULID", "KV102", rf"{_B}[0-7](?=[A-Z]*\d)[0-9A-HJKMNP-TV-Z]{{25}}{_E}"),
    (
        "timestamp_iso",
        "timestamp (ISO 8601)",
        "KV101",
        rf"{_B}{_YEAR}-{_MM}-{_DD}T{_HH}(?::?[0-5]\d(?::?[0-6]\d{_FRACTION})?)?{_OFFSET}(?:\[[\w/+-]{{1,40}}\])?{_E}",
    ),
    (
        "timestamp_iso",
        "timestamp (ISO 8601)",
        "KV101",
        rf"{_B}{_YEAR}{_MM}{_DD}T{_HH}[0-5]\d(?:[0-6]\d)?{_FRACTION}{_OFFSET}{_E}",
    ),
    (
        "timestamp_rfc2822",
        "timestamp (RFC 2822)",
        "KV101",
        rf"{_B}(?:{_WEEKDAY},\s)?{_DAY}\s{_MONTH_NAME}\s{_YEAR}\s{_CLOCK}\s(?:GMT|UTC?|Z|[+-]\d{{4}}|[ECMP][SD]T)(?!\w)",
    ),
    (
        "timestamp_asctime",
        "timestamp (ctime)",
        "KV101",
        rf"{_B}{_WEEKDAY}\s{_MONTH_NAME}\s{{1,2}}{_DAY}\s{_CLOCK}{_AMPM}(?:\s[A-Z]{{2,5}})?\s{_YEAR}{_E}",
    ),
    ("timestamp_log", "timestamp (access log)", "KV101", rf"{_B}{_DAY}/[A-Z][a-z]{{2}}/{_YEAR}:{_CLOCK}{_ZONE}{_E}"),
    (
        "timestamp",
        "timestamp",
        "KV101",
        rf"{_B}(?:{_NUMERIC_DATE}|{_WRITTEN_DATE})(?:,?\s|\sat\s|_){_CLOCK}{_AMPM}{_ZONE}(?!\w)",
    ),
    ("date", "date", "KV101", rf"{_B}(?:{_WRITTEN_DATE}|{_NUMERIC_DATE})(?![\w]|[-/]\d)"),
    ("date", "date (compact)", "KV101", rf"{_B}20\d\d{_MM}{_DD}{_E}"),
    (
        "date",
        "date (without year)",
        "KV101",
        rf"{_B}(?:{_WEEKDAY},?\s)?(?:{_MONTH_NAME}\s{_DAY_NTH}|{_DAY_NTH}\s{_MONTH_NAME}){_E}",
    ),
    ("date", "month and year", "KV101", rf"{_B}{_MONTH_NAME},?\s{_YEAR}{_E}"),
    (
        "ip",
        "IP address",
        "KV201",
        rf"{_B}(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.|(?![\d.]))){{4}}(?<!\.)(?::\d{{1,5}})?(?!\w)",
    ),
    (
        "ip",
        "IP address (v6)",
        "KV201",
        r"(?<![\w:])(?=[0-9A-Fa-f:]*::|(?:[0-9A-Fa-f]{1,4}:){7})(?=[0-9A-Fa-f:]*\d)[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])",
    ),
    ("clock", "clock time", "KV101", rf"(?<![\w:.]){_CLOCK}{_AMPM}{_ZONE}(?![\w:])"),
    (
        "unix",
        "timestamp (Unix milliseconds)",
        "KV101",
        r"(?<![\w.])1[0-9]{12}(?![\w]|\.\d)",
    ),
    ("unix", "timestamp (Unix seconds)", "KV101", r"(?<![\w.])(?:1\d{9}|20\d{8})(?:\.\d{1,9})?(?![\w]|\.\d)"),
    ("weekday", "day of the week", "KV101", rf"{_B}(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day{_E}"),
    ("email", "email address", "KV104", r"(?<![\w.+%-])[\w.+%-]{1,64}+@[\w-]++(?:\.[\w-]++)+"),
    ("url", "URL", "KV201", r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,15}://[^\s<>\"'`]+(?<![.,;:!?)\]}])"),
    ("digest", "digest", "KV102", rf"{_B}(?:sha(?:1|256|384|512)|md5)[:-][0-9A-Fa-f]{{8,}}+{_E}"),
    (
        "hex",
        "hex id",
        "KV102",
        rf"(?<![\w])(?:0x)?(?=[0-9A-Fa-f]*+{_E})(?=[A-Fa-f]*+\d)(?=\d*+[A-Fa-f])[0-9A-Fa-f]{{8,}}+",
    ),
    ("user", "user or tenant id", "KV104", rf"(?i:(?<![\w-]){_USER_WORDS}[-_:#](?=[\w-]*\d)[\w-]+)"),
    ("id", "random id", "KV102", rf"(?i:(?<![\w-]){_ID_WORDS}[-_:#](?=[\w-]*\d)[\w-]+)"),
    (
        "token",
        "token or key",
        "KV102",
        r"(?<![\w/+=-])(?=[\w-]*\d)(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{16,}+={0,2}(?![\w/+])",
    ),
    ("path", "path (Windows)", "KV106", r"(?<![\w])(?:[A-Za-z]:|\\\\[\w.-]+)(?:[\\/][\w.@+~ -]*[\w])+[\\/]?"),
    ("path", "path", "KV106", r"(?<![\w./~-])(?:~|\.{1,2})?(?:/[\w.@+%=:~-]++)+(?<![.:])/?"),
    (
        "path",
        "path",
        "KV106",
        r"(?<![\w./~-])[\w.@+~-]++(?:/[\w.@+~-]++)+(?<=\w)(?:(?<=\.\w)|(?<=\.\w\w)|(?<=\.\w\w\w)|(?<=\.\w{4}))",
    ),
    ("path", "path", "KV106", r"(?<![\w./~-])[\w.@+~-]++(?:/[\w.@+~-]++){2,}+/?"),
    (
        "version",
        "version",
        "KV105",
        rf"(?<![\w.])(?:v\d+(?:\.\d+)*|\d+(?:\.\d+){{2,3}})(?:[-+][0-9A-Za-z.+-]*[0-9A-Za-z])?{_E}",
    ),
    ("number", "number", "KV105", r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?(?!\w|[.,]\d)"),
    ("number", "number", "KV105", r"(?<![\d.,])\d++(?![\d,]|\.\d)"),  # digits inside a word: step3, gpt4
]

DETECTORS: list[tuple[Kind, re.Pattern[str]]] = [
    (Kind(key, name, code), re.compile(pattern)) for key, name, code, pattern in _TABLE
]
_VALUE_END = " \t\r\n\"'`<>()[]{}|,;"


def classify(text: str) -> Kind:
    """The kind of a whole value, surrounding space and quotes aside."""
    value = text[:_MAX_VALUE].strip(" \t\r\n\"'`")
    if len(text) > _MAX_VALUE or not value:
        return OTHER
    return next((kind for kind, pattern in DETECTORS if pattern.fullmatch(value)), OTHER)


def classify_in(text: str, start: int, end: int) -> tuple[Kind, int, int]:
    """The kind of the value that `text[start:end]` is a part of, and the range of that value.

    The range grows to the whole value around it within its line (two differing digits of a timestamp give the timestamp), at most
    256 characters to either side; text that no detector covers grows to the word around it and is `OTHER`. `start == end` asks for
    the value at that place.
    """
    line_start = text.rfind("\n", max(start - _WINDOW, 0), start) + 1 or max(start - _WINDOW, 0)
    line_end = text.find("\n", end, end + _WINDOW)
    line_end = min(end + _WINDOW, len(text)) if line_end < 0 else line_end
    if end - start <= _MAX_VALUE and "\n" not in text[start:end]:
        window = str.__getitem__(text, slice(line_start, line_end))
        left, right = start - line_start, end - line_start
        for kind, pattern in DETECTORS:
            for match in pattern.finditer(window):
                if match.start() <= left and right <= match.end():
                    return kind, line_start + match.start(), line_start + match.end()
                if match.start() > left:
                    break
    while start > line_start and text[start - 1] not in _VALUE_END:
        start -= 1
    while end < line_end and text[end] not in _VALUE_END:
        end += 1
    return OTHER, start, end
