"""A workload is sent to a server that answers as recorded, and everything that can go wrong goes wrong once."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx", reason="needs the extra `live`")
pytest.importorskip("prometheus_client", reason="needs the extra `live`")
pytest.importorskip("zmq", reason="needs the extra `live`")

from kvtool.cli.app import run
from kvtool.measure.servers.exchange import Exchange
from kvtool.measure.servers.request_body import SentAs, ToSend, to_send
from kvtool.measure.servers.sender import BrokenAnswerError, StreamedAnswer, WholeAnswer
from kvtool.measure.servers.sending import Sending, has_tokens_to_read, send_all
from kvtool.text.traced import Traced
from kvtool.workload.logs.logs import LogOptions
from kvtool.workload.prompts_in_memory import MemorySource
from kvtool.workload.turn import Turn
from tests.conftest import some
from tests.measure.servers.fake_vllm import KEY, FakeHandler, fake_vllm, sent, wait_for
from tests.profiler.made_sessions import SECRET, MadeSession, chat_body, made_session


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> MadeSession:
    """What the server does; a key for it is in the environment."""
    monkeypatch.setenv("KVTOOL_API_KEY", KEY)
    return made_session()


@pytest.fixture
def workload(session: MadeSession, tmp_path: Path) -> str:
    """The prompts as a log."""
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(row["body"]) + "\n" for row in session.rows))
    return str(path)


def test_what_a_server_does_is_what_was_predicted(
    session: MadeSession, workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    with fake_vllm(session) as server:
        code, document, _ = sent(capsys, server.url, workload, "--record", str(kept))
    assert document is not None
    assert (code, document["agree"], document["answered"]) == (0, 12, 12)
    assert document["counters_agree"] is True
    assert server.prompts == [row["body"]["messages"][-1]["content"] for row in session.rows]
    bodies = [body for path, body in server.asked if path.endswith("/completions")]
    assert len({body["session_id"] for body in bodies}) == 12
    assert {(body["stream"], body["return_token_ids"], body["temperature"]) for body in bodies} == {(True, True, 0)}
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    for path in kept.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert KEY.encode() not in path.read_bytes()
    assert run(["replay", "--recorded", str(kept), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["agree"], again["counters_agree"]) == (12, True)


def test_fields_of_requests_are_sent_and_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server computes whole prompts for their log probabilities, counts none of them, and does not stream the answer."""

    def body_of(text: str) -> dict[str, Any]:
        asks = {"prompt_logprobs": 2} if text.split(" Question ")[1][0] in "2468" else {"add_generation_prompt": False}
        return {**chat_body(text), **asks}

    session = made_session(body_of=body_of)
    rows = {row["body"]["messages"][0]["content"]: row for row in session.rows}

    def answer_whole(handler: FakeHandler, _number: int) -> bool:
        body = server.asked[-1][1]
        if body["stream"]:
            return False
        handler.send(200, json.dumps(rows[body["messages"][0]["content"]]["response"]).encode())
        return True

    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row["body"]) + "\n" for row in session.rows))
    kept = tmp_path / "kept"
    with fake_vllm(session, answer_whole) as server:
        code, document, _ = sent(capsys, server.url, str(path), "--record", str(kept), "--no-text")
    assert document is not None
    assert (code, document["agree"], document["counters_agree"]) == (0, 12, True)
    bodies = [body for page, body in server.asked if page.endswith("/completions")]
    fields = ("prompt_logprobs", "add_generation_prompt")
    assert [[body.get(name) for name in fields] for body in bodies] == [
        [row["body"].get(name) for name in fields] for row in session.rows
    ]
    assert [body["stream"] for body in bodies] == ["prompt_logprobs" not in body for body in bodies]
    assert run(["replay", "--recorded", str(kept), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agree"] == 12


def test_only_a_prompt_that_the_server_tokenizes_is_compared_by_its_tokens() -> None:
    ids = np.array([1, 2, 3], dtype=np.int32)
    for turn, has in (
        (Turn("g", token_ids=ids), False),
        (Turn("g", text=Traced("hi")), True),
        (Turn("g", text=Traced("hi"), fields={"add_special_tokens": False}), True),
        (Turn("g", text=Traced("hi"), fields={"truncate_prompt_tokens": 2}), False),
        (Turn("g", messages=[{"role": "user", "content": "hi"}], fields={"n": 2}), True),
    ):
        request = to_send(turn, SentAs("m"), 1)
        assert has_tokens_to_read(request) is has
        assert (request.body["temperature"], request.body.get("n")) in ((0, None), (1, 2)), "vLLM samples no two alike"


class SenderOfATest:
    """Answers every request."""

    how, now = SentAs("m"), 0.0

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    async def __aenter__(self) -> SenderOfATest:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def send(self, number: int, session_id: str, request: ToSend) -> tuple[Exchange, str]:
        self.bodies.append(request.body)
        return Exchange(number, request.body, request.endpoint, session_id, 0.0, 0.0, 0.0, 200, {"choices": []}), ""


@pytest.mark.parametrize("seed", some(range(4), 2))
@pytest.mark.parametrize("use_arrivals", [False, True])
def test_prompts_of_one_call_are_sent_in_one_call(seed: int, use_arrivals: bool) -> None:
    chance = random.Random(seed)
    records = []
    for _ in range(9):
        prompts: list[Any] = ["".join(chance.choices("abc ", k=9)) + "." for _ in range(chance.choice((1, 2, 5)))]
        if chance.random() < 0.5:
            prompts = [[chance.randrange(9) for _ in range(3)] for _ in prompts]
        several = len(prompts) > 1 or isinstance(prompts[0], list)
        records.append({"prompt": prompts if several else prompts[0], "n": chance.choice((1, 3)), "max_tokens": 4})
    source = MemorySource(records, LogOptions(by_time=False))
    counts: list[int] = []

    def longest(turns: Sequence[Turn]) -> int:
        counts.append(len(turns))
        return 4

    sender = SenderOfATest()
    sending = Sending(sender, "r", at_once=2, use_arrivals=use_arrivals, max_tokens=longest)  # type: ignore[arg-type]
    assert len(send_all(sending, source.conversations()).exchanges) == len(records)
    prompts = [record["prompt"] for record in records]
    plain = [each[0] if isinstance(each, list) and len(each) == 1 else each for each in prompts]
    assert [body["prompt"] for body in sender.bodies] == plain
    assert [body.get("n", 1) for body in sender.bodies] == [record["n"] for record in records]
    assert counts == [len(each) if isinstance(each, list) else 1 for each in prompts]


def test_an_answer_that_is_no_stream_is_read_or_refused() -> None:
    answer = WholeAnswer()
    answer.take(b'{"choices": [{"text": "yes", "prompt_logprobs": [null]}, {"text": "no"}], "usage": ')
    answer.take(b'{"prompt_tokens": 2}, "prompt_logprobs": []}')
    assert answer.response() == {"choices": [{"text": "yes"}, {"text": "no"}], "usage": {"prompt_tokens": 2}}
    assert answer.text == "yes"
    for wrong in (b"", b"data: {}", b"[1]", b"[" * 100_000, b"\xff"):
        broken = WholeAnswer()
        broken.take(wrong)
        with pytest.raises(BrokenAnswerError):
            broken.response()


def test_several_answers_of_a_stream_are_told_apart() -> None:
    answer = StreamedAnswer("/v1/completions")
    for index, text, ids in (
        (0, "a", [1]),
        (1, "b", [2]),
        (0, "c", [3]),
        (1, "d", [4]),
        (-1, "", []),
        (1 << 40, "", []),
    ):
        chunk = {"choices": [{"index": index, "text": text, "token_ids": ids, "finish_reason": None}]}
        answer.take(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    answer.take(b"data: [DONE]\n\n")
    choices = answer.response()["choices"]
    assert [(each["index"], each["text"], each["token_ids"]) for each in choices] == [
        (0, "ac", [1, 3]),
        (1, "bd", [2, 4]),
    ]
    assert answer.text == "ac"


def test_several_at_once_are_all_sent_once(
    session: MadeSession, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_vllm(session) as server:
        _, document, _ = sent(capsys, server.url, workload, "--concurrency", "4")
    assert document is not None
    assert document["answered"] == 12
    assert sorted(server.prompts) == sorted(row["body"]["messages"][-1]["content"] for row in session.rows)


def test_a_salt_is_fresh_and_in_every_request(
    session: MadeSession, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    salts = []
    for _ in range(2):
        with fake_vllm(session) as server:
            sent(capsys, server.url, workload, "--salt")
        salts.append({body["cache_salt"] for path, body in server.asked if path.endswith("/completions")})
    assert len(salts[0]) == len(salts[1]) == 1
    assert salts[0] != salts[1]


@pytest.mark.parametrize(
    ("status", "said"), [(401, "KVTOOL_API_KEY"), (403, "KVTOOL_API_KEY"), (404, "root URL of the server")]
)
def test_what_no_later_request_would_mend_ends_the_run(
    status: int, said: str, session: MadeSession, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(handler: FakeHandler, _: int) -> bool:
        handler.send(status, json.dumps({"error": SECRET}).encode())
        return True

    with fake_vllm(session, refuses) as server:
        code, document, err = sent(capsys, server.url, workload)
    assert (code, document) == (4, None)
    assert said in err
    assert len(server.prompts) == 1


def hangs(handler: FakeHandler) -> None:
    handler.closing.wait(60)


def hangs_in_the_middle(handler: FakeHandler) -> None:
    handler.begin_stream()
    handler.event({"choices": [{"index": 0, "delta": {"content": SECRET}}]})
    handler.closing.wait(60)


def fails(handler: FakeHandler) -> None:
    handler.send(500, SECRET.encode())


def cuts(handler: FakeHandler) -> None:
    handler.begin_stream()
    handler.event({"choices": [{"index": 0, "delta": {"content": SECRET}}]})


def no_json(handler: FakeHandler) -> None:
    handler.begin_stream()
    handler.event("{" + SECRET)


def nested(handler: FakeHandler) -> None:
    handler.begin_stream()
    handler.event("[" * 200_000)


def error_in_the_stream(handler: FakeHandler) -> None:
    handler.begin_stream()
    handler.event({"error": {"message": SECRET}})


def endless_line(handler: FakeHandler) -> None:
    handler.begin_stream()
    for _ in range(12):
        handler.wfile.write(b"data: " + b"x" * (1 << 20))


def dies(handler: FakeHandler) -> None:
    handler.connection.close()
    handler.close_connection = True


@pytest.mark.parametrize(
    "fault",
    [hangs, hangs_in_the_middle, fails, cuts, no_json, nested, error_in_the_stream, endless_line, dies],
)
def test_an_answer_that_does_not_come_is_counted_and_not_asked_for_again(
    fault: Any, session: MadeSession, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def last(handler: FakeHandler, number: int) -> bool:
        return number == 11 and fault(handler) is None

    timeout = ["--request-timeout", "2"] if fault in (hangs, hangs_in_the_middle) else []
    with fake_vllm(session, last) as server:
        code, document, _ = sent(capsys, server.url, workload, *timeout)
    assert document is not None
    assert (code, document["answered"], document["failed"], document["agree"]) == (0, 11, 1, 11)
    assert len(server.prompts) == len(set(server.prompts)) == 12


def test_a_server_that_is_gone_ends_the_run_with_what_it_answered(
    session: MadeSession, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(handler: FakeHandler, number: int) -> bool:
        if number >= 6:
            handler.connection.close()
            handler.close_connection = True
        return number >= 6

    with fake_vllm(session, gone) as server:
        code, document, _ = sent(capsys, server.url, workload)
    assert document is not None
    assert (code, document["answered"], document["agree"]) == (1, 6, 6)
    assert "in a row without an answer" in document["stopped"]
    assert len(server.prompts) == 11


def test_no_redirect_is_followed(session: MadeSession, workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_vllm(made_session()) as other:

        def redirects(handler: FakeHandler, _: int) -> bool:
            handler.send(307, b"", Location=f"{other.url}/v1/chat/completions")
            return True

        with fake_vllm(session, redirects) as server:
            code, document, err = sent(capsys, server.url, workload)
        assert (code, document) == (4, None)
        assert "redirects" in err
        assert other.asked == []


def test_nobody_there(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, err = sent(capsys, "http://127.0.0.1:9", workload)
    assert (code, document) == (4, None)
    assert "is it running?" in err


def test_tls_where_there_is_none(session: MadeSession, workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_vllm(session) as server:
        code, document, err = sent(capsys, server.url.replace("http://", "https://"), workload)
    assert (code, document) == (4, None)
    assert "does not answer" in err
    assert server.asked == []


def test_nothing_is_sent_without_a_yes(session: MadeSession, workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_vllm(session) as server:
        code = run(["replay", workload, "--server", server.url])
        err = capsys.readouterr().err
    assert code == 2
    assert "12 requests with" in err
    assert "--yes" in err
    assert server.prompts == []


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_what_was_answered(
    session: MadeSession, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def stops(handler: FakeHandler, number: int) -> bool:
        if number == 5:
            os.kill(os.getpid(), signal.SIGINT)
            handler.closing.wait(60)
        return number == 5

    assert threading.current_thread() is threading.main_thread()
    with fake_vllm(session, stops) as server:
        code, document, _ = sent(capsys, server.url, workload)
    assert document is not None
    assert (code, document["partial"], document["answered"], document["agree"]) == (130, True, 5, 5)
    assert len(server.prompts) == 6
    assert wait_for(lambda: server.open_ == 0)


@pytest.mark.parametrize(("number", "code"), some([(signal.SIGTERM, 143), (signal.SIGHUP, 129)], 1))
def test_a_process_that_is_ended_keeps_what_was_answered_and_prints_no_traceback(
    number: signal.Signals, code: int, session: MadeSession, workload: str, tmp_path: Path
) -> None:
    process: list[subprocess.Popen[str]] = []

    def ends(handler: FakeHandler, at: int) -> bool:
        if at == 5:
            process[0].send_signal(number)
            handler.closing.wait(60)
        return at == 5

    program = f"import signal\nsignal.signal({int(number)}, signal.SIG_DFL)\nfrom kvtool.__main__ import main\nmain()"
    kept = tmp_path / "kept"
    with fake_vllm(session, ends) as server:
        command = [sys.executable, "-c", program, "replay", workload, "--server", server.url, "-y", "-q"]
        process.append(
            subprocess.Popen(
                [*command, "--record", str(kept)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        out, err = process[0].communicate(timeout=120)
    assert (process[0].returncode, out, err) == (code, "", "kvtool: ended from outside\n")
    with gzip.open(kept / "requests.jsonl.gz", "rt") as lines:
        assert len(list(lines)) == 5
    assert run(["replay", "--recorded", str(kept), "--json"]) == 0


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_before_an_answer_is_no_mistake(session: MadeSession, workload: str) -> None:
    def stops(handler: FakeHandler, _: int) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        handler.closing.wait(60)
        return True

    with fake_vllm(session, stops) as server, pytest.raises(KeyboardInterrupt):
        run(["replay", workload, "--server", server.url, "--yes", "-q"])


def test_what_does_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in [
        (["replay"], "a server or a recording"),
        (["replay", "x.yaml"], "a server or a recording"),
        (["replay", "--recorded", "x", "--server", "http://localhost:1"], "a server or a recording"),
        (["replay", "--recorded", "x", "--salt"], "--salt is about sending"),
        (["replay", "--server", "http://localhost:1"], "needs what to send"),
        (["replay", "x.yaml", "--server", "http://localhost:1", "--no-text"], "says what --record keeps"),
        (["replay", "--recorded", "x", "--no-text"], "--no-text is about sending"),
        (["replay", "x.yaml", "--server", "localhost:1"], "must begin with http"),
        (
            ["replay", "x.yaml", "--server", "http://me:secret@localhost:1"],
            "must not contain a user, password or query",
        ),
    ]:
        assert run(arguments) == 2
        err = capsys.readouterr().err
        assert said in err
        assert "me:secret" not in err


def test_a_record_without_text_tells_the_same_hits_and_no_word(
    session: MadeSession, workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    with fake_vllm(session) as server:
        code, document, _ = sent(capsys, server.url, workload, "--record", str(kept), "--no-text")
    assert document is not None
    assert (code, document["agree"]) == (0, 12)
    for path in kept.iterdir():
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        for word in (SECRET, "harbour", "lantern", "Task", '"content"'):
            assert word.encode() not in text, path
    assert run(["replay", "--recorded", str(kept), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    for name in (
        "agree",
        "answered",
        "prompt_tokens",
        "predicted_cached_tokens",
        "reported_cached_tokens",
        "counters_agree",
    ):
        assert again[name] == document[name]
    assert any("recorded without text" in note for note in again["notes"])
    assert run(["replay", "--recorded", str(kept), "-b", "32"]) == 2
    assert "--block-size 16" in capsys.readouterr().err
