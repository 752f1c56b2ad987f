"""Shapes that the values of one slot share as texts: random ids of any alphabet, branches, hosts, models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.values.kv102 import KV102
from kvtool.diagnose.codes.values.kv106 import KV106
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.diagnose.values.labels import MODEL

_FILE_LINE = re.compile(
    r"[\s\u2502\u251c\u2514\u2500|`+*\u2022-]{0,40}(?:\.{0,2}/)?[\w.@+~-]{1,80}(?:[/\\][\w.@+~-]{1,80}){0,12}[/\\]?"
    r"(?:\s{1,4}(?:\([^()\n]{1,40}\)|\d[\d.,]{0,12}\s?[KMG]?i?B?))?"
)
"""With the size or the date that some listings put after."""
_TELLING = re.compile(r"[/\\]|[\w)]\.[A-Za-z][\w]{0,7}\b|[\u251c\u2514\u2502]")
_MOST_LINES = 400
_LONGEST_LINE = 400
RANDOM = DifferenceKind("id", "random id", KV102.code)
BRANCH = DifferenceKind("branch", "branch (git)", KV106.code)
HOST = DifferenceKind("host", "host or pod", KV106.code)
SYSTEM = DifferenceKind("system", "host, build or model", KV106.code)

_VOWELS = "aeiou"
_LONGEST = 128

_AROUND = " \t\r\n\"'`.,;:!?()[]{}"
_LABEL_ENDS = "=:\uff1a \t"
_DIGITS = re.compile(r"\d+")
_PART = re.compile(r"[^\W_]++")
_BRANCH = re.compile(
    r"(?:main|master|develop|development|dev|trunk|staging|production|HEAD"
    r"|(?:feature|feat|fix|bugfix|hotfix|release|releases|chore|docs|doc|refactor|test|perf|ci|build|wip|spike|experiment"
    r"|dependabot|renovate|users?|topic|task|issue|story)/[\w./#@+-]{1,120})"
)
_HOST = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9-]{0,62})\.){1,6}(?:local|internal|lan|intra|svc|cluster|corp|home|arpa|net|com|org|io|dev|cloud)(?::\d{1,5})?"
    r"|[a-z][a-z0-9-]{1,60}-[0-9a-f]{6,10}-[bcdfghjklmnpqrstvwxz2-9]{5}"
    r"|(?:ip(?:-\d{1,3}){4}|(?:[a-z]{2,20}-){1,4}\d{1,4})"
)
_MODEL = re.compile(
    r"(?i:(?:[\w-]{1,40}/)?(?:gpt|chatgpt|claude|gemini|gemma|llama|codellama|mistral|mixtral|codestral|qwen|deepseek|command|phi|grok"
    r"|o[1-9]|yi|glm|kimi|nova|granite|nemotron|falcon)[\w.:-]{0,80})"
)
_SLUG = re.compile(r"main|master|trunk|dev|develop|HEAD|(?=[\w.#@+-]*[\d/_-])[a-z][\w./#@+-]{1,120}")
_SYSTEM = re.compile(r"[A-Za-z][A-Za-z0-9]{0,40}(?:[-.:/][A-Za-z0-9]{1,40}){1,6}")
_GROUPS = re.compile(r"[A-Z0-9]{2,8}(?:-[A-Z0-9]{2,8}){2,7}")
"""Random ids in groups that are easy to read aloud."""
_FORMS: tuple[tuple[DifferenceKind, re.Pattern[str]], ...] = (
    (BRANCH, _BRANCH),
    (HOST, _HOST),
    (MODEL, _MODEL),
)


def shape_of(values: Sequence[str]) -> tuple[DifferenceKind, float] | None:
    """Return the kind that explains nearly all of a slot's distinct values together, and the share that it does; None where none
    does.
    """
    texts = [value for each in values if (value := each.strip(_AROUND)) and len(value) <= _LONGEST]
    if len(texts) < THRESHOLDS.fewest_ids or len(texts) < THRESHOLDS.explained * len(values):
        return None
    named = _without_label(texts)
    return _by_form(named) or _branches(named) or _random(texts) or _system(named)


def _by_form(texts: Sequence[str]) -> tuple[DifferenceKind, float] | None:
    for kind, form in _FORMS:
        share = _share(form, texts)
        if share >= THRESHOLDS.explained and not all(map(str.isalpha, texts)):
            return kind, share
    return None


def _branches(texts: Sequence[str]) -> tuple[DifferenceKind, float] | None:
    """Return branches, some of which have names of their own (`wip-parser`)."""
    known = [text for text in texts if _BRANCH.fullmatch(text)]
    told = any("/" in text for text in known) and any("/" not in text for text in known)
    return (BRANCH, 1.0) if told and all(map(_SLUG.fullmatch, texts)) else None


def _system(texts: Sequence[str]) -> tuple[DifferenceKind, float] | None:
    """Return names of several parts, most of them with a number, that differ in more than that: what differs in it alone is a
    number.
    """
    share = _share(_SYSTEM, texts)
    numbered = sum(any(map(str.isdigit, text)) for text in texts)
    named = numbered >= THRESHOLDS.numbered * len(texts) and len({_DIGITS.sub("0", text) for text in texts}) > 1
    return (SYSTEM, share) if share >= THRESHOLDS.explained and named else None


def _share(form: re.Pattern[str], texts: Sequence[str]) -> float:
    return sum(form.fullmatch(text) is not None for text in texts) / len(texts)


def _random(texts: Sequence[str]) -> tuple[DifferenceKind, float] | None:
    """Return random ids: each of the words that vary has one length, and no two are alike in more than chance would have."""
    grouped = all(map(_GROUPS.fullmatch, texts))
    cores = [core.replace("-", "") for core in texts] if grouped else _cores(texts)
    word_lists = [_PART.findall(core) for core in cores]
    return _random_words(word_lists) or _random_words(_without_repeats(word_lists))


def _without_repeats(word_lists: list[list[str]]) -> list[list[str]]:
    """Return the words of each value once, without those that most values have: `data-ab12 and data-ab12` is one random id."""
    count = Counter(word for words in word_lists for word in set(words))
    return [[word for word in dict.fromkeys(words) if 2 * count[word] <= len(word_lists)] for words in word_lists]


def _random_words(word_lists: Sequence[Sequence[str]]) -> tuple[DifferenceKind, float] | None:
    """Return the same of values whose words were word_lists."""
    usual = Counter(tuple(map(len, parts)) for parts in word_lists).most_common(1)[0][0]
    of_one = [parts for parts in word_lists if tuple(map(len, parts)) == usual]
    share = len(of_one) / len(word_lists)
    if share < THRESHOLDS.explained:
        return None
    columns = [column for column in zip(*of_one, strict=True) if len(set(column)) > 1]
    return (RANDOM, share) if columns and all(map(_is_random, columns)) else None


def _is_random(words: Sequence[str]) -> bool:
    """Return whether words of one length look drawn by chance."""
    letters = not any(map(str.isdigit, "".join(words)))
    least, fewest = (
        (THRESHOLDS.shortest_letter_id, THRESHOLDS.fewest_letter_ids)
        if letters
        else (THRESHOLDS.shortest_id, THRESHOLDS.fewest_ids)
    )
    if len(words[0]) < least or len(set(words)) < fewest or all(map(str.isdecimal, words)):
        return False
    if letters and sum(map(_VOWELS.__contains__, "".join(words).lower())) > THRESHOLDS.vowels * len(words[0]) * len(
        words
    ):
        return False
    same = sum(a == b for one, other in pairwise(words) for a, b in zip(one, other, strict=True))
    return same <= THRESHOLDS.alike * len(words[0]) * (len(words) - 1)


def _without_label(texts: Sequence[str]) -> list[str]:
    """Return the values without a label that all of them begin with (`node=`)."""
    shared = texts[0][: _constant(texts)]
    start = next((at for at in range(len(shared), 0, -1) if shared[at - 1] in _LABEL_ENDS), 0)
    return [text[start:].lstrip(_AROUND) for text in texts]


def _cores(texts: Sequence[str]) -> list[str]:
    """Return the values without the words that all of them begin and end with."""
    start = _constant(texts)
    stop = _constant([text[start:][::-1] for text in texts])
    return [text[start : len(text) - stop] for text in texts]


def _constant(texts: Sequence[str]) -> int:
    """Return how many characters all texts begin with, up to the last one of them that is no letter and no digit."""
    low, high = min(texts), max(texts)
    shared = next((at for at, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))
    while shared and low[shared - 1].isalnum():
        shared -= 1
    return shared


def lists_files(text: str) -> bool:
    """Return whether all lines of a text are entries of a listing of files, each with a folder, an ending or a branch in it."""
    lines = [line for line in str.__str__(text).split("\n", _MOST_LINES)[:_MOST_LINES] if line.strip()]
    return bool(lines) and all(
        _TELLING.search(line) is not None and _FILE_LINE.fullmatch(line.rstrip()) is not None for line in lines
    )


def in_file_list(text: str, at: int) -> bool:
    """Return whether the line of a place is an entry of a listing of files, and the one before or after it another."""
    plain = str.__str__(text)
    start, stop = plain.rfind("\n", 0, at) + 1, plain.find("\n", at)
    stop = len(plain) if stop < 0 else stop
    if stop - start > _LONGEST_LINE or not lists_files(plain[start:stop]):
        return False
    above = plain[max(plain.rfind("\n", 0, max(start - 1, 0)) + 1, start - _LONGEST_LINE) : max(start - 1, 0)]
    below = plain[stop + 1 : stop + 1 + _LONGEST_LINE].partition("\n")[0]
    return lists_files(above) or lists_files(below)
