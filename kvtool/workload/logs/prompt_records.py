"""Records that hold a prompt as one text, or as the lists that the completions API takes in its place."""

from __future__ import annotations

from dataclasses import replace

from kvtool.text.files.json_stream import is_message
from kvtool.workload.logs import chat_records, trace_records
from kvtool.workload.logs.reading import Reading
from kvtool.workload.logs.record import Record
from kvtool.workload.logs.told_calls import call_of, sampled_of
from kvtool.workload.logs.whole_prompts import why_incomplete

PROMPTS = ("prompt", "text_input", "text", "input", "inputs")
"""Fields that hold one."""


def prompts(record: Record) -> Reading:
    """A prompt as text; also the lists that the completions API takes in its place."""
    name, value = record.required(*PROMPTS)
    if isinstance(value, list) and value:
        if is_message(value[0]):
            return chat_records.chat_at(record, name)
        if isinstance(value[0], str):
            return [
                record.turn(index=i, turns=len(value), text=record.text(each, name, i, part=f"{name}[{i}]"))
                for i, each in enumerate(value)
            ]
        return [record.turn(call=call_of(record), token_ids=trace_records.ids_of(record, value, name))]
    output, length = chat_records.answer_of(record.found("output", "response", "response_body", "completion")[0])
    text = record.text(value, name, part=name)
    call = call_of(record)
    if (why := why_incomplete([text], None if call.usage is None else call.usage.prompt, uncounted=False)) is not None:
        call = replace(call, incomplete=why)
    ids = sampled_of(record)
    return [record.turn(call=call, text=text, output_text=output, output_ids=ids, output_tokens=length)]
