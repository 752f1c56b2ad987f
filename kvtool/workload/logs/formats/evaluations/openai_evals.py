"""Records of OpenAI Evals: a line for the run, one for each event of it, and one for its report."""

from __future__ import annotations

from typing import Any

from kvtool.workload.logs.records.call_context import FieldsAround, found_at
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.record import Record, Where, seconds
from kvtool.workload.logs.records.record_format import Fields, LeftOut, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import usage_of

_CALLS = ("sampling", "cond_logp", "pick_option")


class EvalsRun:
    """A file of a run, whose first line names the model."""

    def __init__(self, where: Where) -> None:
        del where
        self._model: str | None = None

    def read(self, record: Record) -> Reading:
        """Return the call of an event that is one."""
        fields = record.fields
        spec = fields.get("spec")
        if isinstance(spec, dict):
            functions = spec.get("completion_fns")
            named = functions[0] if isinstance(functions, list) and len(functions) == 1 else None
            self._model = names_of([named, spec.get("model_name")])
            return Several()
        kind, data = fields.get("type"), fields.get("data")
        if kind == "embedding":
            return LeftOut("embedding")
        if kind not in _CALLS or not isinstance(data, dict) or data.get("prompt") is None:
            return Several()
        prompt = data["prompt"]
        around = FieldsAround(
            time=seconds(fields.get("created_at"), "s"),
            model=names_of([data.get("model"), self._model]),
            usage=usage_of(data.get("usage"), (*record.pointer, "data", "usage")),
        )
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
            return found_at(record, prompt[0], "data", "prompt", 0, around=around, answer=_answer(data))
        return found_at(record, prompt, "data", "prompt", around=around, answer=_answer(data))

    def end(self) -> Reading:
        """Return nothing: each event is complete."""
        return Several()


def _answer(data: dict[str, Any]) -> str | None:
    sampled = data.get("sampled", data.get("completion"))
    sampled = sampled[0] if isinstance(sampled, list) and sampled else sampled
    return sampled if isinstance(sampled, str) else None


def fits(fields: Fields) -> bool:
    """Return whether a record is a line of a run."""
    spec = fields.get("spec")
    if isinstance(spec, dict):
        return "completion_fns" in spec or "eval_name" in spec or "run_id" in spec
    if "final_report" in fields:
        return len(fields) == 1
    return {"run_id", "event_id", "type", "data"} <= fields.keys()


_EXAMPLE = """
{"spec": {"completion_fns": ["gpt-5.5"], "run_id": "r1"}}
{"run_id": "r1", "event_id": 0, "sample_id": "a.0", "type": "sampling", "data": {"prompt": [{"role": "system",
 "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}]}}
"""
FORMAT = RecordFormat("openai-evals", "run_id + event_id + data", fits, EvalsRun, state=True, example=_EXAMPLE)
