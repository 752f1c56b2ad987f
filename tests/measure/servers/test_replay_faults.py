"""Counters, KV events and certificates that are not what they should be, each once through the whole command."""

from __future__ import annotations

import json
import math
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx", reason="needs the extra `live`")
pytest.importorskip("prometheus_client", reason="needs the extra `live`")
pytest.importorskip("zmq", reason="needs the extra `live`")
pytest.importorskip("msgspec", reason="needs the extra `live`")

import msgspec

from kvtool.measure.servers.http_exchange import Answered
from kvtool.measure.servers.kv_events.event_batches import MAX_PAYLOAD, StoredBlocks
from kvtool.measure.servers.request_body import SentAs
from kvtool.measure.servers.sender import Sender
from kvtool.measure.servers.server_address import server_address
from tests.measure.servers.fake_publisher import FakePublisher
from tests.measure.servers.fake_vllm import KEY, FakeHandler, FakeVllm, fake_vllm, sent, stream
from tests.measure.servers.local_server import running
from tests.measure.servers.published import payload
from tests.profiler.made_sessions import MadeSession, made_session


def replayed(
    capsys: pytest.CaptureFixture[str], url: str, session: MadeSession, folder: Path, *more: str
) -> tuple[int, dict[str, Any] | None, str]:
    """The exit code, the document and standard error; neither key nor prompt is in what was written."""
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(row["body"]) + "\n" for row in session.rows))
    return sent(capsys, url, str(path), *more)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVTOOL_API_KEY", KEY)


@pytest.mark.parametrize(("status", "said"), [(401, "KVTOOL_API_KEY"), (429, "try again later"), (500, "failed")])
def test_counters_that_are_refused_end_the_run_before_it_begins(
    status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = made_session()
    with fake_vllm(session, metrics=lambda _, text: (status, text)) as server:
        code, document, err = replayed(capsys, server.url, session, tmp_path)
    assert (code, document, server.prompts) == (4, None, [])
    assert said in err


def test_counters_that_hang_are_waited_for_no_longer_than_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closing = threading.Event()

    def hangs(_: int, text: str) -> tuple[int, str]:
        closing.wait(60)
        return 200, text

    session = made_session()
    with fake_vllm(session, metrics=hangs) as server:
        code, document, err = replayed(capsys, server.url, session, tmp_path, "--request-timeout", "1")
        closing.set()
    assert (code, document, server.prompts) == (4, None, [])
    assert "did not answer in 1 s" in err


@pytest.mark.parametrize(
    ("first", "text"),
    [
        pytest.param(0, "# " + "x" * 10_000_001, id="10 MB from the beginning"),
        pytest.param(2, "# " + "x" * 10_000_001, id="10 MB behind the run"),
        pytest.param(1, "{" * 100_000, id="no metrics before the run"),
        pytest.param(2, "vllm:prefix_cache_queries_total NaN\n", id="no number behind the run"),
    ],
)
def test_counters_that_say_nothing_are_done_without(
    first: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = made_session()
    with fake_vllm(session, metrics=lambda number, real: (200, text if number >= first else real)) as server:
        code, document, _ = replayed(capsys, server.url, session, tmp_path)
    assert document is not None
    assert (code, document["agree"], document["counters_agree"]) == (0, 12, None)
    assert any("metrics" in note or "counters" in note for note in document["notes"])
    assert len(server.prompts) == 12


def test_a_counter_that_falls_is_a_restart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    fallen = session.metrics(-4000, -3000, session.created[0])
    with fake_vllm(session, metrics=lambda number, text: (200, text if number < 2 else fallen)) as server:
        code, document, _ = replayed(capsys, server.url, session, tmp_path)
    assert document is not None
    assert (code, document["counters_agree"]) == (1, False)
    assert "restart" in {each["cause"] for each in document["causes"]}


def test_two_replicas_behind_one_url_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    session.created = (100.0, 50.0)
    with fake_vllm(session) as server:
        code, document, _ = replayed(capsys, server.url, session, tmp_path)
    assert document is not None
    assert (code, document["counters_agree"]) == (1, False)
    assert "replicas" in {each["cause"] for each in document["causes"]}


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[FakePublisher]:
    made = FakePublisher(tmp_path, answers=False)
    yield made
    made.close()


Publish = Callable[[int, list[dict[str, Any]]], list[bytes | None]]
"""The messages of a batch of that number; None is one that is lost."""


def whole(_: int, events: list[dict[str, Any]]) -> list[bytes | None]:
    return [payload(events)]


def as_arrays(_: int, events: list[dict[str, Any]]) -> list[bytes | None]:
    """As older servers write them, by position."""
    order = {
        "BlockStored": [each.name for each in msgspec.structs.fields(StoredBlocks)],
        "BlockRemoved": ["block_hashes", "medium"],
        "AllBlocksCleared": [],
    }
    defaults = {"block_size": 1}
    return [
        payload(
            [[each["type"], *(each.get(name, defaults.get(name)) for name in order[each["type"]])] for each in events]
        )
    ]


def lost(number: int, events: list[dict[str, Any]]) -> list[bytes | None]:
    return [None if number == 3 else payload(events)]


MALICIOUS = (
    b"",
    b"\x91" * 100_000,
    b"\xdd\xff\xff\xff\xff",  # an array of four billion
    b"\0" * (MAX_PAYLOAD + 1),
    msgspec.msgpack.encode({"ts": 1}),
    payload([{"type": "BlockStored", "block_hashes": "x"}]),
    payload([{"type": "BlockStored", "block_hashes": [1], "block_size": -1}]),
    payload([[["BlockStored"]], 5, None]),
)


def hostile(number: int, events: list[dict[str, Any]]) -> list[bytes | None]:
    return [payload(events), *(MALICIOUS if number == 2 else ())]


def publishing(
    publisher: FakePublisher, session: MadeSession, told: list[FakeVllm], publish: Publish
) -> Callable[[FakeHandler, int], bool]:
    """Publishes what a request stores before it is answered, under the name that it was sent with."""
    of: dict[str, list[list[dict[str, Any]]]] = {}
    for events in session.batches:
        name = next(each["session_id"] for each in events if "session_id" in each)
        of.setdefault(name, []).append(events)
    numbers = iter(range(10_000))
    batches = iter(range(10_000))

    def fault(_: FakeHandler, number: int) -> bool:
        if number == 0:
            publisher.wait_for_subscriber()
        name = told[0].asked[-1][1]["session_id"]
        for events in of.get(f"s{number}", []):
            named = [{**each, "session_id": name} if "session_id" in each else each for each in events]
            for data in publish(next(batches), named):
                seq = next(numbers)
                if data is not None:
                    publisher.publish(seq, data, keep=False)
        return False

    return fault


def with_events(
    publisher: FakePublisher, publish: Publish, folder: Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    session, told = made_session(), list[FakeVllm]()
    with fake_vllm(session, publishing(publisher, session, told, publish)) as server:
        told.append(server)
        endpoint = publisher.source.endpoint
        code, document, err = replayed(capsys, server.url, session, folder, "--kv-events", endpoint)
    assert document is not None, err
    assert code == 0
    assert (document["answered"], document["agree"], document["counters_agree"]) == (12, 12, True)
    return document


@pytest.mark.parametrize("publish", [whole, as_arrays])
def test_events_as_maps_and_as_arrays_are_those_predicted(
    publish: Publish, publisher: FakePublisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = with_events(publisher, publish, tmp_path, capsys)
    events = document["events"]
    assert events["agree"] == events["predicted"] == events["recorded"] > 5
    assert (events["by"], events["in_order"], document["causes"]) == ("hash", True, [])


def test_a_gap_in_the_events_is_told(
    publisher: FakePublisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = with_events(publisher, lost, tmp_path, capsys)
    assert "gap" in {each["cause"] for each in document["causes"]}


def test_malicious_batches_are_told_and_harm_nothing(
    publisher: FakePublisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = with_events(publisher, hostile, tmp_path, capsys)
    assert "gap" in {each["cause"] for each in document["causes"]}
    assert document["events"]["recorded"] > 5


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_certificate_that_nobody_signed_is_not_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pem, private = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-days", "2"]
    subprocess.run([*made, "-keyout", str(private), "-out", str(pem)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, private)
    asked: list[str] = []

    class Quiet(FakeHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send(200, b"{}")

    class Secure(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """The other side hung up."""

    server = Secure(("127.0.0.1", 0), Quiet)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with running(server, threading.Event()) as port:
        code, document, err = replayed(capsys, f"https://127.0.0.1:{port}", made_session(), tmp_path)
    assert (code, document, asked) == (4, None, [])
    assert "certificate verify failed" in " ".join(err.split()).lower()


def test_a_server_that_is_busy_is_given_the_time_that_it_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moments: list[float] = []

    def busy(handler: FakeHandler, number: int) -> bool:
        moments.append(time.monotonic())
        if number == 5:
            handler.send(429, b"{}", Retry_After="1")
        return number == 5

    session = made_session()
    with fake_vllm(session, busy) as server:
        _, document, _ = replayed(capsys, server.url, session, tmp_path)
    assert document is not None
    assert (document["answered"], document["refused"]) == (11, 1)
    assert moments[6] - moments[5] >= 1  # waited as long as asked; more may be
    assert len(server.prompts) == len(set(server.prompts)) == 12


@pytest.mark.parametrize("count", [-5, 10**400, "5", 1.5, [1]])
def test_a_count_that_cannot_be_costs_no_other_answer(
    count: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = made_session()

    def miscounts(handler: FakeHandler, number: int) -> bool:
        if number == 2:
            row = session.rows[number]
            usage = {**row["response"]["usage"], "prompt_tokens": count}
            stream(handler, {**row, "response": {**row["response"], "usage": usage}})
        return number == 2

    with fake_vllm(session, miscounts) as server:
        code, document, err = replayed(capsys, server.url, session, tmp_path, "--record", str(tmp_path / "kept"))
    assert document is not None, err
    assert (code, document["answered"], document["agree"]) == (1, 12, 11)


def test_no_more_is_sent_at_once_than_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    with fake_vllm(session) as server:
        _, document, _ = replayed(capsys, server.url, session, tmp_path, "--concurrency", str(10**9))
    assert document is not None
    assert document["answered"] == 12


SESSION = """\
version: 1
groups:
  - name: g
    sessions: {count: 1, turns: 3, output_tokens: 4}
    messages: [{role: system, text: be kind}, {role: user, text: hello}]
"""
REFUSING = """\
{% for m in messages %}{% if 'x x' in m.content %}{{ raise_exception('not so') }}{% endif %}{{ m.content }}
{% endfor %}"""


def test_an_answer_that_makes_no_next_turn_ends_the_sending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "w.yaml").write_text(SESSION)
    (tmp_path / "t.jinja").write_text(REFUSING)
    session = made_session()

    def answers(handler: FakeHandler, _: int) -> bool:
        stream(handler, session.rows[0])
        return True

    with fake_vllm(session, answers) as server:
        code, document, _ = sent(
            capsys, server.url, str(tmp_path / "w.yaml"), "--chat-template", str(tmp_path / "t.jinja")
        )
    assert document is not None
    assert (code, document["answered"]) == (1, 1)
    assert "not so" in document["stopped"]


@pytest.mark.parametrize("seconds", ["nan", "-inf", "soon"])
def test_a_wait_that_is_no_number_of_seconds_is_not_waited(seconds: str) -> None:
    sender = Sender(
        server_address("http://127.0.0.1:1"), SentAs("m", salt=None, token_ids=True), timeout=1.0, at_once=1
    )
    sender._check(Answered(429, b"", {"retry-after": seconds}))
    assert not math.isnan(sender._not_before)
    assert sender._not_before - sender.now <= 1.0
