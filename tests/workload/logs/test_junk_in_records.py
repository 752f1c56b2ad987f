"""Whatever stands in the place of a value: a record is read, left out, or refused with its place; nothing else."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from kvtool.workload.logs.records.joined_records import Joins
from kvtool.workload.logs.records.record import RecordError, Where
from kvtool.workload.logs.records.record_format import FoundCall
from kvtool.workload.logs.records.records import outline, read_record
from tests.conftest import some
from tests.workload.logs.log_lines import chat
from tests.workload.logs.test_log_rules import responses
from tests.workload.logs.test_trace_exports import GENAI, INDEXED, MESSAGES, OPENINFERENCE, VERCEL, langfuse, otlp, span

SAID = json.dumps({"model": "m", "messages": MESSAGES})


def structured() -> Any:
    """A call in a logged event whose values are no texts."""
    part = {"kvlistValue": {"values": [text("type", "text"), text("content", "Who has it?")]}}
    message = {
        "kvlistValue": {"values": [text("role", "user"), {"key": "parts", "value": {"arrayValue": {"values": [part]}}}]}
    }
    said = [
        text("gen_ai.operation.name", "chat"),
        {"key": "gen_ai.input.messages", "value": {"arrayValue": {"values": [message]}}},
        {"key": "gen_ai.system_instructions", "value": {"arrayValue": {"values": [part]}}},
    ]
    event = {
        "eventName": "gen_ai.client.inference.operation.details",
        "traceId": "t",
        "spanId": "s",
        "attributes": said,
    }
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [event]}]}]}


def text(key: str, value: str) -> Any:
    """An attribute of OTLP."""
    return {"key": key, "value": {"stringValue": value}}


RECORDS: list[Any] = [
    chat(0),
    responses(1, "Second?", "resp_0"),
    *(otlp(span("c", attributes, parent="p")) for attributes in (GENAI, INDEXED, OPENINFERENCE, VERCEL)),
    langfuse(input=MESSAGES, usageDetails={"input": 9, "output": 3}, costDetails={"total": 0.1}),
    {"id": "t", "sessionId": "s", "observations": [langfuse(input={"messages": MESSAGES})]},
    {
        "id": "r",
        "run_type": "llm",
        "extra": {"metadata": {"thread_id": "s"}},
        "inputs": {"messages": [MESSAGES]},
        "outputs": {},
    },
    {"request_id": "r", "call_type": "acompletion", "spend": 1, "metadata": {}, "messages": MESSAGES, "response": {}},
    {"request_body": {"messages": MESSAGES}, "request_id": "r", "request_properties": {"Helicone-Session-Id": "s"}},
    {"payload": {"messages": MESSAGES}, "metadata": {"conversation_id": "c", "request_start_ns": 10**18}},
    {
        "id": "c",
        "op_name": "op/openai.create:1",
        "started_at": "2026-02-02",
        "inputs": {"model": "m", "messages": MESSAGES},
    },
    {
        "span_id": "s",
        "span_attributes": {"type": "llm"},
        "input": MESSAGES,
        "metadata": {},
        "metrics": {"prompt_tokens": 9},
    },
    {
        "info": {"trace_metadata": {"mlflow.trace.session": "s"}},
        "data": {"spans": [{"span_id": "1", "attributes": {"mlflow.spanType": '"LLM"', "mlflow.spanInputs": SAID}}]},
    },
    {"instruction": "Sort these.", "input": "b, a", "output": "a, b"},
    structured(),
    {"log": json.dumps(chat(0)), "stream": "stdout", "time": "2026-02-02T02:40:00Z"},
    {"startedDateTime": "2026-02-02", "request": {"method": "POST", "url": "/v1/messages", "postData": {"text": SAID}}},
]
JUNK = [
    None,
    True,
    -1,
    1.5,
    10**30,
    "",
    "x",
    [],
    {},
    [[]],
    [None],
    {"a": []},
    [{}],
    "[1]",
    '{"role":3}',
    {"role": {}},
    {"type": []},
]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


def with_junk(record: Any, rng: random.Random) -> Any:
    made = json.loads(json.dumps(record))
    if not (found := list(paths(made))):
        return made
    path = rng.choice(found)
    at = made
    for key in path[:-1]:
        at = at[key]
    if rng.random() < 0.1:
        del at[path[-1]]
    else:
        at[path[-1]] = rng.choice(JUNK)
    return made


@pytest.mark.parametrize("seed", some(range(6), 2))
def test_no_value_is_more_than_a_bad_record(seed: int) -> None:
    rng = random.Random(seed)
    for record in RECORDS * 12:
        made = with_junk(with_junk(record, rng), rng)
        joins = Joins(lambda *_: (None, 0))  # type: ignore[arg-type, return-value] # nothing is noted, so nothing is fetched
        try:
            outline(made, Where("log"), None, {})
            for item in read_record(made, Where("log", joins=joins))[1]:
                if isinstance(item, FoundCall):
                    assert [item.turns[at].id for at in range(len(item.turns))]
        except RecordError:
            continue  # refused, with the way to what is wrong
