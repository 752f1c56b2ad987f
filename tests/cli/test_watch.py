"""`kvtool watch` beside a server that answers, restarts, dies, is several, or answers with something else."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.results.documents.watched import WatchDocument
from kvtool.text.terminal.console import cell_width
from tests.measure.servers.made_metrics import CREATED, vllm_metrics
from tests.measure.servers.metrics_server import Answer, Page, ok, serving

for _needed in ("httpx", "prometheus_client"):
    pytest.importorskip(_needed, reason="the extra `live` is not installed")

KEY = "sk-secret-of-a-test"
KVTOOL = str(Path(sys.executable).parent / "kvtool")
FAST = ("--interval", "100ms", "--window", "10s")


def _growing(_: str, before: int) -> Page:
    """Each look finds 100 tokens more, of which 60 hit."""
    ttft = {"0.1": before, "0.5": 2 * before, "+Inf": 2 * before}
    return ok(vllm_metrics(prompt=1000 + 100 * before, cached=60 * before, requests=before, ttft=ttft, ttft_sum=before))


def _lines(answer: Answer, capsys: pytest.CaptureFixture[str], *flags: str) -> list[WatchDocument]:
    with serving(answer) as server:
        assert run(["watch", server.url, *FAST, "--json", *flags]) == 0
    return [WatchDocument.model_validate_json(line) for line in capsys.readouterr().out.splitlines()]


def test_each_look_is_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    seen = _lines(_growing, capsys, "--count", "4")
    assert [each.since_attach.prompt_tokens for each in seen] == [0, 100, 200, 300]
    assert [each.since_attach.cached_tokens for each in seen] == [0, 60, 120, 180]
    assert [each.window.hit_rate for each in seen] == [None, 0.6, 0.6, 0.6]
    assert seen[-1].since_start.prompt_tokens == 1300
    assert seen[-1].since_attach.ttft is not None
    assert seen[-1].since_attach.ttft.count == 6
    assert seen[-1].now.kv_cache_usage == 0.25
    assert (seen[-1].server, seen[-1].models, seen[-1].measured) == ("vLLM", ["m"], True)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_console(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(_growing) as server:
        assert run(["watch", f"{server.url}/v1", *FAST, "--count", "1", "--width", str(width)]) == 0
        alone = capsys.readouterr().out
        assert run(["watch", server.url, *FAST, "--count", "3", "--width", str(width)]) == 0
    out = capsys.readouterr().out
    assert max(map(cell_width, alone.splitlines())) <= width
    sums = out[out.index("kvtool watch") :]
    assert max(map(cell_width, sums.splitlines())) <= width
    assert "since attach" in sums
    assert "since attach" not in alone  # one look has no window
    assert ("since its start" in sums) == (width >= 80)
    assert "60.0%" in sums


def test_a_restart_and_a_pause_are_told_and_the_sums_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    born = time.time()

    def answer(_: str, before: int) -> Page:
        if before == 2:
            return 503, {}, b""
        if before < 2:
            return _growing("", before)
        return ok(vllm_metrics(prompt=7 * (before - 2), cached=0, requests=1, created=born + 4))

    seen = _lines(answer, capsys, "--count", "5")
    assert [each.state for each in seen] == ["counting", "counting", "no answer", "restarted", "counting"]
    assert [each.since_attach.prompt_tokens for each in seen] == [0, 100, 100, 107, 114]
    assert seen[-1].restarts == 1
    assert "HTTP 503" in seen[2].message


def test_two_replicas_behind_one_url_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(_: str, before: int) -> Page:
        return ok(vllm_metrics(prompt=1000 * (1 + before % 2), created=CREATED + before % 2))

    seen = _lines(answer, capsys, "--count", "3")
    assert [each.state for each in seen] == ["counting", "several servers", "several servers"]
    assert "several servers share this URL" in seen[-1].message


def test_a_server_that_dies_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(_growing) as server:
        url = server.url
        process = subprocess.Popen(
            [KVTOOL, "watch", url, *FAST, "--json", "--count", "40"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["state"] == "counting"
    try:
        states = (json.loads(line)["state"] for line in process.stdout)
        assert "no answer" in states
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("page", "code", "words"),
    [
        ((401, {}, b""), 4, "requires an API key"),
        ((404, {}, b""), 4, "has no such page"),
        ((429, {"Retry-After": "1"}, b""), 4, "overloaded"),
        ((500, {}, b""), 4, "failed (HTTP 500)"),
        ((302, {"Location": "http://other.example/"}, b""), 4, "redirects to another host"),
        ((200, {}, b"x" * 10_000_001), 4, "more than 10 MB"),
        ((200, {}, b"<html>"), 2, "not a metric in the Prometheus format"),
        ((200, {}, b"other_total 1\n"), 2, "no metrics of a server that kvtool knows"),
    ],
)
def test_what_cannot_be_watched_is_a_sentence(
    page: Page, code: int, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVTOOL_API_KEY", KEY)
    with serving(lambda _, __: page) as server:
        assert run(["watch", server.url, *FAST]) == code
    said = capsys.readouterr()
    assert words in " ".join(said.err.split())
    assert KEY not in said.out + said.err
    assert "Traceback" not in said.err


def test_a_server_that_refuses_later_ends_the_watch(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(lambda path, before: (401, {}, b"") if before else _growing(path, before)) as server:
        assert run(["watch", server.url, *FAST, "--json"]) == 4
    assert "requires an API key" in capsys.readouterr().err


def test_a_page_without_metrics_ends_the_watch_with_its_sums(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(lambda path, before: (200, {}, b"<html>") if before > 1 else _growing(path, before)) as server:
        assert run(["watch", server.url, *FAST, "--plain", "--width", "100"]) == 2
    said = capsys.readouterr()
    assert "not a metric in the Prometheus format" in " ".join(said.err.split())
    assert "prompt tokens: last 10 s" in said.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["x.prom"], "no such file"),
        (["ftp://h/metrics"], "not a scheme for servers"),
        (["http://u:p@h"], "must not contain a user, password or query"),
        (["http://h", "--interval", "0"], "--interval is from 100 ms"),
        (["http://h", "--window", "soon"], "--window:"),
        (["http://h", "--count", "0"], "at least 1"),
    ],
)
def test_wrong_arguments_are_told(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", *arguments]) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_a_file_is_looked_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.prom"
    path.write_text(vllm_metrics(prompt=1000, cached=400, model="\x1b[2Jm"), encoding="utf-8")
    assert run(["watch", str(path)]) == 0
    out = capsys.readouterr().out
    assert "40.0%" in out
    assert "\x1b" not in out
    path.write_text("vllm:x 1\nvllm:y{ 3\n", encoding="utf-8")
    assert run(["watch", str(path)]) == 2
    assert f"{path}:2:1" in capsys.readouterr().err


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_a_terminal_leaves_the_page_and_prints_the_sums() -> None:
    with serving(_growing) as server:
        terminal, inner = pty.openpty()
        process = subprocess.Popen(
            [KVTOOL, "watch", server.url, *FAST],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"},
            start_new_session=True,
        )
        os.close(inner)
        out, pressed = b"", False
        while select.select([terminal], [], [], 60)[0]:
            try:
                part = os.read(terminal, 1 << 16)
            except OSError:  # it has ended
                break
            out += part
            if not part or out.count(b"\x1b[H") > 600:  # it goes on
                process.kill()
                break
            if not pressed and out.count(b"\x1b[H") > 2:
                process.send_signal(signal.SIGINT)
                pressed = True
        os.close(terminal)
        code = process.wait(60)
    assert code == 0
    page, left, sums = out.partition(b"\x1b[?1049l")
    assert page.startswith(b"\x1b[?1049h")
    assert left
    assert b"since attach" in sums
    assert b"Traceback" not in out


def test_kv_events_are_counted_meanwhile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zmq = pytest.importorskip("zmq")
    pytest.importorskip("msgspec")
    from tests.measure.servers.published import payload, removed, stored

    events = [stored([1], [1, 2, 3, 4]), removed(1), stored([1], [1, 2, 3, 4])]
    endpoint = f"ipc://{tmp_path}/events"
    with zmq.Context() as context, context.socket(zmq.XPUB) as publisher:
        publisher.bind(endpoint)

        def answer(path: str, before: int) -> Page:
            if not before:
                assert publisher.poll(10_000)  # it listens before it looks
                publisher.recv()
                for number, event in enumerate(events):
                    publisher.send_multipart([b"", number.to_bytes(8, "big"), payload([event])])
            return _growing(path, before)

        flags = ("--count", "3", "--kv-events", endpoint)
        seen = _lines(answer, capsys, *flags)
        assert seen[0].events is not None
        told = seen[-1].events
    assert told is not None
    assert (told.stored_blocks, told.evicted_blocks, told.stored_again_blocks, told.gaps) == (2, 1, 1, 0)
    assert told.lost_tokens > 0
    assert told.age_p50_s is not None


def test_an_endpoint_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("zmq")
    with serving(_growing) as server:
        assert run(["watch", server.url, "--kv-events", "tcp://*:5557"]) == 2
    assert "not an endpoint of KV events" in " ".join(capsys.readouterr().err.split())


def test_the_server_says_where_its_ranks_publish_and_what_was_before_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("zmq")
    pytest.importorskip("msgspec")
    from tests.measure.servers.published import payload, removed, stored
    from tests.measure.servers.test_event_subscriber import FakePublisher

    block = [1, 2, 3, 4]
    published = [[stored([1], block)], [removed(1)], [stored([1], block)]], [[stored([1], block)]]
    ranks = []
    for number, batches in enumerate(published):
        (tmp_path / str(number)).mkdir()
        ranks.append(FakePublisher(tmp_path / str(number)))
        for seq, events in enumerate(batches):
            ranks[-1].keep(seq, payload(events, rank=None))
    said = {
        str(number): {"endpoint": rank.source.endpoint, "replay_endpoint": rank.source.replay, "topic": ""}
        for number, rank in enumerate(ranks)
    }

    def answer(path: str, before: int) -> Page:
        return ok(json.dumps(said)) if path == "/kv_event_sources" else _growing(path, before)

    try:
        told = _lines(answer, capsys, "--count", "2", "--kv-events", "server")[-1].events
    finally:
        for rank in ranks:
            rank.close()
    assert told is not None
    assert (told.stored_blocks, told.evicted_blocks, told.stored_again_blocks, told.gaps) == (3, 1, 1, 0)
    assert [rank.asked for rank in ranks] == [[0], [0]]


@pytest.mark.parametrize("page", ["{}", "[]", "nonsense", '{"0": {"endpoint": "tcp://elsewhere:5557"}}', None])
def test_a_server_that_publishes_nothing_here_is_told(page: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("zmq")

    def answer(path: str, before: int) -> Page:
        if path != "/kv_event_sources":
            return _growing(path, before)
        return (404, {}, b"") if page is None else ok(page)

    with serving(answer) as server:
        assert run(["watch", server.url, "--kv-events", "server"]) == 2
    elsewhere = page is not None and "elsewhere" in page
    said = "is not on its own host" if elsewhere else "publishes no KV events, or does not list its publishers"
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("host", "endpoints", "listened", "told"),
    [
        ("10.1.2.3", {"0": "ipc:///run/docker.sock"}, [], 1),
        ("127.0.0.1", {"0": "ipc:///run/kv"}, [0], 0),
        (
            "h.example",
            {"0": "tcp://*:5", "1": "tcp://h.example:6", "2": "tcp://10.0.0.1:7", "3": "inproc://x"},
            [0, 1],
            1,
        ),
        ("h.example", {"9" * 5000: "tcp://*:5", "\u00b2": "tcp://*:5", "-1": "tcp://*:5", "x": "tcp://*:5"}, [], 0),
        ("h.example", {str(rank): "tcp://*:5" for rank in range(1000)}, list(range(256)), 1),
    ],
)
def test_a_server_names_only_ports_of_its_own_host(
    host: str, endpoints: dict[str, str], listened: list[int], told: int
) -> None:
    pytest.importorskip("msgspec")
    from kvtool.measure.servers.kv_events.event_listener import event_sources
    from kvtool.measure.servers.server_address import server_address

    class Connection:
        address = server_address(f"http://{host}:8000")

        def json(self, *_: object, **__: object) -> object:
            return {rank: {"endpoint": endpoint} for rank, endpoint in endpoints.items()}

    named = event_sources(Connection(), None)  # type: ignore[arg-type]  # all of a connection that is used
    assert [source.rank for source in named.sources] == listened
    assert len(named.notes) == told


def test_a_file_cannot_say_where_events_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("zmq")
    (tmp_path / "m.prom").write_text(_growing("", 0)[2].decode())
    assert run(["watch", str(tmp_path / "m.prom"), "--kv-events", "server"]) == 2
    assert "pass the endpoint" in " ".join(capsys.readouterr().err.split())


def test_the_causes_of_the_window_are_named_and_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the cache lost before kvtool attached counts for nothing; what was evicted then and is computed again counts."""
    pytest.importorskip("zmq")
    pytest.importorskip("msgspec")
    from kvtool.measure.servers.metrics.exposition import parse_exposition
    from tests.measure.servers.published import payload, removed, stored
    from tests.measure.servers.test_event_subscriber import FakePublisher

    block = [*range(32)]
    publisher = FakePublisher(tmp_path)
    history = ([stored([1], block)], [removed(1)], [stored([1], block)], [removed(1)])
    for seq, events in enumerate(history):
        publisher.keep(seq, payload(events, rank=None))
    said = {"0": {"endpoint": publisher.source.endpoint, "replay_endpoint": publisher.source.replay, "topic": ""}}
    port = _free_port()
    exported: list[str] = []

    def answer(path: str, before: int) -> Page:
        if path == "/kv_event_sources":
            return ok(json.dumps(said))
        if before == 1:
            publisher.publish(len(history), payload([stored([1], block)], rank=None))
        if before in (1, 4):
            exported.append(httpx.get(f"http://127.0.0.1:{port}/metrics").text)
        return _growing(path, before)

    import httpx

    try:
        seen = _lines(answer, capsys, "--count", "6", "--kv-events", "server", "--metrics-port", str(port))
    finally:
        publisher.close()
    assert [(each.cause, each.tokens, each.source) for each in seen[-1].causes] == [("capacity", 32, "KV events")]
    assert "kvtool_lost_tokens_total" in exported[0], "the first reading is there at once"
    counters = parse_exposition(exported[-1], shown="f").of("kvtool_lost_tokens_total")
    assert {each.labels["cause"]: each.value for each in counters if each.value} == {"capacity": 32}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize("port", ["0", "65536"])
def test_a_port_that_is_none_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", "http://h", "--metrics-port", port]) == 2
    assert "a port from 1 to 65535" in capsys.readouterr().err


def test_a_cause_has_its_change_and_the_command_that_shows_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.prom"
    path.write_text(vllm_metrics(queries=0, cached=0, config={"enable_prefix_caching": "False"}))
    assert run(["watch", str(path)]) == 0
    out = capsys.readouterr().out
    assert "--no-enable-prefix-caching" in out
    assert f"kvtool why {path}" in out.replace("\\\n    ", "")
