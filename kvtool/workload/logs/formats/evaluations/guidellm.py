"""Guidellm's report: each request of its benchmarks with its arguments as a JSON text.

What is inside of `request_args` is the arguments of its HTTP client; of older reports the prompt alone, in `prompt`.
"""

from __future__ import annotations

from kvtool.workload.call import Usage
from kvtool.workload.logs.records.call_context import FieldsAround, body
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.failed_calls import FAILED
from kvtool.workload.logs.records.record import Record, object_of, seconds
from kvtool.workload.logs.records.record_format import Fields, LeftOut, Reading, RecordFormat, Several, collected
from kvtool.workload.logs.records.usage import checked, count_of

NO_ARGUMENTS = LeftOut("request without its arguments")
_BODIES = ("body", "json", "content", "data")


def is_report(fields: Fields) -> bool:
    """Return whether it is such a report."""
    benchmarks = fields.get("benchmarks")
    first = benchmarks[0] if isinstance(benchmarks, list) and benchmarks else None
    return isinstance(first, dict) and isinstance(first.get("requests"), dict)


def read(record: Record) -> Reading:
    """Return all requests of all benchmarks."""
    found = Several()
    for i, benchmark in enumerate(record.fields["benchmarks"]):
        requests = benchmark.get("requests") if isinstance(benchmark, dict) else None
        for name in ("successful", "completed", "errored", "incomplete"):
            listed = requests.get(name) if isinstance(requests, dict) else None
            for j in range(len(listed) if isinstance(listed, list) else 0):
                one = record.inner("benchmarks", i, "requests", name, j)
                if one is None:
                    continue
                found += collected(FAILED if name in ("errored", "incomplete") else _request(one))
    return found


def _request(record: Record) -> Reading:
    fields = record.fields
    timings = object_of(object_of(fields.get("info")).get("timings")) or object_of(
        object_of(fields.get("scheduler_info")).get("request_timings")
    )
    output = fields.get("output")
    own_time = fields.get("request_start_time", fields.get("start_time"))
    around = FieldsAround(
        time=seconds(timings.get("request_start", own_time), "s"),
        end=seconds(timings.get("request_end", fields.get("request_end_time", fields.get("end_time"))), "s"),
        first_answer=seconds(timings.get("first_token_iteration", timings.get("first_iteration")), "s"),
        identity=names_of([fields.get("request_id")]),
        output_text=output if isinstance(output, str) else None,
        usage=_usage(record),
    )
    for path in (*(("request_args", name) for name in _BODIES), ("request_args",)):
        inner = record.inner(*path)
        if inner is not None and inner.fields:
            bare = Record(inner.fields, inner.where, inner.pointer, (), inner.in_text)
            if (reading := body(bare, around)) is not None:
                return reading
    if isinstance(fields.get("prompt"), str):
        alone = Record({"prompt": fields["prompt"]}, record.where, record.pointer, (), record.in_text)
        return body(alone, around) or NO_ARGUMENTS
    return NO_ARGUMENTS


def _usage(record: Record) -> Usage | None:
    """Return the counts of both sides."""
    prompt = _count(record, "input_metrics", "prompt_tokens")
    output = _count(record, "output_metrics", "output_tokens")
    cached = object_of(record.fields.get("input_metrics")).get("cached_tokens")
    if prompt is None and output is None:
        return None
    at = record.pointer if record.in_text else (*record.pointer, "input_metrics")
    return checked(Usage(prompt, None if cached is None else count_of(cached, "cached_tokens", at), output=output))


def _count(record: Record, metrics: str, computed: str) -> int | None:
    inner = object_of(record.fields.get(metrics))
    for name in ("total_tokens", "text_tokens"):
        if inner.get(name) is not None:
            return count_of(inner[name], name, record.pointer if record.in_text else (*record.pointer, metrics))
    value = record.fields.get(computed)
    return None if value is None else count_of(value, computed, record.pointer)


_EXAMPLE = r"""
{"benchmarks": [{"requests": {"successful": [{"request_id": "r1",
 "request_args": "{\"body\": {\"model\": \"gpt-5.5\", \"messages\": [{\"role\": \"system\", \"content\": \"You are Mina.\"}, {\"role\": \"user\", \"content\": \"Is it open?\"}]}}"}]}}]}
"""  # noqa: E501 # JSON in a text cannot be broken
FORMAT = RecordFormat("guidellm", "benchmarks[].requests", is_report, read, example=_EXAMPLE, ending=".json")
