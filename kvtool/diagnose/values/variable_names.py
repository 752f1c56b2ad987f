"""Names of template variables, and the kind of value that they name."""

from __future__ import annotations

import re
from functools import cache, partial

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import REQUEST_ID
from kvtool.diagnose.codes.values.kv104 import USER
from kvtool.diagnose.codes.values.kv105 import COUNTER
from kvtool.diagnose.codes.values.kv106 import ENVIRONMENT
from kvtool.diagnose.codes.values.kv107 import FLAG
from kvtool.diagnose.word_lists import read_words, word_set

_words = partial(word_set, __file__)
"""Return a set of words of the TOML file beside this module."""
_KINDS = {
    "time": TIME,
    "request_id": REQUEST_ID,
    "user": USER,
    "counter": COUNTER,
    "environment": ENVIRONMENT,
    "flag": FLAG,
}
_LONGEST_NAME = 200
_WORD = re.compile(r"[A-Z]{1,40}(?![a-z])|[A-Z]?[a-z]{1,40}")


def kind_of_name(name: str) -> DifferenceKind | None:
    """Return the kind of value that a variable of this name holds; None where the name does not say.

    Snake case, camel case and dotted names are read word by word from the end, where the noun stands: a `session_time` is a time.
    """
    words = [word.lower() for word in _WORD.findall(name[:_LONGEST_NAME])]
    if words[-2:] == ["time", "zone"]:
        return USER
    id_follows = False
    for word in reversed(words):
        if id_follows and (kind := _kinds("with_id").get(word)) is not None:
            return kind
        if word in _words("content"):
            return None
        if (kind := _kinds("nouns").get(word)) is not None:
            return kind
        if word not in _words("no_kind"):
            id_follows = False
        id_follows = id_follows or word in _words("ids")
    return None


def names_only_time(label: str) -> bool:
    """Return whether every word of a label is a noun of time, or says nothing: `the current hour`, not `seats left right now`."""
    words = [word.lower() for word in _WORD.findall(label[:_LONGEST_NAME])]
    return all(word in _words("no_kind") or _kinds("nouns").get(word) is TIME for word in words)


def request_names(label: str) -> frozenset[str]:
    """Return the words by which a label names the request, trace or session itself: `request` and `id` in `the request id`.

    Empty where another word says what it is (`refund request`), or none does.
    """
    words = [word.lower() for word in _WORD.findall(label[:_LONGEST_NAME])]
    named = {word for word in words if word not in _words("no_kind")}
    if not named or not named <= _words("of_request"):
        return frozenset()
    return frozenset(named.union(word for word in words if word in _words("ids")))


@cache
def _kinds(table: str) -> dict[str, DifferenceKind]:
    """Return the kind of each word of a table; of a word with several the first."""
    rows = read_words(__file__)[table]
    return {word: _KINDS[name] for name in reversed(rows) for word in rows[name].split()}
