"""What the name of a template variable says about its value."""

from __future__ import annotations

import re

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import REQUEST_ID
from kvtool.diagnose.codes.values.kv104 import USER
from kvtool.diagnose.codes.values.kv105 import COUNTER
from kvtool.diagnose.codes.values.kv106 import ENVIRONMENT
from kvtool.diagnose.codes.values.kv107 import FLAG

_LONGEST_NAME = 200
_WORD = re.compile(r"[A-Z]{1,40}(?![a-z])|[A-Z]?[a-z]{1,40}")


_NOUNS: tuple[tuple[DifferenceKind, str], ...] = (
    (
        TIME,
        "now date time clock datetime timestamp today tomorrow yesterday weekday hour day month year utcnow strftime ts",
    ),
    (REQUEST_ID, "uuid guid ulid ksuid nanoid nonce trace traceparent span correlation random"),
    (
        USER,
        (
            "user username tenant customer account locale lang language timezone tz session plan organization org member employee"
            " country currency region email"
        ),
    ),
    (
        COUNTER,
        "step steps count counter retry retries turn version attempt attempts iteration iter round revision seq index",
    ),
    (
        ENVIRONMENT,
        "cwd path paths branch commit tree platform os shell dir directory folder repo repository git sha pwd hostname",
    ),
    (FLAG, "flag flags variant experiment bucket toggle treatment cohort"),
)
_WITH_ID: tuple[tuple[DifferenceKind, str], ...] = (
    (REQUEST_ID, "request req run job task message msg call event transaction order ticket response completion"),
    (USER, "conversation conv thread chat"),
)
"""What is only meant where `id` follows: a `request` is more often what somebody asks."""
_SAYS_NOTHING = "id key value name current string str text iso utc local formatted is the no num number"
_IDS = "id key number no num"
_CONTENT = (
    "message messages input query question prompt content context history document documents docs answer answers"
    " instruction instructions request profile preferences info details"
)
"""What people write: nothing follows from whose it is (`user_message`)."""


def kind_of_name(name: str) -> DifferenceKind | None:
    """The kind of value that a variable of this name holds; None where the name does not say.

    Snake case, camel case and dotted names are read word by word from the end, where the noun stands: a `session_time` is a time.
    """
    words = [word.lower() for word in _WORD.findall(name[:_LONGEST_NAME])]
    if words[-2:] == ["time", "zone"]:
        return USER
    id_follows = False
    for word in reversed(words):
        if id_follows and (kind := _in(_WITH_ID, word)) is not None:
            return kind
        if word in _CONTENT.split():
            return None
        if (kind := _in(_NOUNS, word)) is not None:
            return kind
        if word not in _SAYS_NOTHING.split():
            id_follows = False
        id_follows = id_follows or word in _IDS.split()
    return None


def says_time_alone(label: str) -> bool:
    """Whether every word of a label is a noun of time, or says nothing: `the current hour`, not `seats left right now`."""
    words = [word.lower() for word in _WORD.findall(label[:_LONGEST_NAME])]
    return all(word in _SAYS_NOTHING.split() or _in(_NOUNS, word) is TIME for word in words)


def _in(table: tuple[tuple[DifferenceKind, str], ...], word: str) -> DifferenceKind | None:
    return next((kind for kind, words in table if word in words.split()), None)
