"""How long ago something was: `2 min ago`, `vor 3 Stunden`, `5分前`. What is told so is another text in each later request."""

from __future__ import annotations

_NUMBER = r"\d{1,4}(?:[.,]\d)?"
_UNIT = r"[^\W\d_]{1,12}\.?"
_BEHIND = (
    "ago|earlier|geleden|temu|siden|sedan|sitten|назад|тому|önce|fa|atrás|tagasi|yang lalu|lalu|trước|पहले|আগে|पूर्वी|پیش"
    "|ezelőtt|nazaj|atpakaļ"
)
"""Words behind a number and its unit; of Catalan and Italian `fa`, of Indonesian with or without `yang`."""
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
