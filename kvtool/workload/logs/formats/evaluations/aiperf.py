"""AIPerf: its input file, and its raw export with what was sent in `payload` and what came back in `responses`."""

from __future__ import annotations

from typing import Any

from kvtool.workload.logs.records.call_context import FieldsAround, body
from kvtool.workload.logs.records.call_fields import names_of, usage_in
from kvtool.workload.logs.records.chat_records import answer_of
from kvtool.workload.logs.records.failed_calls import FAILED, has_failed
from kvtool.workload.logs.records.record import Record, kind, object_of, seconds
from kvtool.workload.logs.records.record_format import Fields, LeftOut, Reading, RecordFormat, Several, collected
from kvtool.workload.logs.records.streamed_answers import answer_in

_OTHER = LeftOut("other request")
_WARM_UP = LeftOut("warm-up request")


def read_raw(record: Record) -> Reading:
    """Return the request of a payload."""
    told = record.fields["metadata"]
    if has_failed(record) or record.fields.get("error") or told.get("was_cancelled"):
        return FAILED
    if told.get("benchmark_phase") == "warmup":
        return _WARM_UP
    inner = record.inner("payload")
    if inner is None:
        raise record.error("`payload` must be an object", "payload")
    answer = _answer(record.fields.get("responses"))
    at = record.pointer if record.in_text else (*record.pointer, "responses")
    around = FieldsAround(
        session=names_of([told.get("conversation_id"), told.get("x_correlation_id")]),
        time=seconds(told.get("request_start_ns"), "ns", fixed=True),
        end=seconds(told.get("request_end_ns"), "ns", fixed=True),
        identity=names_of([told.get("x_request_id")]),
        usage=usage_in((answer, at)),
        output_text=answer_of(answer)[0],
    )
    return body(inner, around) or _OTHER


def read_inputs(record: Record) -> Reading:
    """Return the requests of a session."""
    payloads = record.list_of("payloads")
    session = names_of([record.fields.get("session_id")]) or record.session
    found = Several()
    for i, payload in enumerate(payloads):
        inner = record.inner("payloads", i)
        if inner is None:
            raise record.error(f"payloads[{i}] must be an object, not {kind(payload)}", "payloads", i)
        found += collected(body(inner, FieldsAround(session=session)) or _OTHER)
    return found


def refuse_numbers(record: Record) -> Reading:
    """Return an export of figures is no log of prompts."""
    raise record.error(
        "AIPerf's export of figures contains no prompts", hint="run AIPerf with --export-level raw, and pass that file"
    )


def _answer(responses: Any) -> dict[str, Any]:
    """Return the answer of the API: in one text, or in the packets of a stream."""
    events: list[Any] = []
    for response in responses if isinstance(responses, list) else ():
        if not isinstance(response, dict):
            continue
        if isinstance(response.get("text"), str):
            events.append(answer_in(response["text"]))
        packets = response.get("packets")
        events += [
            answer_in(packet.get("value"))
            for packet in (packets if isinstance(packets, list) else ())
            if isinstance(packet, dict) and packet.get("name") == "data"
        ]
    found = [each for each in events if isinstance(each, dict)]
    whole = found[0] if len(found) == 1 else answer_in(found)
    return object_of(whole)


def _is_raw(fields: Fields) -> bool:
    told = fields.get("metadata")
    return "payload" in fields and isinstance(told, dict) and ("conversation_id" in told or "request_start_ns" in told)


def _is_figures(fields: Fields) -> bool:
    told = fields.get("metadata")
    return isinstance(told, dict) and "metrics" in fields and "request_start_ns" in told


_AIPERF_RAW_EXAMPLE = """
{"metadata": {"conversation_id": "s1", "turn_index": 0, "request_start_ns": 1770022800000000000},
 "payload": {"model": "gpt-5.5", "messages": [{"role": "system", "content": "You are Mina."}, {"role": "user",
 "content": "Is it open?"}]}}
"""
_AIPERF_INPUTS_EXAMPLE = """
{"data": [{"session_id": "s1", "payloads": [{"model": "gpt-5.5", "messages": [{"role": "system",
 "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}]}]}]}
"""
_AIPERF_FIGURES_EXAMPLE = """
{"metadata": {"request_start_ns": 1770022800000000000}, "metrics": {}}
"""
FORMATS = (
    RecordFormat("aiperf-raw", "payload + metadata.conversation_id", _is_raw, read_raw, example=_AIPERF_RAW_EXAMPLE),
    RecordFormat(
        "aiperf-inputs",
        "session_id + payloads",
        lambda fields: isinstance(fields.get("payloads"), list),
        read_inputs,
        example=_AIPERF_INPUTS_EXAMPLE,
        ending=".json",
    ),
    RecordFormat(
        "aiperf-figures",
        "metrics + metadata.request_start_ns",
        _is_figures,
        refuse_numbers,
        example=_AIPERF_FIGURES_EXAMPLE,
    ),
)
