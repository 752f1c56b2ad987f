"""For how long a request asks its provider to keep what it writes, where the provider reports one sum of written tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kvtool.text.cache_marks import markable, marks_on
from kvtool.workload.call import Call

_HOUR = "1h"


def with_written_times(call: Call, tools: Sequence[Any] | None, messages: Sequence[Any] | None) -> Call:
    """Return the call with its written tokens as those of an hour where all its marks ask for an hour.

    A server that reports the parts itself is right, and marks of two times leave the parts unknown.
    """
    usage = call.usage
    if usage is None or not usage.written or not usage.written_5m is usage.written_1h is None:
        return call
    times = {call.settings.cache_ttl} - {None}
    for block in markable(tools, messages):
        times.update(mark.get("ttl") if isinstance(mark, dict) else None for mark in marks_on(block).values())
    return replace(call, usage=replace(usage, written_1h=usage.written)) if times == {_HOUR} else call
