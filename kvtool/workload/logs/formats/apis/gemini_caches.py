"""Explicit caches of Gemini's API in logs: resources `cachedContents/…`, calls that make them, and requests that name them.

The API says of a cache how many tokens it holds (`usageMetadata.totalTokenCount`), when it was made (`createTime`) and until when
it is kept (`expireTime`); who makes one may say `ttl` (`"3600s"`) instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kvtool.text.bounded_number import finite_number, whole_number
from kvtool.workload.call import StoredContent
from kvtool.workload.logs.records.call_fields import answer_object, names_of
from kvtool.workload.logs.records.record import Record, seconds
from kvtool.workload.logs.records.record_readings import LeftOut, Several

Fields = dict[str, Any]

KIND = "explicit cache"
_NAME = re.compile(r"(?:[\w.~-]+/)*cachedContents/[\w.~-]+")
_TTL = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s?")
_NAMED = ("cachedContent", "cached_content", "cachedContents", "cached_contents")
_ASKING = ("contents", "request", "body", "payload", "params")
"""What holds a request that names caches beside it."""
_TIMES = ("ttl", "expireTime", "expire_time", "createTime", "create_time")


def is_cache(fields: Fields) -> bool:
    """Whether an object is a cache or a list of them, or asks for one, and is no request of a model."""
    listed = fields.get("cachedContents", fields.get("cached_contents"))
    if isinstance(listed, list) and all(isinstance(each, dict) for each in listed):
        return bool(listed) and not any(each in fields for each in _ASKING)
    name = fields.get("name")
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and any(each in fields for each in _TIMES)


def read(record: Record) -> Several:
    """Those of a record that is about nothing else."""
    return Several(LeftOut(KIND, stored=each) for each in _listed(record.fields))


def creation(record: Record) -> LeftOut | None:
    """The cache that a body with contents makes; None for a request of a model."""
    answer = answer_object(record)[0]
    if is_cache(answer):
        made = _stored({**_said(record.fields), **answer}, made=True)
        return LeftOut(KIND, stored=made)
    if "cachedContents" in str(record.first("url", "endpoint", "path") or "") and "candidates" not in answer:
        return LeftOut(KIND)
    asks = any(record.fields.get(name) is not None for name in _TIMES[:3]) and "candidates" not in answer
    return LeftOut(KIND) if asks else None


def named_by(record: Record) -> tuple[StoredContent, ...]:
    """What a request, its answer and what is around them say of the caches that they name."""
    found: list[StoredContent] = []
    for fields in (record.fields, *record.around, answer_object(record)[0]):
        found += _listed(fields)
    return tuple(found)


def _listed(fields: Fields) -> Iterator[StoredContent]:
    holders: list[Any] = [fields] if is_cache(fields) else []
    for name in _NAMED:
        value = fields.get(name)
        holders += value if isinstance(value, list) else [value]
    for each in holders:
        if isinstance(each, dict) and isinstance(each.get("name"), str) and _NAME.fullmatch(each["name"]):
            yield _stored(each)


def _said(fields: Fields) -> Fields:
    return {name: fields[name] for name in ("ttl", "model") if name in fields}


def _stored(fields: Fields, *, made: bool = False) -> StoredContent:
    usage = fields.get("usageMetadata", fields.get("usage_metadata"))
    tokens = usage.get("totalTokenCount", usage.get("total_token_count")) if isinstance(usage, dict) else None
    ttl = _TTL.fullmatch(str(fields.get("ttl")))
    return StoredContent(
        name=str(fields["name"]),
        tokens=whole_number(tokens, least=1),
        created=seconds(fields.get("createTime", fields.get("create_time")), "s"),
        expires=seconds(fields.get("expireTime", fields.get("expire_time")), "s"),
        ttl=None if ttl is None else finite_number(ttl[1], in_text=True),
        model=names_of([fields.get("model")]),
        made=made,
    )
