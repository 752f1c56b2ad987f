"""Patterns that name text which is known to vary: a timestamp, a UUID, a path.

They are in one table and not beside the codes that they lead to, as their order decides between codes. Each is bounded or
possessive, so that none backtracks over another. Where what tells a value is beside it (`commit 7f85625`), the group `value` is
the value alone. They read text with plain signs (`plain_signs`): digits of every script are 0 to 9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from kvtool.diagnose.codes.entry import CodeEntry, DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import KV201
from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.diagnose.codes.values.kv102 import KV102
from kvtool.diagnose.codes.values.kv104 import KV104
from kvtool.diagnose.codes.values.kv105 import KV105
from kvtool.diagnose.codes.values.kv106 import KV106
from kvtool.diagnose.dates.written import DateForm

_NUMBER = r"\d{1,4}(?:[.,]\d)?"
_UNIT = r"[^\W\d_]{1,12}\.?"
_BEHIND = (
    "ago|earlier|geleden|temu|siden|sedan|sitten|назад|тому|önce|fa|atrás|tagasi|yang lalu|lalu|trước|पहले|আগে|पूर्वी|پیش"
    "|ezelőtt|nazaj|atpakaļ"
)
"""Words after a number and its unit; of Catalan and Italian `fa`, of Indonesian with or without `yang`."""
_BEFORE = "vor|hace|il y a|há|fa|acum|před|pred|prije|pre|prieš|pirms|преди|πριν(?: από)?|לפני|منذ|قبل"
_TOGETHER = (
    r"(?:分钟|分鐘|小时|小時|时|時間|秒钟|秒|天|日|周|週|個月|个月|か月|ヶ月|年|分)\s?(?:之前|以前|前)"
    r"|(?:분|시간|일|초|주|개월|년)\s?전"
    r"|(?:นาที|ชั่วโมง|วัน|วินาที|สัปดาห์|เดือน|ปี)(?:ที่แล้ว|ก่อน)"
)

AGE = (
    rf"(?i:(?<![\w.,]){_NUMBER}\s?{_UNIT}\s(?:{_BEHIND})(?!\w)"
    rf"|(?<!\w)(?:{_BEFORE})\s{_NUMBER}\s?{_UNIT}(?!\w)"
    rf"|(?<![\w.,]){_NUMBER}\s?(?:{_TOGETHER}))"
)
"""The pattern of all of them; digits are 0 to 9, as `plain_signs` leaves them."""


# Parts of patterns. `_B`, `_E`: not inside a longer word or number.
_B, _E = r"(?<![\w])", r"(?![\w])"
YEAR = r"(?:19|20)\d\d"
"""A pattern with it finds nothing without it."""
_YEAR, _MONTH, _DAY = YEAR, r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])"
_MM, _DD, _HH = r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])", r"(?:[01]\d|2[0-4])"
_FRACTION, _OFFSET = r"(?:[.,]\d{1,9})?", r"(?:Z|[+-]\d\d(?::?\d\d)?)?"
_CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::(?:[0-5]\d|60)(?:[.,]\d{1,9})?)?"
_AMPM = r"(?:\s?(?:[AaPp]\.[Mm]\b\.?|[AaPp][Mm]\b))?"
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
_PRERELEASE = r"(?:rc|alpha|beta|dev|pre|preview|snapshot|build|nightly|post|final|canary|stable|hotfix|lts)(?![a-z])"
_ID_WORDS = (
    r"(?:req(?:uest)?|trace|span|run|job|task|conv(?:ersation)?|thread|msg|message|call|chatcmpl|resp|cmpl"
    r"|ses(?:s(?:ion)?)?|nonce|id|order|ticket|tx|txn)"
)
_USER_WORDS = r"(?:user|usr|uid|tenant|customer|cust|cus|account|acct|org|member|employee)"

_IDEOGRAPHIC = "[〇零一二三四五六七八九十廿卅元]"
_IDEOGRAPHIC_DATE = rf"(?:{_IDEOGRAPHIC}{{1,6}}年)?{_IDEOGRAPHIC}{{1,3}}月{_IDEOGRAPHIC}{{1,3}}[日号號]"
_IDEOGRAPHIC_CLOCK = (
    rf"(?:上午|下午|晚上|早上|凌晨|中午|傍晚|午前|午後)?{_IDEOGRAPHIC}{{1,3}}[点點时時]"
    rf"(?:{_IDEOGRAPHIC}{{1,3}}分(?:{_IDEOGRAPHIC}{{1,3}}秒)?|半|整|[一三]刻|钟|鐘)"
)
_DECIMAL = r"(?:\d{1,3}(?:[,.]\d{3}){1,4}|\d{1,15})(?:[.,]\d{1,2})?"
_CURRENCY = (
    "USD|EUR|GBP|JPY|CNY|INR|CHF|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|KRW|SGD|HKD|ZAR|TRY|ILS|AED|BTC|ETH"
)
_LANGUAGE = (
    "English|German|French|Spanish|Italian|Portuguese|Dutch|Swedish|Norwegian|Danish|Finnish|Polish|Czech|Hungarian|Romanian"
    "|Greek|Turkish|Russian|Ukrainian|Arabic|Hebrew|Hindi|Bengali|Chinese|Mandarin|Japanese|Korean|Vietnamese|Thai|Indonesian"
)
_COUNTRY = (
    "United States|United Kingdom|Germany|France|Spain|Italy|Portugal|Netherlands|Belgium|Switzerland|Austria|Sweden|Norway"
    "|Denmark|Finland|Poland|Czechia|Hungary|Romania|Greece|Turkey|Ukraine|Ireland|India|China|Japan|South Korea|Singapore"
    "|Australia|New Zealand|Canada|Mexico|Brazil|Argentina|Chile|South Africa|Nigeria|Egypt|Israel|Indonesia|Vietnam|Thailand"
)


class Form(Protocol):
    """A finder of values: a compiled pattern, or an object that works like one."""

    @property
    def pattern(self) -> str:
        """Return how it is written."""

    def finditer(self, string: str, pos: int = ..., endpos: int = ..., /) -> Iterator[re.Match[str]]:
        """Return the values in a text."""

    def search(self, string: str, /) -> re.Match[str] | None:
        """Return the first of them."""

    def fullmatch(self, string: str, /) -> re.Match[str] | None:
        """Return the value that is all of a text."""


AGE_KEY = "age"
"""The key of how long ago something was."""
PART = "part"
"""The key of an image or a file, as the text of a prompt has it."""
_TABLE: list[tuple[str, str, CodeEntry, str | DateForm]] = [
    # key, name, code, pattern; the first that covers the differing text wins, so the specific come first
    (PART, "image or file", KV201, r"(?<=<)[a-z][\w.-]{0,40}:[0-9a-f]{8}(?=>)"),  # as `part_text` writes it
    (
        "header",
        "request header",
        KV102,
        (
            r"(?i:(?<![\w-])(?:x-(?:request|correlation|trace|b3-traceid|amzn-trace|amzn-request)(?:-id)?|request-id|traceparent|cf-ray)"
            r"\s{0,2}[:=]\s{0,2}(?P<value>[\w.:/=+;-]{4,256}))"
        ),
    ),
    ("jwt", "token (JWT)", KV102, r"(?<![\w.-])eyJ[\w-]++\.[\w-]++(?:\.[\w-]*+)?"),
    ("trace", "trace header (W3C traceparent)", KV102, rf"{_B}00-[0-9a-f]{{32}}-[0-9a-f]{{16}}-[0-9a-f]{{2}}{_E}"),
    ("uuid", "UUID", KV102, rf"{_B}\{{?[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}\}}?{_E}"),
    ("ulid", "ULID", KV102, rf"{_B}[0-7](?=[A-Z]*\d)[0-9A-HJKMNP-TV-Z]{{25}}{_E}"),
    ("ksuid", "KSUID", KV102, r"(?<![\w-])(?=\w*[a-z])(?=\w*[A-Z])[0-3][0-9A-Za-z]{26}(?![\w-])"),
    ("objectid", "ObjectId (MongoDB)", KV102, rf"{_B}(?=[a-f]*+\d)(?=\d*+[a-f])[0-9a-f]{{24}}{_E}"),
    ("aws", "AWS trace id", KV102, r"(?:\bRoot=)?(?<![\w-])1-[0-9a-f]{8}-[0-9a-f]{24}(?![\w-])"),
    ("aws", "AWS key id", KV102, rf"{_B}A(?:KIA|SIA|ROA|IDA)[0-9A-Z]{{16}}{_E}"),
    (
        "aws",
        "AWS resource",
        KV102,
        r"(?<![\w:-])arn:aws[a-z-]{0,8}:[a-z0-9-]{1,32}:[a-z0-9-]{0,20}:\d{0,12}:[\w./:*+=@-]{1,256}",
    ),
    (
        "aws",
        "AWS resource id",
        KV102,
        r"(?<![\w-])(?:i|vpc|subnet|sg|ami|vol|snap|eni|eipalloc|rtb|igw|nat|acl|lt|vpce)-(?:[0-9a-f]{17}|[0-9a-f]{8})(?![\w-])",
    ),
    (
        "gcp",
        "Google Cloud resource",
        KV102,
        (
            r"(?<![\w/.-])projects/[a-z0-9:.-]{1,64}(?:/(?:locations|regions|zones|global|instances|traces|topics|secrets|datasets"
            r"|serviceAccounts|logs|subscriptions|buckets|clusters)(?:/[\w.@%-]{1,128})?){1,6}+"
        ),
    ),
    (
        "git",
        "commit (git)",
        KV106,
        (
            r"(?i:\b(?:commit|sha1?|rev(?:ision)?|head|merge|tree|blob|checkout|parent|detached at|git)\b[\s:=#@\"'`(]{1,3})"
            rf"(?P<value>(?=[0-9a-f]*+{_E})[0-9a-f]{{7,40}})"
        ),
    ),
    (
        "timestamp_iso",
        "timestamp (ISO 8601)",
        KV101,
        rf"{_B}{_YEAR}-{_MM}-{_DD}T{_HH}(?::?[0-5]\d(?::?[0-6]\d{_FRACTION})?)?{_OFFSET}(?:\[[\w/+-]{{1,40}}\])?{_E}",
    ),
    (
        "timestamp_iso",
        "timestamp (ISO 8601)",
        KV101,
        rf"{_B}{_YEAR}{_MM}{_DD}T{_HH}[0-5]\d(?:[0-6]\d)?{_FRACTION}{_OFFSET}{_E}",
    ),
    (
        "timestamp_rfc2822",
        "timestamp (RFC 2822)",
        KV101,
        rf"{_B}(?:{_WEEKDAY},\s)?{_DAY}\s{_MONTH_NAME}\s{_YEAR}\s{_CLOCK}\s(?:GMT|UTC?|Z|[+-]\d{{4}}|[ECMP][SD]T)(?!\w)",
    ),
    (
        "timestamp_asctime",
        "timestamp (ctime)",
        KV101,
        rf"{_B}{_WEEKDAY}\s{_MONTH_NAME}\s{{1,2}}{_DAY}\s{_CLOCK}{_AMPM}(?:\s[A-Z]{{2,5}})?\s{_YEAR}{_E}",
    ),
    (
        "timestamp",
        "timestamp (date-time group)",
        KV101,
        rf"{_B}{_DD}{_HH}[0-5]\d[A-Z](?:\s?(?:JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)(?:\s?\d\d(?:\d\d)?)?)?{_E}",
    ),
    ("timestamp_log", "timestamp (access log)", KV101, rf"{_B}{_DAY}/[A-Z][a-z]{{2}}/{_YEAR}:{_CLOCK}{_ZONE}{_E}"),
    (
        "timestamp",
        "timestamp",
        KV101,
        rf"{_B}(?:{_NUMERIC_DATE}|{_WRITTEN_DATE})(?:,?\s|\sat\s|_){_CLOCK}{_AMPM}{_ZONE}(?!\w)",
    ),
    ("date", "date", KV101, rf"{_B}(?:{_WRITTEN_DATE}|{_NUMERIC_DATE})(?![\w]|[-/]\d|[-+.]{_PRERELEASE})"),
    ("date", "date (compact)", KV101, rf"{_B}20\d\d{_MM}{_DD}{_E}"),
    (
        "date",
        "date (without year)",
        KV101,
        rf"{_B}(?:{_WEEKDAY},?\s)?(?:{_MONTH_NAME}\s{_DAY_NTH}|{_DAY_NTH}\s{_MONTH_NAME}){_E}",
    ),
    ("date", "date (ISO week)", KV101, rf"{_B}{_YEAR}-?W(?:0[1-9]|[1-4]\d|5[0-3])(?:-?[1-7])?{_E}"),
    ("date", "month and year", KV101, rf"{_B}{_MONTH_NAME},?\s{_YEAR}{_E}"),
    (
        "ip",
        "IP address",
        KV201,
        rf"{_B}(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.|(?![\d.]))){{4}}(?<!\.)(?::\d{{1,5}})?(?!\w)",
    ),
    (
        "ip",
        "IP address (v6)",
        KV201,
        r"(?<![\w:])(?=[0-9A-Fa-f:]*::|(?:[0-9A-Fa-f]{1,4}:){7})(?=[0-9A-Fa-f:]*\d)[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])",
    ),
    ("clock", "clock time", KV101, rf"(?<![\w:.]){_CLOCK}{_AMPM}{_ZONE}(?![\w:])"),
    (
        "unix",
        "timestamp (Unix milliseconds)",
        KV101,
        r"(?<![\w.])1[0-9]{12}(?![\w]|\.\d)",
    ),
    ("unix", "timestamp (Unix microseconds)", KV101, r"(?<![\w.])1[4-9][0-9]{14}(?![\w]|\.\d)"),
    ("unix", "timestamp (Unix nanoseconds)", KV101, r"(?<![\w.])1[67][0-9]{17}(?![\w]|\.\d)"),
    ("snowflake", "snowflake id", KV102, r"(?<![\w.,])[1-9][0-9]{16,18}(?![\w]|[.,]\d)"),
    ("unix", "timestamp (Unix seconds)", KV101, r"(?<![\w.])(?:1\d{9}|20\d{8})(?:\.\d{1,9})?(?![\w]|\.\d)"),
    (AGE_KEY, "time since then", KV101, AGE),
    ("weekday", "day of the week", KV101, rf"{_B}(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day{_E}"),
    (
        "timezone",
        "time zone",
        KV104,
        (
            r"(?<![\w./-])(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc|US|Canada)"
            r"/[A-Z][\w+-]{1,30}(?:/[A-Z]\w{1,30})?(?![\w/])"
        ),
    ),
    ("timezone", "time zone", KV104, r"(?<![\w./-])(?:UTC|GMT)[+-](?:1[0-4]|0?\d)(?::?[0-5]\d)?(?![\w:])"),
    (
        "locale",
        "locale",
        KV104,
        r"(?<![\w./-])[a-z]{2,3}[-_](?:[A-Z][a-z]{3}[-_])?(?:[A-Z]{2}|419)(?:\.[Uu][Tt][Ff]-?8)?(?![\w/-])",
    ),
    (
        "amount",
        "amount of money",
        KV201,
        rf"(?<!\w)(?:[-+]?(?:US|CA|A)?[$€£¥₹]\s?{_DECIMAL}(?!\w|[.,]\d)|{_DECIMAL}\s?(?:[€£¥₹]|(?:{_CURRENCY}){_E})|(?:{_CURRENCY})\s{_DECIMAL}(?!\w|[.,]\d))",
    ),
    ("currency", "currency", KV104, rf"{_B}(?:{_CURRENCY}){_E}"),
    ("language", "language", KV104, rf"{_B}(?:{_LANGUAGE}){_E}"),
    ("country", "country", KV104, rf"{_B}(?:{_COUNTRY}){_E}"),
    ("phone", "phone number", KV104, r"(?<![\w+])\+\d{1,3}(?:[ .-]?\(\d{1,4}\))?(?:[ ./-]?\d){6,13}(?![\w]|[.,]\d)"),
    ("email", "email address", KV104, r"(?<![\w.+%-])[\w.+%-]{1,64}+@[\w-]++(?:\.[\w-]++)+"),
    ("url", "URL", KV201, r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,15}://[^\s<>\"'`]+(?<![.,;:!?)\]}])"),
    ("digest", "digest", KV102, rf"{_B}(?:sha(?:1|256|384|512)|md5)[:-][0-9A-Fa-f]{{8,}}+{_E}"),
    (
        "hex",
        "hex id",
        KV102,
        rf"(?<![\w])(?:0x)?(?=[0-9A-Fa-f]*+{_E})(?=[A-Fa-f]*+\d)(?=\d*+[A-Fa-f])[0-9A-Fa-f]{{8,}}+",
    ),
    ("user", "user or tenant id", KV104, rf"(?i:(?<![\w-]){_USER_WORDS}[-_:#](?=[\w-]*\d)[\w-]+)"),
    ("id", "random id", KV102, rf"(?i:(?<![\w-]){_ID_WORDS}[-_:#](?=[\w-]*\d)[\w-]+)"),
    (
        "nanoid",
        "nanoid",
        KV102,
        r"(?<![\w/+=-])(?=[\w-]{0,20}\d)(?=[\w-]{0,20}[A-Z])(?=[\w-]{0,20}[a-z])[\w-]{21}(?![\w/+=-])",
    ),
    (
        "base64",
        "random bytes (base64)",
        KV102,
        r"(?<![\w+/=.~-])(?=[\w/]{0,400}[+=])(?=[A-Za-z+/]{0,400}\d)(?=[\d+/a-z]{0,400}[A-Z])[A-Za-z0-9+/]{14,400}+={0,2}(?![\w+/=-])",
    ),
    (
        "token",
        "token or key",
        KV102,
        r"(?<![\w/+=-])(?=[\w-]*\d)(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{16,}+={0,2}(?![\w/+])",
    ),
    ("timestamp", "timestamp", KV101, rf"{_IDEOGRAPHIC_DATE}[\uff0c,\u3001 ]?{_IDEOGRAPHIC_CLOCK}"),
    ("clock", "clock time", KV101, _IDEOGRAPHIC_CLOCK),
    (
        "date",
        "date",
        KV101,
        _IDEOGRAPHIC_DATE,
    ),
    ("timestamp", "timestamp", KV101, DateForm("timestamp")),
    ("date", "date", KV101, DateForm("date")),
    ("clock", "clock time", KV101, DateForm("clock")),
    ("weekday", "day of the week", KV101, DateForm("weekday")),
    ("path", "path (home)", KV106, r"(?<![\w$%])(?:\$HOME|\$\{HOME\}|%[A-Z]{3,20}%)(?:[\\/][\w.@+-]{1,255})*+[\\/]?"),
    ("path", "path (Windows)", KV106, r"(?<![\w])(?:[A-Za-z]:|\\\\[\w.-]+)(?:[\\/][\w.@+~ -]*[\w])+[\\/]?"),
    ("path", "path", KV106, r"(?<![\w./~<-])(?:~|\.{1,2})?(?:/[\w.@+%=:~-]++)+(?<![.:])/?"),
    (
        "path",
        "path",
        KV106,
        r"(?<![\w./~-])[\w.@+~-]++(?:/[\w.@+~-]++)+(?<=\w)(?:(?<=\.\w)|(?<=\.\w\w)|(?<=\.\w\w\w)|(?<=\.\w{4}))",
    ),
    ("path", "path", KV106, r"(?<![\w./~-])[\w.@+~-]++(?:/[\w.@+~-]++){2,}+/?"),
    (
        "version",
        "version",
        KV105,
        rf"(?<![\w.])(?:v\d+(?:\.\d+)*|\d+(?:\.\d+){{2,3}})(?:[-+][0-9A-Za-z.+-]*[0-9A-Za-z])?{_E}",
    ),
    ("number", "number", KV105, r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?(?!\w|[.,]\d)"),
    ("number", "number", KV105, r"(?<![\d.,])\d++(?![\d,]|\.\d)"),  # digits inside a word: step3, gpt4
]

DETECTORS: list[tuple[DifferenceKind, Form]] = [
    (DifferenceKind(key, name, entry.code), re.compile(pattern) if isinstance(pattern, str) else pattern)
    for key, name, entry, pattern in _TABLE
]
