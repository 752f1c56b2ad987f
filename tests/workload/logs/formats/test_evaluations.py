"""Logs of evaluations, as calls: inspect_ai, promptfoo, lm-eval, OpenAI Evals."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.workload.logs.formats.agent_rows import lines, refusal, rows, said

SYSTEM = {"role": "system", "content": "attachment://aa"}
OPEN = {"role": "user", "content": "open it"}


def model_event(*inputs: Any, **more: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": "yes"}
    output = {"model": "m", "choices": [{"message": said, "stop_reason": "stop"}], **more.pop("output", {})}
    event = {"event": "model", "timestamp": "2026-03-01T00:00:00-04:00", "model": "openai/azure/gpt-5.5"}
    return {**event, "input": list(inputs), "tools": [], "output": output, **more}


def sample(*events: Any, **more: Any) -> dict[str, Any]:
    return {"id": "s", "epoch": 2, "input": "i", "target": "t", "messages": [], "events": list(events), **more}


def evaluation(*samples: Any) -> dict[str, Any]:
    return {"version": 2, "status": "success", "eval": {"run_id": "r", "model": "openai/gpt-5.5"}, "samples": samples}


def archive(path: Path, log: dict[str, Any], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("_journal/start.json", "{}")
        for at, each in enumerate(log["samples"]):
            file.writestr(f"samples/{at}_epoch_1.json", json.dumps(each))
        file.writestr("header.json", json.dumps({**log, "samples": None}))
    return path


@pytest.mark.parametrize("kind", ["json", "eval"])
def test_texts_and_messages_that_stand_beside_the_events_are_put_in(tmp_path: Path, kind: str) -> None:
    asks = {"role": "assistant", "content": "", "tool_calls": [{"id": "k", "function": "ls", "arguments": {"at": "/"}}]}
    gave = {"role": "tool", "content": [{"type": "text", "text": "tc://bb"}], "tool_call_id": "k", "function": "ls"}
    tool = {"name": "ls", "description": "attachment://bb", "parameters": {"type": "object"}}
    log = evaluation(
        sample(
            {"event": "state"},
            model_event(SYSTEM, OPEN),
            model_event(input_refs=[[0, 2], [2, 4]], tools=[tool]),
            attachments={"aa": "be brief", "bb": "etc"},
            message_pool=[SYSTEM, OPEN, asks, gave],
        )
    )
    path = tmp_path / f"log.{kind}"
    if kind == "json":
        path.write_text(json.dumps(log))
    else:
        archive(path, log)
    (first, second), _ = rows(path)
    assert said(first) == ["be brief", "open it"]
    assert [role for role, _ in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert (said(second)[3], second["tools"]) == ("etc", ["ls"])
    assert '"arguments":"{\\"at\\": \\"/\\"}"' in said(second)[2]
    assert (first["model"], first["session"], second["turn"]) == ("gpt-5.5", "r/s/2", 1)
    assert first["time"] == 1772337600
    assert "incomplete" not in first


def test_a_text_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = lines(tmp_path / "s.jsonl", [sample(model_event(SYSTEM, OPEN), model_event(OPEN))])
    (first, second), _ = rows(path)
    assert (first["incomplete"], "incomplete" in second) == ("its texts are not in the file", False)


def test_cached_tokens_of_inspect_stand_beside_the_others_or_in_them(tmp_path: Path) -> None:
    for usage, expected in [
        ({"input_tokens": 10, "output_tokens": 5, "total_tokens": 115, "input_tokens_cache_read": 100}, (110, 100)),
        ({"input_tokens": 110, "output_tokens": 5, "total_tokens": 115, "input_tokens_cache_read": 100}, (110, 100)),
        (
            {"input_tokens": 10, "output_tokens": 5, "input_tokens_cache_read": 4, "input_tokens_cache_write": 3},
            (17, 4),
        ),
    ]:
        path = lines(tmp_path / "s.jsonl", [sample(model_event(OPEN, output={"usage": usage}))])
        (row,), _ = rows(path)
        assert (row["prompt_tokens"], row["cached_tokens"]) == expected


def test_calls_of_inspect_that_were_not_made_are_left_out(tmp_path: Path) -> None:
    events = [
        model_event(OPEN, cache="read"),
        model_event(OPEN, output={"choices": []}, error="overloaded"),
        model_event(OPEN, uuid="u"),
        model_event(OPEN, uuid="u"),
    ]
    (row,), source = rows(lines(tmp_path / "s.jsonl", [sample(*events), sample()]))
    assert said(row) == ["open it"]
    assert source.left_out.counts == {"locally cached answer": 1, "failed": 1, "empty sample": 1}


def test_a_sample_without_events_is_what_its_messages_say(tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": "yes"}
    log = evaluation(sample(messages=[OPEN, answer, OPEN, answer]))
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    found, _ = rows(path)
    assert [len(said(row)) for row in found] == [1, 3]
    assert {row["model"] for row in found} == {"openai/gpt-5.5"}


def test_an_archive_in_zstd_is_read(tmp_path: Path) -> None:
    plain = archive(tmp_path / "plain.eval", evaluation(sample(model_event(OPEN))), zipfile.ZIP_STORED)
    with zipfile.ZipFile(plain) as read:
        entries = [(info.filename.encode(), zstandard.ZstdCompressor().compress(read.read(info)), info)
                   for info in read.infolist()]  # fmt: skip
    out, places = io.BytesIO(), []
    for name, data, info in entries:
        places.append(out.tell())
        out.write(
            struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 93, 0, 33, info.CRC, len(data), info.file_size, len(name), 0)
        )
        out.write(name + data)
    start = out.tell()
    for (name, data, info), at in zip(entries, places, strict=True):
        head = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 93, 0, 33, info.CRC, len(data), info.file_size,
                           len(name), 0, 0, 0, 0, 0, at)  # fmt: skip
        out.write(head + name)
    out.write(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, len(entries), len(entries), out.tell() - start, start, 0))
    path = tmp_path / "log.eval"
    path.write_bytes(out.getvalue())
    assert len(rows(path)[0]) == 1
    path.write_bytes(out.getvalue()[:-40])
    assert refusal(path).message == "a damaged archive of inspect_ai"


def test_refs_out_of_the_pool_are_an_error_without_prompt_text(tmp_path: Path) -> None:
    path = lines(tmp_path / "s.jsonl", [sample(model_event(input_refs=[[0, 9]]), message_pool=[OPEN])])
    error = refusal(path)
    assert error.message == "`input_refs` points outside the pool of messages"
    assert error.place is not None
    assert error.place.line == 1


def result(raw: Any, **more: Any) -> dict[str, Any]:
    response = {"output": "yes", "tokenUsage": {"total": 15, "prompt": 10, "completion": 5}}
    return {"prompt": {"raw": raw, "label": "p"}, "vars": {}, "provider": {"id": "openai:chat:gpt-5.5"},
            "response": response, "success": True, **more}  # fmt: skip


def test_promptfoo_counts_only_what_was_sent_to_a_model(tmp_path: Path) -> None:
    chat = json.dumps([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}])
    listed = [
        result(chat),
        result("plain text"),
        result("again", response={"output": "yes", "cached": True}),
        result("broken", response=None, error="API error", success=False),
    ]
    tools = [{"type": "function", "function": {"name": "ls"}}]
    config = {"providers": [{"id": "openai:chat:gpt-5.5", "config": {"tools": tools}}]}
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": {"version": 3, "results": listed}, "config": config}))
    (first, second), source = rows(path)
    assert said(first) == ["be brief", "hi"]
    assert (first["model"], first["prompt_tokens"], first["output_tokens"], first["tools"]) == (
        "gpt-5.5",
        10,
        5,
        ["ls"],
    )
    assert "cached_tokens" not in first, "promptfoo counts those of its own cache"
    assert second["text"] == "plain text"
    assert source.left_out.counts == {"locally cached answer": 1, "failed": 1}
    rows_of_lines, _ = rows(lines(tmp_path / "results.jsonl", listed))
    assert len(rows_of_lines) == 2


def lm_sample(doc: int, arguments: Any, filter_: str = "none", **more: Any) -> dict[str, Any]:
    return {"doc_id": doc, "doc": {}, "arguments": arguments, "resps": [["yes"]], "filter": filter_,
            "prompt_hash": "ab", **more}  # fmt: skip


def test_samples_of_lm_eval_are_the_requests_that_were_made(tmp_path: Path) -> None:
    written = {"gen_args_0": {"arg_0": "Q: 1+1", "arg_1": {"until": ["\n"]}}}
    choices = {"gen_args_0": {"arg_0": "Q: sky", "arg_1": " blue"}, "gen_args_1": {"arg_0": "Q: sky", "arg_1": " red"}}
    messages = json.dumps([{"role": "user", "content": "Q: chat"}])
    path = lines(
        tmp_path / "samples_t.jsonl",
        [
            lm_sample(0, written, "strict"),
            lm_sample(0, written, "flexible"),
            lm_sample(1, choices),
            lm_sample(2, [["Q: old", {"until": []}]]),
            lm_sample(3, {"gen_args_0": {"arg_0": [messages], "arg_1": {}}}),
        ],
    )
    found, _ = rows(path)
    assert [row.get("text") or said(row) for row in found] == [
        "Q: 1+1",
        "Q: sky blue",
        "Q: sky red",
        "Q: old",
        ["Q: chat"],
    ]
    assert refusal(lines(path, [lm_sample(0, {})])).message == "`arguments` has no request"


def test_a_run_of_openai_evals(tmp_path: Path) -> None:
    def event(kind: str, data: dict[str, Any]) -> dict[str, Any]:
        return {"run_id": "r", "event_id": 0, "sample_id": "s.1", "type": kind, "data": data, "created_by": "",
                "created_at": "2026-03-01 00:00:00.5+00:00"}  # fmt: skip

    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    path = lines(
        tmp_path / "run.jsonl",
        [
            {"spec": {"completion_fns": ["gpt-5.5"], "eval_name": "e", "run_id": "r"}},
            event("sampling", {"prompt": [{"role": "user", "content": "hi"}], "sampled": ["yes"], "usage": usage}),
            event("sampling", {"prompt": "plain", "sampled": "yes", "model": "other"}),
            event("match", {"correct": True}),
            event("embedding", {"prompt": "x", "embedding_type": "ada"}),
            {"final_report": {"accuracy": 1.0}},
        ],
    )
    (first, second), source = rows(path)
    assert (said(first), first["model"], first["prompt_tokens"], first["time"]) == (["hi"], "gpt-5.5", 7, 1772323200.5)
    assert (second["text"], second["model"]) == ("plain", "other")
    assert source.left_out.counts == {"embedding": 1}


def test_half_the_fields_of_an_evaluation_are_an_error_with_a_place(tmp_path: Path) -> None:
    path = lines(tmp_path / "results.jsonl", [{"prompt": {"raw": 5}, "response": {"output": "SECRET"}, "vars": {}}])
    error = refusal(path)
    assert "must be text or a list of messages" in error.message
    assert "SECRET" not in f"{error.message} {error.hint}"
    assert error.place is not None
    assert (error.place.line, error.place.column) == (1, 20)


def test_a_row_of_promptfoo_without_its_prompt_is_an_error(tmp_path: Path) -> None:
    for prompt in [None, {}, {"raw": None}]:
        path = tmp_path / "results.json"
        path.write_text(json.dumps({"results": {"results": [result("SECRET"), {**result(""), "prompt": prompt}]}}))
        error = refusal(path)
        assert error.message == "`prompt.raw` is missing"
        assert error.place is not None
        assert (error.place.column or 0) > 100
