"""Samples of lm-eval: a document a line, with the arguments of each request that was made for it."""

from __future__ import annotations

from typing import Any

from kvtool.workload.logs.records.call_context import FieldsAround, found_at
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.record_format import FoundCall, Reading, RecordFormat, Several


def read(record: Record) -> Reading:
    """Return a call for each `gen_args_N`. A file has each document once for each filter of the answers; its calls count once."""
    fields = record.fields
    arguments = fields["arguments"]
    found = Several()
    if isinstance(arguments, dict):
        requests: list[tuple[str | int, Any]] = list(arguments.items())
        requests = [each for each in requests if str(each[0]).startswith("gen_args")] or requests
    elif isinstance(arguments, list):
        requests = list(enumerate(arguments))
    else:
        requests = []
    for at, (key, request) in enumerate(requests):
        path, values = _values(request)
        if not values:
            continue
        call = _call(record, values, ("arguments", key), path, _answer(fields, at))
        name = names_of([fields.get("doc_hash"), fields.get("doc_id")])
        call.identity = f"{record.where.path}/{name}/{fields.get('prompt_hash')}/{at}"
        found.append(call)
    if not found:
        raise record.error("`arguments` has no request", "arguments")
    return found


def _values(request: Any) -> tuple[list[str | int], list[Any]]:
    if isinstance(request, dict):
        return list(request), list(request.values())
    return (list(range(len(request))), request) if isinstance(request, list) else ([], [])


def _call(
    record: Record, values: list[Any], above: tuple[str | int, ...], path: list[str | int], answer: str | None
) -> FoundCall:
    prompt, at = values[0], (*above, path[0])
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt, at = prompt[0], (*at, 0)
    found = found_at(record, prompt, *at, around=FieldsAround(), answer=answer)
    rest = values[1] if len(values) > 1 else None
    turn = found.turns[0]
    if isinstance(rest, str) and turn.text is not None:
        # The model is asked how likely a continuation is, so that it is a part of the prompt.
        turn.text = turn.text + record.text(rest, *above, path[1], part="continuation")
        turn.output_text, turn.output_tokens = "", 1
    return found


def _answer(fields: dict[str, Any], at: int) -> str | None:
    answers = fields.get("resps")
    value = answers[at] if isinstance(answers, list) and at < len(answers) else None
    while isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, str) else None


_EXAMPLE = """
{"doc_id": 0, "arguments": {"gen_args_0": {"arg_0": "Q: Is it open?", "arg_1": {}}}, "resps": [["Yes."]]}
"""
FORMAT = RecordFormat(
    "lm-eval",
    "doc_id + arguments",
    lambda fields: "arguments" in fields and ("doc_id" in fields or "doc" in fields),
    read,
    example=_EXAMPLE,
)
