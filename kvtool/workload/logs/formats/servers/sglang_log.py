"""SGLang's log of requests, as JSON events or as text: what came in `obj`, and how it ended in `out`.

Level 2 of `--log-requests-level` cuts the middle out of long texts, those below leave texts out.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence

from kvtool.text.bounded_number import finite_number
from kvtool.text.files.json_stream import RawRecord
from kvtool.workload.logs.files.file_kinds import FileKind
from kvtool.workload.logs.formats.servers.python_reprs import integers_of, items_at, number_of, string_at, string_of
from kvtool.workload.logs.formats.servers.server_lines import LogClock, front_of, has_line, lines_of
from kvtool.workload.logs.formats.servers.usage_records import counted_usage
from kvtool.workload.logs.records.call_context import FieldsAround
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.failed_calls import FAILED
from kvtool.workload.logs.records.incomplete_prompts import CUT
from kvtool.workload.logs.records.joined_records import Key
from kvtool.workload.logs.records.record import Record, object_of, parsed_text, seconds
from kvtool.workload.logs.records.record_format import Fields, LeftOut, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import usage_of

_BATCH = re.compile(r"\bPrefill batch\b.{0,40}?#new-seq: \d{1,9}, #new-token: (\d{1,9}), #cached-token: (\d{1,9})\b")
_BEGINS = re.compile(rf"\b(?:Receive|Finish): obj=\w{{1,60}}\(|\] server_args=ServerArgs\(|{_BATCH.pattern}")
_MOST_BATCHES = 1 << 20
_REQUEST = re.compile(r"\b(Receive|Finish): obj=(\w{1,60})\(")
_OUT = ", out={"
_FINISHED = "finished request of sglang"
_HALF, _CUT = 1024, "..."
"""What level 2 keeps of both ends of a text, and what it puts between them."""
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")


def begins(head: bytes, _path: str) -> bool:
    """Return whether a file is such a log."""
    return has_line(head, _BEGINS)


def records(reader: io.BufferedReader, _file: str, _path: str) -> Iterator[RawRecord]:
    """Yield the request of each line, in the form of the JSON events; of a log without any, the tokens of each prefill batch."""
    clock = LogClock()
    batches: list[RawRecord] = []
    requests = False
    for line in lines_of(reader):
        if not requests and len(batches) < _MOST_BATCHES and (batch := _BATCH.search(line.text)) is not None:
            computed, cached = int(batch[1]), int(batch[2])
            counted = counted_usage(computed + cached, cached, clock.read(line.text[: batch.start()]))
            batches.append(RawRecord(b"", line.number, 1, True, None, line.offset, value=counted))
            continue
        if line.text.startswith("{"):
            event = parsed_text(line.text)
            said = event if isinstance(event, dict) and is_event(event) else None
        else:
            said = _event(line.text, clock)
        requests |= said is not None
        if said == {}:
            yield RawRecord(b"", line.number, 1, True, "the line of this request is cut off", line.offset, value={})
        elif said is not None:
            yield RawRecord(b"", line.number, 1, True, None, line.offset, value=said)
    if not requests:
        yield from batches


def is_event(fields: Fields) -> bool:
    """Return whether a record is an event of such a log."""
    event = fields.get("event")
    return isinstance(event, str) and event.startswith("request.") and isinstance(fields.get("obj"), dict)


def keys_of(record: Record) -> Sequence[Key]:
    """Return the key by which a request that came finds how it ended."""
    own = _id_of(record.fields)
    return [(_FINISHED, own)] if own is not None and record.fields["event"] == "request.finished" else []


def read(record: Record) -> Reading:
    """Return the request of an event: of one that ended, or that the log does not see end."""
    fields, asked = record.fields, record.fields["obj"]
    own = _id_of(fields)
    ended = fields["event"] == "request.finished"
    joins = record.where.joins
    if not ended and own is not None and joins is not None and joins.has(_FINISHED, own):
        return Several()
    if str(asked.get("class", "")).startswith("Embedding"):
        return LeftOut("embedding")
    out = fields.get("out") if ended else None
    told = found if isinstance(out, dict) and isinstance(found := out.get("meta_info"), dict) else {}
    reason = told.get("finish_reason")
    if isinstance(reason, dict) and reason.get("type") == "abort":
        return FAILED
    if asked.get("text") is None and asked.get("input_ids") is None:
        if "text" in asked or "input_embeds" in asked:
            return LeftOut("request of embeddings")
        raise record.error(
            "this SGLang log has no prompts at its log level",
            "obj",
            hint="run SGLang with --log-requests-level 3",
        )
    at = record.pointer if record.in_text else (*record.pointer, "out", "meta_info")
    usage = usage_of({name: told[name] for name in _COUNTS if name in told}, at)
    written = seconds(fields.get("timestamp"), "s")
    lasted = finite_number(told.get("e2e_latency"), least=0, most=1e6) or 0.0
    answer = out.get("text") if isinstance(out, dict) else None
    around = FieldsAround(
        session=names_of([asked.get("session_id"), object_of(asked.get("session_params")).get("id")]),
        time=None if written is None else written - lasted,
        end=written if ended else None,
        identity=own,
        output_text=answer if isinstance(answer, str) else None,
        usage=usage,
        incomplete=CUT if _is_cut(asked) else None,
    )
    return around.put_on(_prompt(record, asked))


def _prompt(record: Record, asked: Fields) -> Reading:
    from kvtool.workload.logs.formats.apis.prompt_texts import prompts

    name = "text" if asked.get("text") is not None else "input_ids"
    value = asked[name]
    if name == "input_ids" and isinstance(value, list):
        value = [each for each in value if each != _CUT]
    own = _id_of(record.fields)
    return prompts(record.holding({"prompt": value, **({} if own is None else {"id": own})}, "obj"))


def _is_cut(asked: Fields) -> bool:
    text, ids = asked.get("text"), asked.get("input_ids")
    if asked.get("cut"):
        return True
    if isinstance(text, str):
        return len(text) == 2 * _HALF + len(_CUT) and text[_HALF : _HALF + len(_CUT)] == _CUT
    return isinstance(ids, list) and _CUT in ids


def _id_of(fields: Fields) -> str | None:
    return names_of([fields.get("rid"), fields["obj"].get("rid")])


def _event(text: str, clock: LogClock) -> Fields | None:
    """Return the event of a line of text; an empty one where it is cut off, None where it is of no request."""
    found = _REQUEST.search(text)
    if found is None or (front := front_of(text, found.start())) is None:
        return None
    items, end = items_at(text, found.end())
    if end < 0:
        return {}
    asked: Fields = {"class": found[2]}
    for name in ("rid", "text"):
        if name in items:
            value, cut = _text_of(items[name])
            asked[name] = value
            if cut:
                asked["cut"] = True
    if "input_ids" in items:
        ids = items["input_ids"]
        asked["input_ids"] = integers_of(ids.replace("] ... [", ", "))
        asked["cut"] = asked.get("cut") or " ... " in ids
    event: Fields = {"event": "request.received" if found[1] == "Receive" else "request.finished", "obj": asked}
    if (time := clock.read(front)) is not None:
        event["timestamp"] = time
    if text.startswith(_OUT, end):
        event["out"] = _out(text, end + len(_OUT))
    return event


def _text_of(written: str) -> tuple[str | None, bool]:
    """Return a text, and whether its middle was cut out; None for no text."""
    first = string_at(written, 0)
    if first is None:
        return None, False
    rest = written[first[1] :].removeprefix(" ... ")
    second = string_of(rest) if rest else None
    return (first[0], False) if second is None else (first[0] + _CUT + second, True)


def _out(text: str, at: int) -> Fields:
    items, _ = items_at(text, at)
    out: Fields = {}
    if "text" in items:
        out["text"] = _text_of(items["text"])[0]
    if items.get("meta_info", "").startswith("{"):
        told, _ = items_at(items["meta_info"], 1)
        said = {name: number_of(told[name]) for name in (*_COUNTS, "e2e_latency") if name in told}
        out["meta_info"] = {name: value for name, value in said.items() if value is not None}
        if "'abort'" in told.get("finish_reason", ""):
            out["meta_info"]["finish_reason"] = {"type": "abort"}
    return out


_EXAMPLE = """
{"event": "request.finished", "timestamp": "2026-02-02T09:00:00Z", "rid": "r1", "obj": {"text": "Is it open?"},
 "out": {"meta_info": {"id": "r1", "prompt_tokens": 24, "cached_tokens": 16, "completion_tokens": 2}}}
"""
FORMAT = RecordFormat("sglang-log", "event: request.finished + obj", is_event, read, keys=keys_of, example=_EXAMPLE)
FILE_KINDS = (FileKind("sglang-log", "Finish: obj=GenerateReqInput(", begins, records),)
