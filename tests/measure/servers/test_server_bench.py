"""`kvtool bench --server`: what is sent, the line that is fitted, and when it is refused."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.measure.bench.calibration_file import load_calibration
from kvtool.measure.servers.http_exchange import ServerError
from kvtool.measure.servers.server_address import server_address
from kvtool.measure.servers.server_fit import TimedPrefill, fitted_line, line_misses, server_calibration
from kvtool.measure.servers.server_timing import FirstTokenTimer, bench_prompts
from kvtool.results.documents.server_bench import ServerBench
from tests.measure.servers.local_server import answering
from tests.measure.servers.made_metrics import vllm_metrics
from tests.measure.servers.metrics_server import Answer, Page, ok, serving

for _needed in ("httpx", "prometheus_client"):
    pytest.importorskip(_needed, reason="the extra `live` is not installed")

KEY = "sk-secret-of-a-test"
MODELS = json.dumps({"data": [{"id": "m", "root": "nowhere", "max_model_len": 264}]})


def _server(*, more: int = 0, running: int = 0, status: int = 200, cached: bool = True, stream: str = "") -> Answer:
    """Counts its answers, `more` beyond them, and streams one token to each prompt."""
    sent = Counter[str]()

    def answer(path: str, _: int) -> Page:
        sent[path] += 1
        done = sent["/v1/completions"]
        if path == "/metrics":
            return ok(
                vllm_metrics(
                    prompt=100 * done, cached=0, requests=done + (more if done else 0), running=running, waiting=0
                )
            )
        if path == "/v1/models":
            return ok(MODELS)
        if path != "/v1/completions":
            return 404, {}, b"{}"
        usage: dict[str, Any] = {
            "prompt_tokens": 200,
            "prompt_tokens_details": {"cached_tokens": 96} if cached else None,
        }
        chunks = [json.dumps({"choices": [{"text": "x"}]}), json.dumps({"choices": [], "usage": usage}), "[DONE]"]
        return status, {}, (stream or "".join(f"data: {chunk}\n\n" for chunk in chunks)).encode()

    return answer


def test_cold_prompts_of_five_lengths_and_warm_ones_of_five_hit_ratios() -> None:
    prompts = bench_prompts(1000, 0)
    timed = [prompt for prompt in prompts if prompt.case is not None]
    assert Counter(len(prompt.tokens) for prompt in timed if not prompt.shared) == dict.fromkeys(
        (100, 250, 500, 750, 1000), 5
    )
    assert Counter(prompt.shared for prompt in timed if prompt.shared) == dict.fromkeys((100, 300, 500, 700, 900), 5)
    assert Counter(prompt.case for prompt in timed) == dict.fromkeys(range(10), 5)
    firsts = Counter(tuple(prompt.tokens[:16]) for prompt in prompts)
    for before, prompt in itertools.pairwise(prompts):
        if prompt.shared:
            assert prompt.tokens[: prompt.shared] == before.tokens[: prompt.shared]
        assert firsts[tuple(prompt.tokens[:16])] == (2 if prompt.shared or prompt.case is None else 1)
    assert bench_prompts(1000, 0) == prompts
    assert bench_prompts(1000, 1) != prompts


def test_the_line_finds_the_constants_that_times_were_made_of() -> None:
    for a, b, c in [(0.02, 1e-4, 1e-8), (0.005, 0.0, 3e-8), (0.1, 2e-4, 0.0)]:
        rng = random.Random(7)
        points = []
        for cached, computed in [(0, 200 * n) for n in range(1, 11)] + [
            (200 * n, 2000 - 200 * n) for n in range(1, 10)
        ]:
            seconds = a + b * computed + c * computed * (cached + (computed + 1) / 2)
            noise = 4.0 if len(points) == 4 else rng.uniform(0.97, 1.03)  # one was disturbed
            points.append(TimedPrefill(cached, computed, seconds * noise, (), held_out=False))
        line = fitted_line(points)
        whole = a + b * 2000 + c * 2000 * 1000
        assert line.a_s + line.b_s_per_token * 2000 + line.c_s_per_token_pair * 2000 * 1000 == pytest.approx(
            whole, rel=0.05
        )
        assert min(line.a_s, line.b_s_per_token, line.c_s_per_token_pair) >= 0
        assert line_misses(points, held_out=True).median < 0.05


def test_times_are_those_of_the_model_that_the_server_serves_where_no_other_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served = replace(find_geometry("qwen2.5-0.5b"), name="what-is-served")
    points = [TimedPrefill(0, 100 * n, 0.01 + 1e-4 * n, (), held_out=n == 3) for n in range(1, 10)]
    made = server_calibration(points, served, server="a server", dtype="float32", kv_cache_dtype="auto", block_size=16)
    path = tmp_path / "server.json"
    path.write_bytes(made.dump())
    (tmp_path / "log.jsonl").write_text('{"prompt": "one two three"}\n')

    def model(*flags: str) -> str:
        asked = ["profile", str(tmp_path / "log.jsonl"), "--dry-run", "--json", "--calibration", str(path), *flags]
        assert run(asked) == 0
        return str(json.loads(capsys.readouterr().out)["config"]["model"])

    assert model() == "what-is-served"
    assert model("--model", "llama-3.1-8b") == "llama-3.1-8b"


def test_each_prompt_is_sent_once_and_the_file_is_a_calibration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVTOOL_API_KEY", KEY)
    path = tmp_path / "server.json"
    with serving(_server()) as server:
        flags = ["--yes", "--model", "llama-3.1-8b", "-o", str(path), "--json"]
        assert run(["bench", "--server", server.url, *flags]) == 0
        posted = [json.loads(body) for body in server.posted]
        assert {headers.get("authorization") for headers in server.headers} == {f"Bearer {KEY}"}
    said = capsys.readouterr()
    bench = ServerBench.model_validate_json(said.out)
    assert bench.requests == len(posted) == 76
    assert bench.tokens == sum(len(body["prompt"]) for body in posted)
    assert max(len(body["prompt"]) for body in posted) == 256  # of max_model_len 264
    assert {(body["model"], body["max_tokens"], body["stream"]) for body in posted} == {("m", 1, True)}
    assert len({tuple(body["prompt"]) for body in posted}) == 76
    assert len(bench.points) == 10
    assert {(point.prompt_tokens, point.cached_tokens) for point in bench.points} == {(200, 96)}
    calibration = load_calibration(str(path))
    assert len(calibration.points) == 10
    assert bench.calibration_held_out is not None
    assert KEY not in said.out + said.err + path.read_text(encoding="utf-8")


def test_what_a_server_does_not_say_of_its_cache_follows_from_its_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(_server(cached=False)) as server:
        assert run(["bench", "--server", server.url, "--yes", "--longest", "200", "--json"]) == 0
    cached = Counter(point.cached_tokens for point in ServerBench.model_validate_json(capsys.readouterr().out).points)
    assert cached == {0: 6, 32: 1, 96: 1, 128: 1, 160: 1}  # of 20, 60, 100, 140, 180 shared tokens in blocks of 32


@pytest.mark.parametrize(
    ("answer", "flags", "code", "words"),
    [
        (_server(running=1), ("--yes",), 2, "other requests"),
        (_server(more=3), ("--yes",), 2, "had other requests meanwhile"),
        (_server(status=500), ("--yes",), 4, "HTTP 500"),
        (_server(stream="data: {\n\n"), ("--yes",), 4, "an answer that is not JSON"),
        (_server(stream="data: [DONE]\n\n"), ("--yes",), 4, "streamed no token"),
        (_server(stream='data: {"choices": [{"text": "x"}]}\n\n'), ("--yes",), 4, "an answer that was cut off"),
        (_server(stream='data: {"error": {"message": "x"}}\n\n'), ("--yes",), 4, "an error in the middle"),
        (_server(status=401), ("--yes",), 4, "KVTOOL_API_KEY"),
        (_server(status=307), ("--yes",), 4, "redirects; kvtool does not follow"),
        (_server(), (), 2, "--yes sends it"),
        (_server(), ("--yes", "--longest", "20"), 2, "too short"),
        (_server(), ("--yes", "-o", "x.json"), 2, "--model PRESET"),
    ],
)
def test_what_is_not_timed_is_told(
    answer: Answer,
    flags: tuple[str, ...],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(answer) as server:
        assert run(["bench", "--server", server.url, *flags]) == code
        assert len(server.posted) <= (76 if "meanwhile" in words else 1)
    said = capsys.readouterr()
    assert words in " ".join(said.err.split())
    assert not list(tmp_path.iterdir())


def test_options_of_a_server_need_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "--yes"]) == 2
    assert "is about --server" in capsys.readouterr().err


@pytest.mark.parametrize("begun", [False, True])
def test_a_server_that_hangs_is_waited_for_no_longer_than_said(begun: bool) -> None:
    closing = Event()

    class Hangs(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            asked.append(self.path)
            if begun:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'data: {"choices": [{"text": "x"}]}\n\n')
                self.wfile.flush()
            closing.wait(60)

        def log_message(self, *_: Any) -> None:
            pass

    asked: list[str] = []
    with (
        answering(Hangs, closing) as url,
        FirstTokenTimer(server_address(url), "m", timeout=1.0) as timer,
        pytest.raises(ServerError, match=r"not answer in 1 s"),
    ):
        timer.first_token([1, 2, 3])
    assert asked == ["/v1/completions"]
