"""Recorded sessions reconciled: everything agrees, and each change to a recording names its cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `live`")
pytest.importorskip("prometheus_client", reason="needs the extra `live`")

from kvtool.cli.app import run
from kvtool.config.asked_run import RunOptions
from kvtool.engine.config import EngineConfig
from kvtool.profiler.opening import open_workload
from kvtool.profiler.reconcile.twin import Ask, Twin
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.logs.logs import LogOptions
from kvtool.workload.prompts_in_memory import MemorySource
from tests.measure.servers.made_models import config_folder
from tests.measure.servers.recordings import recording
from tests.profiler.made_sessions import BLOCK, SECRET, MadeSession, made_session, prompts
from tests.results.documents import redumped


def replayed(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], int]:
    """The document and the exit code."""
    code = run(["replay", "--recorded", str(folder), "--json"])
    out = capsys.readouterr().out
    assert SECRET not in out
    assert redumped(out) == out
    return json.loads(out), code


def of(session: MadeSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], int]:
    return replayed(session.write(tmp_path / "session"), capsys)


def causes(document: dict[str, Any]) -> set[str]:
    return {each["cause"] for each in document["causes"]}


def named(document: dict[str, Any]) -> dict[str, str]:
    return {each["id"]: each["cause"] for each in document["disagree"]}


@pytest.mark.parametrize("blocks", [200, 45])
def test_a_session_as_it_was_agrees(blocks: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session(blocks=blocks)
    document, code = of(session, tmp_path, capsys)
    assert code == 0
    assert document["requests"] == document["answered"] == document["agree"] == 12
    assert document["predicted_cached_tokens"] == document["reported_cached_tokens"] == session.hits > 0
    assert document["counters_agree"] is True
    events = document["events"]
    assert events["predicted"] == events["recorded"] == events["agree"] == sum(map(len, session.batches)) - 1
    assert events["by"] == "hash"
    assert document["disagree"] == document["causes"] == []
    assert (document["config"]["block_size"], document["config"]["capacity_blocks"]) == (BLOCK, blocks - 1)


@pytest.mark.parametrize("window", [32, 100, 1000])
def test_a_model_with_windows_is_followed_where_its_config_is_here(
    window: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = config_folder(tmp_path / "windows", sliding_window=window)
    session = made_session(blocks=900, model=model)
    assert session.hits < made_session().hits or window > 32  # a sibling's beginning is kept by no window
    document, code = of(session, tmp_path, capsys)
    assert (code, document["agree"], document["reported_cached_tokens"]) == (0, 12, session.hits)
    assert document["config"]["kv_cache_groups"].count("sliding 16") == 5
    assert (document["config"]["model_from"], document["config"]["model"]) == ("server", "windows")
    assert document["events"]["agree"] == document["events"]["recorded"] > 0

    session.root = "/nowhere/windows"
    folder = session.write(tmp_path / "elsewhere")
    assert run(["replay", "--recorded", str(folder)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "the server's model is unknown" in message
    assert "--model" in message
    assert run(["replay", "--recorded", str(folder), "--model", "llama-3.1-8b"]) == 2
    assert "llama-3.1-8b does not have as much KV cache" in " ".join(capsys.readouterr().err.split())
    assert run(["replay", "--recorded", str(folder), "--model", model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agree"] == 12


def test_a_real_server_with_windows_agrees_with_its_config(capsys: pytest.CaptureFixture[str]) -> None:
    folder = recording("gemma-rec")
    assert run(["replay", "--recorded", str(folder)]) == 2
    assert "400 blocks of 32 hold 2,105 tokens" in " ".join(capsys.readouterr().err.split())
    config = folder.parent / "gemma3-config.json"
    assert run(["replay", "--recorded", str(folder), "--model", str(config), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["agree"], document["reported_cached_tokens"], document["prompt_tokens"]) == (40, 4128, 21_911)


def test_eight_at_once_agree_where_events_and_answers_show_who_came_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the events, the order is what is not known."""
    folder = recording("conc8-rec")
    tokenizer = folder.parents[2] / "tokenizers/TinyLlama_v1.1.tokenizer.json"
    assert run(["replay", "--recorded", str(folder), "-t", str(tokenizer), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["agree"], document["causes"]) == (100, [])
    events = document["events"]
    assert (events["agree"], events["recorded"], events["in_order"], events["by"]) == (254, 254, True, "hash")
    for each in folder.iterdir():
        if "events" not in each.name:
            (tmp_path / each.name).symlink_to(each.resolve())
    assert run(["replay", "--recorded", str(tmp_path), "-t", str(tokenizer), "--json"]) == 0
    (cause,) = json.loads(capsys.readouterr().out)["causes"]
    assert (cause["cause"], cause["why"]) == (
        "steps",
        "8 at once: their order decides which tokens hit; no KV events show it",
    )


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_priorities_order_the_queue_of_a_server_that_schedules_by_them(policy: Any) -> None:
    planned = open_workload(
        RunOptions(inputs=["made"]), Tokenizers(offline=True), source=MemorySource(["x"], LogOptions())
    )
    config = EngineConfig(block_size=BLOCK, max_num_seqs=1, policy=policy)
    asks = [
        Ask(number, np.arange(start, start + 64, dtype=np.int32), priority=priority)
        for number, start, priority in ((0, 900, -5), (1, 0, 5), (2, 0, -1))
    ]
    cached = Twin(config, planned.planned.plan.latency, at_once=3).run(asks).cached
    assert (cached[1] > cached[2]) is (policy == "priority")


def test_a_server_with_drafts_fills_blocks_in_other_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    session.rows[4]["response"]["usage"]["prompt_tokens_details"]["cached_tokens"] -= BLOCK
    session.hits -= BLOCK
    folder = session.write(tmp_path / "session")
    assert set(named(replayed(folder, capsys)[0]).values()) == {"unexplained"}
    drafts = {"method": "ngram", "num_speculative_tokens": 2}
    (folder / "server_info.json").write_text(json.dumps({"vllm_config": {"speculative_config": drafts}}))
    model = config_folder(tmp_path / "windows", layer_types=["full_attention"] * 6)
    assert run(["replay", "--recorded", str(folder), "--model", model, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (named(document), document["config"]["speculative_method"]) == ({"s4": "steps"}, "ngram")
    assert "accepts drafts" in document["disagree"][0]["why"]


def test_what_is_not_reported_stands_in_the_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    del session.rows[4]["response"]["usage"]["prompt_tokens_details"]
    document, code = of(session, tmp_path, capsys)
    assert named(document) == {"s4": "not reported"}
    one = document["disagree"][0]
    assert one["predicted"] == one["reported"] > 0
    assert "--enable-prompt-tokens-details" in one["why"]
    assert code == 0  # the events say the number that was predicted


def test_answers_without_their_tokens_are_said_to_change_hashes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = made_session()
    for row in session.rows:
        del row["response"]["choices"][0]["token_ids"]
    document, code = of(session, tmp_path, capsys)
    assert (document["agree"], code) == (12, 0)
    assert document["events"]["agree"] < document["events"]["recorded"]
    assert any("does not report the tokens of its answers" in note for note in document["notes"])


def test_what_nobody_reports_is_no_agreement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    for row in session.rows:
        del row["response"]["usage"]["prompt_tokens_details"]
    session.batches = []
    session.hits += 64
    document, code = of(session, tmp_path, capsys)
    assert set(named(document).values()) == {"not reported"}
    assert document["agree"] == 0
    assert code == 1


def test_a_changed_prompt_is_other_tokens_and_so_is_what_it_costs_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = made_session()
    message = session.rows[0]["body"]["messages"][0]
    message["content"] = message["content"].replace("answer questions", "answer riddles", 1)
    document, code = of(session, tmp_path, capsys)
    assert code == 1
    assert set(named(document).values()) == {"other tokens"}
    assert "s1" in named(document)  # its beginning was not left by the prompt as it stands here
    assert any("tokenized differently" in each["why"] for each in document["causes"])


def test_a_prompt_that_the_engine_would_never_run_is_named_and_agrees_with_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = made_session(prompts(2))
    message = session.rows[0]["body"]["messages"][0]
    message["content"] = f"No beginning of any other. {message['content'] * 60}"  # more than the 200 blocks hold
    document, code = of(session, tmp_path, capsys)
    assert code == 1
    assert named(document)["s0"] == "other tokens"
    assert next(each for each in document["disagree"] if each["id"] == "s0")["predicted"] is None
    assert document["agree"] == document["answered"] - len(document["disagree"])


def test_a_changed_prompt_that_stored_nothing_is_other_tokens_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = prompts(4)
    session = made_session([texts[0], texts[1], texts[0]])
    message = session.rows[2]["body"]["messages"][0]
    message["content"] = message["content"].replace("harbour copper", "copper harbour", 1)
    document, code = of(session, tmp_path, capsys)
    assert named(document) == {"s2": "other tokens"}
    assert code == 1


def test_admissions_that_cost_nothing_are_told_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    first, second = session.batches[3], session.batches[4]
    names = [next(each["session_id"] for each in batch if "session_id" in each) for batch in (first, second)]
    for batch, name in zip((first, second), reversed(names), strict=True):
        for each in batch:
            if "session_id" in each:
                each["session_id"] = name
    document, _ = of(session, tmp_path, capsys)
    assert "order" in causes(document)


def test_a_batch_that_was_dropped_is_a_gap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    session.dropped = {3}
    document, code = of(session, tmp_path, capsys)
    assert causes(document) == {"gap"}
    assert document["events"]["agree"] == document["events"]["recorded"] < document["events"]["predicted"]
    assert (document["agree"], code) == (12, 0)


def test_a_created_that_moved_is_a_restart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    session.created = (100.0, 900.0)
    document, code = of(session, tmp_path, capsys)
    assert causes(document) == {"restart"}
    assert document["counters_agree"] is False
    assert code == 1


def test_more_hits_than_ours_are_other_traffic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    session.hits += 1000
    document, _ = of(session, tmp_path, capsys)
    assert causes(document) == {"other traffic"}
    assert "1,000 hit" in document["causes"][0]["why"]
    assert document["counters_agree"] is False


def test_a_foreign_session_is_other_traffic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    other = made_session([f"Somebody else asks about something else, {'at length ' * 60}"])
    session.batches.insert(3, [{**each, "session_id": "theirs"} for each in other.batches[0][1:]])
    document, _ = of(session, tmp_path, capsys)
    assert causes(document) == {"other traffic"}
    assert "1 session of other clients" in document["causes"][0]["why"]


def test_hits_on_what_others_left_are_other_traffic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = prompts()
    whole = made_session([texts[3], *texts])
    rows, batches = whole.rows[1:], whole.batches
    for row in rows:
        row["session_id"] = f"mine{row['n']}"
    renamed = [
        [
            {**each, "session_id": f"mine{each['session_id'][1:]}"} if each.get("session_id", "s0") != "s0" else each
            for each in batch
        ]
        for batch in batches
    ]
    document, code = of(MadeSession(rows, renamed, whole.queries, whole.hits), tmp_path, capsys)
    assert set(named(document).values()) == {"other traffic"}
    assert code == 1


def test_admissions_in_another_order_are_the_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = [3, 1, 2, 0, 4, 5, 6, 7, 8, 9, 10, 11]
    document, code = of(made_session(order=order), tmp_path, capsys)
    assert set(named(document).values()) == {"order"}
    assert "admitted" in document["disagree"][0]["why"]
    assert code == 1


def test_a_cleared_cache_is_a_reset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    session.batches.insert(4, [{"type": "AllBlocksCleared"}])
    document, _ = of(session, tmp_path, capsys)
    assert causes(document) == {"reset"}


def test_requests_behind_a_reset_have_it_as_their_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = made_session(prompts()[:6]), made_session(prompts()[6:])
    for row in second.rows:
        row |= {"n": row["n"] + 6, "session_id": f"t{row['n']}", "sent": row["sent"] + 6, "done": row["done"] + 6}
    again = [
        [{**each, "session_id": f"t{each['session_id'][1:]}"} if "session_id" in each else each for each in batch]
        for batch in second.batches
    ]
    both = MadeSession(
        [*first.rows, *second.rows],
        [*first.batches, *again],
        first.queries + second.queries,
        first.hits + second.hits,
    )
    document, code = of(both, tmp_path, capsys)
    assert set(named(document).values()) == {"reset"}
    assert "t0" in named(document)
    assert code == 1


def test_hits_on_what_was_there_before_are_a_warm_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = made_session()
    late = MadeSession(whole.rows[6:], whole.batches[6:], 0, 0)
    folder = late.write(tmp_path / "late")
    for name in ("metrics_after.txt", "kv_events.jsonl.gz"):
        (folder / name).unlink()
    document, code = replayed(folder, capsys)
    assert set(named(document).values()) == {"warm start"}
    assert code == 1


def test_what_no_test_explains_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    usage = session.rows[7]["response"]["usage"]["prompt_tokens_details"]
    usage["cached_tokens"] -= BLOCK
    session.hits -= BLOCK
    document, code = of(session, tmp_path, capsys)
    assert named(document) == {"s7": "unexplained"}
    assert code == 1


def test_requests_without_an_answer_make_what_follows_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = made_session()
    del session.rows[0]["response"], session.rows[0]["status"]
    document, _ = of(session, tmp_path, capsys)
    assert document["failed"] == 1
    assert set(named(document).values()) <= {"not known", "warm start", "other traffic"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "not JSON"),
        (b"[1]\n", "`body` is missing"),
        (b'{"body": 3}\n', "`body` is missing"),
        (b'{"body": "\xff"}\n', "not JSON"),
        (b"[" * 100_000 + b"\n", "not JSON"),
    ],
)
def test_a_line_that_is_no_request_is_told_with_its_place(
    line: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made_session(prompts(2)).write(tmp_path / "s")
    (folder / "requests.jsonl.gz").unlink()
    (folder / "requests.jsonl").write_bytes(line)
    assert run(["replay", "--recorded", str(folder)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "requests.jsonl:1:" in err


def test_the_terminal_says_the_answer_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = [3, 1, 2, 0, 4, 5, 6, 7, 8, 9, 10, 11]
    folder = made_session(order=order).write(tmp_path / "s")
    for width in (60, 80, 120):
        assert run(["replay", "--recorded", str(folder), "--width", str(width)]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("  Reconciled  ")
        assert all(len(line) <= width for line in lines)
        assert any(line.startswith("  Disagree    #") for line in lines)
        assert SECRET not in "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "answered", "cached", "prompt", "events"),
    [
        ("own-prompts", 72, 102_048, 144_561, 101),
        ("sequential", 276, 469_696, 544_440, 381),
        ("eviction", 200, 158_624, 376_469, 6_560),
    ],
)
def test_sessions_with_a_real_server_agree(
    name: str, answered: int, cached: int, prompt: int, events: int, capsys: pytest.CaptureFixture[str]
) -> None:
    document, code = replayed(recording(name), capsys)
    assert (document["answered"], document["agree"], code) == (answered, answered, 0)
    assert document["predicted_cached_tokens"] == document["reported_cached_tokens"] == cached
    assert document["prompt_tokens"] == prompt
    assert document["events"] == {
        "predicted": events,
        "recorded": events,
        "agree": events,
        "in_order": True,
        "by": "hash",
    }
    assert document["counters_agree"] is (None if name == "own-prompts" else True)
    assert document["assumed"] == []


def test_a_session_of_eight_at_once_agrees_as_admitted(capsys: pytest.CaptureFixture[str]) -> None:
    document, code = replayed(recording("concurrent"), capsys)
    assert (document["requests"], document["answered"], document["refused"]) == (200, 197, 3)
    assert document["agree"] == 197
    assert document["predicted_cached_tokens"] == document["reported_cached_tokens"] == 169_696
    assert document["events"] == {"predicted": 8396, "recorded": 8396, "agree": 8396, "in_order": True, "by": "hash"}
    assert document["disagree"] == document["causes"] == []
    assert document["counters_agree"] is True
    assert code == 0
