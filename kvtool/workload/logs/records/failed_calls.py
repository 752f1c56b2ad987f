"""Why a provider refused a call, without the text of its error."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from kvtool.text.bounded_number import whole_number
from kvtool.workload.logs.records.record import RESPONSES, Record, object_of
from kvtool.workload.logs.records.streamed_answers import answer_in

_TOO_MANY_MARKS = re.compile(r"maximum of (\d{1,3}) blocks with cache_control may be provided\. Found (\d{1,3})")
_LOOKED_AT = 4_096
"""Characters of an error that are read."""


def why_failed(record: Record, names: Sequence[str]) -> str | None:
    """Return what a provider refused, as far as its error says so in known words: its text may quote the prompt.

    `names` are the fields that hold errors.
    """
    answer = object_of(record.found(*RESPONSES)[0])
    body = inner if isinstance(inner := answer_in(answer.get("body")), dict) else answer
    for error in (body.get("error"), *(record.first(name) for name in names)):
        text = error if isinstance(error, str) else json.dumps(error, default=repr) if error else ""
        if (marks := _TOO_MANY_MARKS.search(text[:_LOOKED_AT])) is not None:
            return f"the provider refused a request: {int(marks[2])} marks (cache_control), {int(marks[1])} are allowed"
        status = object_of(error).get("code", object_of(error).get("status"))
        if (code := whole_number(status, least=400, most=599, in_text=True)) is not None:
            return f"the server answered with HTTP status {code}"
    return None
