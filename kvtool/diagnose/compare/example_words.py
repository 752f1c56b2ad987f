"""Lines that head one example of several: the word for it in many languages, with or without a number."""

from __future__ import annotations

import re

_WORDS = (
    *("example", "sample", "beispiel", "exemple", "ejemplo", "exemplo", "esempio", "voorbeeld", "exempel", "eksempel"),
    *("esimerkki", "näide", "piemērs", "pavyzdys", "przykład", "příklad", "príklad", "primer", "primjer", "пример"),
    *(
        "приклад",
        "прыклад",
        "παράδειγμα",
        "exemplu",
        "adibidea?",
        "példa",
        "örnek",
        "misal",
        "nümunə",
        "misol",
        "мысал",
    ),
    *("жишээ", "ví dụ", "contoh", "halimbawa", "mfano", "shembull", "dæmi", "sampla", "enghraifft", "მაგალითი"),
    *("օրինակ", "مثال", "نمونه", "דוגמה", "דוגמא", "उदाहरण", "উদাহরণ", "எடுத்துக்காட்டு", "ఉదాహరణ", "ಉದಾಹರಣೆ"),
    *("ഉദാഹരണം", "ઉદાહરણ", "ਉਦਾਹਰਨ", "ตัวอย่าง(?:ที่)?", "ຕົວຢ່າງ", "ឧទាហរណ៍", "ဥပမာ", "උදාහරණය", "ምሳሌ"),
    *("示例", "例子", "例", "样例", "樣例", "范例", "範例", "用例", "예시", "예제", "보기"),
)
_HEAD = re.compile(
    rf"^\W{{0,8}}(?:\d{{1,4}}[.)]?[ \t]{{1,2}})?(?:{'|'.join(_WORDS)})"
    r"[ \t]{0,2}(?:(?:n[ro]?[.º°]?|№|#)[ \t]?)?[(\[]?\d{0,4}(?:[)\]]?[ \t]{0,2}[:.)>\uff1a\u2014\u2013-]|\W{0,6}$)",
    re.IGNORECASE | re.MULTILINE,
)


def heads_of_examples(text: str) -> int:
    """How many lines of a text are nothing but the head of an example, or begin with it as with a label."""
    return sum(1 for _ in _HEAD.finditer(text))
