"""Precision of clocks, effect of methods on varying values, and names that say enough without data flow."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import REQUEST_ID
from kvtool.diagnose.codes.values.kv104 import USER
from kvtool.diagnose.codes.values.kv105 import COUNTER
from kvtool.diagnose.codes.values.kv106 import ENVIRONMENT
from kvtool.diagnose.word_lists import word_set
from kvtool.lint.evidence.volatile_calls import RANDOM
from kvtool.lint.skeleton import Hole

DATE = DifferenceKind("date", "date, changes daily", TIME.code)
_FINE = re.compile(r"%[-#]?[HIMSfXcpsTRrLQ]|HH|mm:|:ss")
_OF_THE_DAY = word_set(__file__, "of_the_day")
_OF_THE_ZONE = word_set(__file__, "of_the_zone")
_KEEPS = word_set(__file__, "keeps")


def refined(hole: Hole, method: str, pattern: str | None = None) -> Hole | None:
    """Return the hole that a method or an attribute leaves of a varying value; None where nothing of it gets into a text."""
    if hole.kind in (TIME, DATE):  # whatever is taken of a clock changes with it
        if method in _OF_THE_ZONE:
            return None
        if method in _OF_THE_DAY:
            return replace(hole, kind=DATE, clock=True)
        return dated(hole, pattern or "") if method == "strftime" else hole
    if hole.kind is RANDOM:
        return hole  # what is taken of something random is random
    return hole if method in _KEEPS or method in ("", "__str__") else None


def keeps(method: str) -> bool:
    """Return whether something of a value gets into what a method or an attribute of it gives."""
    return method in _KEEPS


def dated(hole: Hole, pattern: str) -> Hole:
    """A clock as a format writes it: only a date where nothing in it is finer than a day."""
    if hole.kind is TIME and "%" in pattern and not _FINE.search(pattern):
        return replace(hole, kind=DATE)
    return hole


_SURE_NAMES: tuple[tuple[DifferenceKind, re.Pattern[str]], ...] = (
    (
        TIME,
        re.compile(
            r"(?:(?:get_)?(?:current|curr|todays?|today_s|now|utc|local|iso|formatted|present|system)_?)+(?:date|time|datetime|timestamp|date_?time|day|hour)"
            r"(?:_(?:str|string|iso|text|utc|info|formatted))?|now|today|timestamp|datetime_now|date_?today|time_?now|now_(?:str|iso|utc|text)|today_(?:str|iso|date)"
            r"|utcnow|weekday|day_of_week|date_str|time_str|timestamp_str|current_(?:year|month|weekday)"
        ),
    ),
    (
        REQUEST_ID,
        re.compile(
            r"(?:request|session|conversation|thread|trace|run|message|call|event|transaction|correlation|chat|job|span|task|execution|interaction)_?"
            r"(?:uu)?id|uuid|guid|nonce|random_(?:id|string|seed|suffix|token|str)|session_(?:key|token)|unique_id"
        ),
    ),
    (USER, re.compile(r"user_?(?:name|id|email)|username|customer_(?:name|id|email)|tenant_id|account_id"
            r"|(?:employee|member)_(?:name|id)")),
    (
        COUNTER,
        re.compile(r"(?:current_)?(?:step|iteration|attempt|turn|round|retry)_?(?:number|num|no|count|idx|index)|current_(?:step|iteration|attempt|turn|round|loop)|iteration|attempt|retry_count|turn_count|n_steps|step_idx"),
    ),
    (
        ENVIRONMENT,
        re.compile(r"cwd|pwd|(?:current_)?work(?:ing)?_?dir(?:ectory)?|current_(?:dir|directory|folder)|hostname|host_name|git_(?:branch|commit|sha|status)|current_branch|commit_(?:hash|sha)|home_dir"),
    ),
)  # fmt: skip
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=8192)
def sure_kind(name: str) -> DifferenceKind | None:
    """The kind of value that a name without data flow says beyond doubt: the whole of its last part must say so."""
    last = _CAMEL.sub("_", name.rpartition(".")[2][:80]).lower().strip("_")
    return next((kind for kind, pattern in _SURE_NAMES if pattern.fullmatch(last)), None)


def id_of(name: str) -> DifferenceKind | None:
    """The kind of an `id` by what it is the id of: `task.id` is a `task_id`."""
    owner, _, last = name.rpartition(".")
    return sure_kind(f"{owner.rpartition('.')[2]}_id") if last == "id" and owner else None
