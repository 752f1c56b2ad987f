"""Labels: words before a value that say what it is, in the languages in which prompts are written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, partial

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import KV201
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import REQUEST_ID
from kvtool.diagnose.codes.values.kv104 import USER
from kvtool.diagnose.codes.values.kv105 import COUNTER, KV105
from kvtool.diagnose.codes.values.kv106 import ENVIRONMENT
from kvtool.diagnose.codes.values.kv107 import FLAG
from kvtool.diagnose.dates.calendar_words import WORD
from kvtool.diagnose.values.variable_names import kind_of_name
from kvtool.diagnose.word_lists import read_words, word_set

MODEL = DifferenceKind("model", "model version", KV105.code)
READING = DifferenceKind("reading", "reading (temperature, weather, battery)", KV201.code)

_words = partial(word_set, __file__)
"""Return a set of words of the TOML file beside this module."""
_KINDS = {
    "time": TIME,
    "user": USER,
    "person": USER,
    "counter": COUNTER,
    "environment": ENVIRONMENT,
    "request_id": REQUEST_ID,
    "model": MODEL,
    "flag": FLAG,
    "reading": READING,
}
_LONGEST = 200
_WINDOW = 48
"""Characters before a value in which its label is looked for."""
_QUOTES = " \t\"'`([{\u00a0\u201c\u201e\u00ab\u300c"
_ENDS = (*(":", "=", ">", " is", " as", " ist", " est", " es", " é", " è"), *("\uff1a", "は", "が", "은", "는"))
_MOST_WORDS = 3
_WITHIN = re.compile(
    r"(?P<label>[^\s:=\uff1a]{1,40})[:=\uff1a][ \t]{0,2}(?P<rest>(?:[^\s\d:=\uff1a]{1,16} ){0,2}[^\s:=\uff1a/]{0,32})$"
)
_OF_THE_DAY = re.compile(r"(?:\A|\s)(?:of|for) (?:the |this )?(?:day|week|month)\Z", re.IGNORECASE)
_LONGEST_ARTICLE = 3
_MARKS = re.compile(r"\[/?[A-Z_]{3,40}\]|<\|[\w-]{1,40}\|>|<s>")
"""What chat templates write between messages."""


def label_before(text: str, low: int) -> str:
    """Return the words before `text[low:]` on its line that name what follows, up to a colon and the like; empty where there are
    none.
    """
    line = str.__getitem__(text, slice(max(low - _WINDOW, 0), low)).rpartition("\n")[2].rstrip(_QUOTES)
    end = next((end for end in _ENDS if line.endswith(end)), None)
    return "" if end is None else " ".join(WORD.findall(_MARKS.split(line[: -len(end)])[-1])[-_MOST_WORDS:])


def kind_of_label(label: str) -> DifferenceKind | None:
    """Return the kind of value that is after these words; None where they do not say. The last word that says one counts.

    A word that says when something else is so is left out: the `weather now` is no time, and the `quote of the day` is none.
    """
    label = _without_when(label)
    said = kind_of_name(label)
    if said is not None:
        return said
    words = WORD.findall(unicodedata.normalize("NFC", label[-_LONGEST:]).casefold().replace("\u2019", "'"))
    if not _words("things").isdisjoint(words):
        return None
    for word in reversed(words):
        if (kind := _of_word(word)) is not None:
            return kind
    return None


def kind_of_variable(name: str) -> DifferenceKind | None:
    """Return what a variable holds that was seen to vary: its name says it as for any, else its noun as a label does."""
    said = kind_of_name(name)
    if said is not None:
        return said
    words = [word for word in name[-_LONGEST:].casefold().split("_") if word]
    while len(words) > 1 and words[-1] in ("name", "id", "code"):
        words.pop()
    kind = kind_of_label(words[-1]) if words else None
    return kind if kind is USER else None


def _without_when(label: str) -> str:
    """Return a label without the words that say when it holds, where it has a noun beside them."""
    words = label[-_LONGEST:].split(" ")
    if len(words) < 2 or _of_when().isdisjoint(word.casefold() for word in words):
        return label
    said = _OF_THE_DAY.sub("", label)
    if not said:
        return said
    left = [word for word in said.split(" ") if word.casefold() not in _of_when()]
    return " ".join(left) if any(_is_noun(word) for word in left) else label


def _is_noun(word: str) -> bool:
    """Return whether a word of a label may be what is told: it is longer than an article, and no word such as `current`."""
    return len(word) > _LONGEST_ARTICLE and word.casefold() not in _words("no_noun")


def shared_label(text: str, low: int, first: int) -> tuple[str, int] | None:
    """Return the label of a word `text[low:]` that differs from `first` on, and where its value begins; None where it has none.

    The label may be a part of the word (`org=acme`), or are before words that other values have, too (`Customer: Ms. Ada`).
    """
    plain = str.__getitem__(text, slice(max(low - _WINDOW, 0), first)).rpartition("\n")[2]
    within = _WITHIN.search(plain)
    if within is None:
        return None
    label, rest = within["label"], within["rest"]
    return (label, low) if len(rest) >= first - low else (label, first - len(rest))


def kind_by_label(words: str) -> DifferenceKind | None:
    """Return what the words directly before a short value say of it, without a sign that parts them: whose it is, or where it
    runs.
    """
    said = words.casefold().split(" ")
    if addresses(said):
        return USER
    before = read_words(__file__)["before_a_name"]
    if said[-1] in before or " ".join(said[-2:]) in before:
        return USER
    kind = kind_of_label(said[-1])
    return kind if kind in (USER, ENVIRONMENT, MODEL) else None


@cache
def _of_when() -> frozenset[str]:
    return frozenset(unicodedata.normalize("NFC", word) for word in _words("when"))


def _of_word(word: str) -> DifferenceKind | None:
    """Return the kind that a word says; of scripts that part no words, the longest ending of it that is one."""
    found = _kinds().get(word)
    if found is not None or not word or unicodedata.category(word[-1]) not in ("Lo", "Lm", "Mn"):
        return found
    return next((kind for at in range(1, len(word) - 1) if (kind := _kinds().get(word[at:])) is not None), None)


@cache
def _kinds() -> dict[str, DifferenceKind]:
    """Return the kind of each word; of a word with several the first."""
    rows = read_words(__file__)["kinds"]
    return {
        unicodedata.normalize("NFC", word).casefold(): _KINDS[name]
        for name in reversed(rows)
        for word in rows[name].split()
    }


def addresses(words: Sequence[str]) -> bool:
    """Return whether words directly before a value say that somebody is spoken to: `sprichst gerade mit`."""
    said = [_plain(word) for word in words]
    if not said:
        return False
    if said[-1] in _words("titles"):
        return True
    talking = _words("talking")
    return not talking.isdisjoint(said) and (
        said[-1] in _words("with") or said[-1] in talking - {"chat", "talk", "speak"}
    )


def _plain(word: str) -> str:
    return word.rstrip(".").casefold()
