"""`kvtool why`: what it says of servers, hidden ones and broken ones, of recordings, and of arguments that do not go together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx", reason="needs the extra `live`")
pytest.importorskip("msgspec", reason="needs the extra `live`")

from kvtool.accounting.served_cache import ServedCache
from kvtool.cli.app import run
from kvtool.engine.groups.model_plan import ServeOptions
from kvtool.engine.model.configs.find_served import find_served
from tests.measure.servers.engine_server import tokens_of
from tests.measure.servers.made_metrics import CREATED, vllm_metrics
from tests.measure.servers.metrics_server import Page, always, ok, pages, serving
from tests.profiler.made_sessions import SECRET, made_session
from tests.results.documents import redumped

MODELS = json.dumps({"data": [{"id": "m", "root": "m", "parent": None, "max_model_len": 8192}]})


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The document; it is as it is dumped, and quotes no prompt."""
    assert run(["why", *arguments, "--json", "-q"]) == 0
    out, err = capsys.readouterr()
    assert not err
    assert SECRET not in out
    assert redumped(out) == out
    found: dict[str, Any] = json.loads(out)
    return found


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The screen, which is no wider than asked."""
    assert run(["why", *arguments, "-q", "--width", "80"]) == 0
    out = capsys.readouterr().out
    assert SECRET not in out
    return out


def vllm(text: str, **more: str) -> dict[str, str | bytes]:
    """The pages of a server."""
    return {"/metrics": text, "/v1/models": MODELS, "/version": '{"version": "0.32.0"}', **more}


def test_a_server_that_caches_nothing_is_told_so_with_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    text = vllm_metrics(queries=0, cached=0, config={"enable_prefix_caching": "False"})
    with serving(pages(vllm(text))) as server:
        found = said(capsys, server.url)
        assert (found["verdict"], found["hit_rate"]) == ("cause", 0)
        assert found["causes"][0]["cause"] == "caching off"
        screen = shown(capsys, server.url)
    assert "100.0% of the prompt tokens are lost to caching off." in screen
    assert "Remove --no-enable-prefix-caching, or set --enable-prefix-caching" in screen


@pytest.mark.parametrize(("cached", "matches"), [(0, True), (900, False)])
def test_a_server_that_hits_more_than_its_log_explains(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, cached: int, *, matches: bool
) -> None:
    """Every prompt of the log is new, so no server hits any of its tokens."""
    lines = [json.dumps({"prompt": f"{at} {SECRET} " + "word " * 60}) for at in range(5)]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    metrics = tmp_path / "server.prom"
    metrics.write_text(vllm_metrics(cached=cached), encoding="utf-8")
    found = said(capsys, str(metrics), str(log))
    assert (found["log_prompt_tokens"] is None) == matches
    assert ("It had other requests." in found["summary"]) != matches
    assert any("do not match" in note for note in found["notes"]) != matches


def test_a_server_that_hides_its_counters_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(always((404, {}, b"{}"))) as server:
        found = said(capsys, server.url)
    assert found["verdict"] == "unknown"
    assert found["causes"] == []
    assert "nothing is counted: " in (trouble := found["servers"][0]["trouble"])
    assert trouble.endswith("/metrics has no such page (HTTP 404)")


@pytest.mark.parametrize("lost", ["/version", "/server_info?config_format=json"])
def test_a_page_that_does_not_come_leaves_the_counters(lost: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What was counted is known, and one page is waited for, not each of them."""
    answer = pages(vllm(vllm_metrics()))
    with serving(lambda path, before: (502, {}, b"") if path == lost else answer(path, before)) as server:
        found = said(capsys, server.url)
        assert sum(path in ("/version", "/v1/models") for path in server.asked) == (1 if lost == "/version" else 2)
    assert found["prompt_tokens"] == 1000
    assert found["servers"][0]["trouble"].endswith(
        f"{lost} failed (HTTP 502): what the server says of itself is not known"
    )


def test_counters_of_another_process_count_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(pages(vllm(vllm_metrics(model="other")))) as server:
        found = said(capsys, server.url)
        assert "another process" in found["servers"][0]["trouble"]
        assert found["prompt_tokens"] is None
    node = "# TYPE node_cpu_seconds_total counter\nnode_cpu_seconds_total 5.0\n"
    with serving(pages(vllm(node))) as server:
        assert said(capsys, server.url)["verdict"] == "unknown"


def test_two_versions_behind_one_url_are_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [vllm_metrics(created=CREATED + 9 * at, prompt=1000 + at) for at in range(2)]

    def answer(path: str, before: int) -> Page:
        return ok(texts[before % 2]) if path == "/metrics" else pages(vllm(""))(path, before) or (404, {}, b"")

    with serving(answer) as server:
        found = said(capsys, server.url)
    assert [each["cause"] for each in found["causes"]] == ["several servers"]
    assert found["hit_rate"] is None


def test_a_restart_within_the_span_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(path: str, before: int) -> Page:
        restarted = vllm_metrics(created=CREATED + 1e9, prompt=50, cached=0)
        text = vllm_metrics() if before < 3 else restarted
        return ok(text) if path == "/metrics" else pages(vllm(""))(path, before) or (404, {}, b"")

    with serving(answer) as server:
        found = said(capsys, server.url, "--for", "0.1s")
    assert found["causes"][0]["cause"] == "restart"
    assert found["prompt_tokens"] == 50


def test_one_server_that_is_gone_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(pages(vllm(vllm_metrics()))) as server:
        found = said(capsys, server.url, "http://127.0.0.1:9")
        assert found["prompt_tokens"] == 1000
        assert "does not answer" in found["servers"][1]["trouble"]
    assert run(["why", "http://127.0.0.1:9"]) == 4


@pytest.mark.parametrize(
    ("arguments", "said_"),
    [
        ([], "a server, a recording or a log"),
        (["l.jsonl"], "l.jsonl"),
        (["l.jsonl", "--for", "2s"], "--for is about a running server"),
        (["http://h", "--recorded", "d"], "a server, a recording or a log"),
        (["--recorded", "d", "--for", "2s"], "--for is about a running server"),
        (["--recorded", "d", "--kv-events", "server"], "--kv-events is about a running server"),
        (["--recorded", "missing"], "not a folder"),
        (["--recorded", "."], "no saved /metrics"),
        (["http://h", "--kv-events", "server", "--kv-events", "server"], "more often than servers"),
        (["http://h", "--offline"], "--offline forbids"),
        (["http://h", "--router-block-size", "0"], "at least 1"),
        (["http://h", "--for", "0s"], "--for"),
        (["m.prom"], "m.prom"),
    ],
)
def test_bad_arguments_end_with_a_sentence(
    arguments: list[str],
    said_: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["why", *arguments]) == 2
    out, err = capsys.readouterr()
    assert said_ in err
    assert not out
    assert "Traceback" not in err


def test_a_bad_log_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "l.jsonl"
    log.write_text('{"prompt": "a"}\n{"prompt"\n')
    with serving(pages(vllm(vllm_metrics()))) as server:
        assert run(["why", server.url, str(log), "-q"]) == 2
    assert "l.jsonl:2:" in capsys.readouterr().err


def test_a_recorded_session_is_explained_by_its_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    folder = session.write(tmp_path / "s")
    found = said(capsys, "--recorded", str(folder))
    assert found["causes"][0]["cause"] == "prompts"
    assert found["hit_rate"] == pytest.approx(session.hits / session.queries)
    assert found["predicted_hit_rate"] == pytest.approx(found["hit_rate"])


def test_a_tokenizer_that_only_the_server_has_costs_the_log_and_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "l.jsonl"
    log.write_text('{"prompt": "a b c"}\n')
    models = json.dumps({"data": [{"id": "m", "root": "owner/name", "parent": None, "max_model_len": 8192}]})
    with serving(pages({**vllm(vllm_metrics()), "/v1/models": models})) as server:
        found = said(capsys, server.url, str(log))
        assert found["prompt_tokens"] == 1000
        assert "The log is not predicted" in found["notes"][0]
        assert run(["why", server.url, str(log), "-t", "owner/name", "-q"]) in (2, 4)


def test_other_tokens_of_a_recorded_session_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session()
    for row in session.rows:
        row["response"]["usage"]["prompt_tokens"] += 7
        row["response"]["usage"]["prompt_tokens_details"]["cached_tokens"] = 0
    found = said(capsys, "--recorded", str(session.write(tmp_path / "s")))
    assert "other tokens" in {each["cause"] for each in found["causes"]}


def test_saved_metrics_are_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "1.prom").write_text(vllm_metrics())
    (tmp_path / "2.prom").write_text(vllm_metrics(prompt=1600, cached=500, preemptions=2))
    found = said(capsys, "--recorded", str(tmp_path))
    assert (found["prompt_tokens"], found["hit_tokens"]) == (600, 100)
    assert found["causes"][0]["cause"] == "capacity"


def test_a_log_that_the_server_did_not_count_keeps_both_rates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.prom").write_text(vllm_metrics(prompt=900_000, cached=90_000))
    usage = {"prompt_tokens": 64, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 48}}
    record = {"request": {"model": "m", "prompt": "a b c " * 20}, "response": {"usage": usage}}
    log = tmp_path / "l.jsonl"
    log.write_text(f"{json.dumps(record)}\n" * 3)
    found = said(capsys, str(tmp_path / "m.prom"), str(log))
    assert (found["hit_rate"], found["prompt_tokens"], found["log_prompt_tokens"]) == (0.1, 900_000, 192)
    (note,) = [each for each in found["notes"] if "do not match" in each]
    assert "75.0%" in note
    assert "10.0%" in note


def test_a_cause_is_named_for_each_server_that_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    off = {"enable_prefix_caching": "False"}
    for name, prompt in (("a", 1000), ("b", 3000)):
        text = vllm_metrics(prompt=prompt, queries=0, cached=0, config=off, created=CREATED + prompt)
        (tmp_path / f"{name}.prom").write_text(text)
    (tmp_path / "c.prom").write_text(vllm_metrics(prompt=500, cached=480))
    paths = [str(tmp_path / f"{name}.prom") for name in "abc"]
    found = said(capsys, *paths)
    causes = [(each["cause"], each["server"], each["tokens"]) for each in found["causes"]]
    assert causes[:2] == [("caching off", paths[1], 3000), ("caching off", paths[0], 1000)]
    assert run(["why", *paths, "--width", "200"]) == 0
    assert f"caching off at {paths[1]}: " in capsys.readouterr().out


def test_the_model_gives_the_block_that_a_hit_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server whose page does not say that its blocks are long: its model does, and another model is refused."""
    served = ServedCache.of(find_served("qwen3-next-80b"), ServeOptions(max_model_len=8192, enable_prefix_caching=True))
    size = served.planned.plan.cache_block_size
    config = {"block_size": str(size), "num_gpu_blocks": "4000", "num_gpu_blocks_override": "None"}
    config |= {"effective_attention_block_size": "None"}
    bounds = {"200": 9, "500": 9, "+Inf": 9}
    labels = 'engine="0",model_name="m"'
    lines = [f'vllm:request_prompt_tokens_bucket{{{labels},le="{bound}"}} {count}' for bound, count in bounds.items()]
    lines += [f"vllm:request_prompt_tokens_sum{{{labels}}} 1500", f"vllm:request_prompt_tokens_count{{{labels}}} 9"]
    text = vllm_metrics(prompt=1500, cached=0, config=config, more="\n".join([*lines, ""]))
    (tmp_path / "m.prom").write_text(text)
    for command in ("why", "watch"):
        assert run([command, str(tmp_path / "m.prom"), "--model", "qwen3-next-80b", "--json"]) == 0
        causes = json.loads(capsys.readouterr().out)["causes"]
        assert causes[0]["cause"] == "short prompts"
        assert f"a block of {size:,}" in causes[0]["why"]
        assert run([command, str(tmp_path / "m.prom"), "--model", "nobody-has-this", "--json"]) == 2
        assert "nobody-has-this" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shared", "expected"), [(60, ("short prompts", "counted")), (900, ("model groups", "at most"))]
)
def test_an_unknown_model_hits_no_more_than_full_attention(
    shared: int, expected: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is predicted for it. What full attention loses, too, is lost to the blocks, and at most the rest to the layers."""
    texts = [f"{'word ' * shared}{at} {'other ' * 20}" for at in range(6)]
    prompts = [len(ids) for ids in tokens_of(texts)]
    lines = [
        {
            "request": {"prompt": text},
            "response": {"usage": {"prompt_tokens": count, "prompt_tokens_details": {"cached_tokens": 0}}},
        }
        for text, count in zip(texts, prompts, strict=True)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = {"block_size": "784", "mamba_block_size": "784", "prefix_cache_retention_interval": "0"}
    text = vllm_metrics(prompt=sum(prompts), cached=0, requests=6, generated=6, config=config)
    (tmp_path / "m.prom").write_text(text)
    found = said(capsys, str(tmp_path / "m.prom"), str(tmp_path / "log.jsonl"))
    assert (found["predicted_hit_rate"], found["next"]) == (None, [])
    assert any("The log is not predicted" in note for note in found["notes"])
    first = max(found["causes"], key=lambda each: (each["source"] == "log", each["tokens"] or 0))
    assert (first["cause"], first["basis"]) == expected


def test_a_small_fact_does_not_hide_a_larger_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2 % of the tokens are never looked up, and evictions can take most: the server is not called healthy."""
    (tmp_path / "m.prom").write_text(vllm_metrics(prompt=90_000, queries=88_200, cached=100))
    found = said(capsys, str(tmp_path / "m.prom"))
    assert [each["cause"] for each in found["causes"]] == ["capacity", "request fields"]
    assert found["verdict"] == "possible"


def test_a_log_without_prompts_has_no_shared_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two prompts of which only the lengths are known: nothing is known of what they share."""
    line = 'time=2025-10-22T21:1{}:17.240-04:00 level=DEBUG source=cache.go:142 msg="loading cache slot" id=0'
    lines = [f"{line.format(at)} cache=0 prompt=900 used=0 remaining=900\n" for at in range(4)]
    (tmp_path / "ollama.log").write_text("".join(lines))
    assert [each for each in said(capsys, str(tmp_path / "ollama.log"))["causes"] if each["source"] == "log"] == []


@pytest.mark.parametrize("counts", [(900, 400), (400, 900)])
def test_counters_that_fall_and_return_are_of_two_servers(
    counts: tuple[int, int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers that do not report when their counters began take turns at one URL; one that restarts does not return.

    A restart takes its time: counters that begin anew within moments are those of another server.
    """

    def metrics(_path: str, before: int) -> Page:
        return ok(vllm_metrics(prompt=counts[before % 2], cached=0, created=None))

    def restarted(_path: str, before: int) -> Page:
        return ok(vllm_metrics(prompt=counts[0] + before if before < 1 else 5 + before, cached=0, created=None))

    def other_page(path: str, before: int) -> Page:
        return metrics(path, 0) if before < 1 else ok("# TYPE node_load1 gauge\nnode_load1 5.0\n")

    several = "several servers"
    for answer, soon, expected in (
        (metrics, 0.0, several),
        (restarted, 0.0, "restart"),
        (restarted, 60.0, several),
        (other_page, 0.0, several),
    ):
        monkeypatch.setattr("kvtool.measure.servers.metrics.counted_between._SOONEST_START", soon)
        seen: dict[str, int] = {}

        def page(path: str, _before: int, answer: Any = answer, seen: dict[str, int] = seen) -> Page:
            if not path.startswith("/metrics"):
                return 404, {}, b""
            seen[path] = seen.get(path, -1) + 1
            return answer(path, seen[path])  # type: ignore[no-any-return]

        with serving(page) as server:
            assert said(capsys, server.url)["causes"][0]["cause"] == expected


def test_only_requests_that_the_server_can_have_had_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another provider's requests and reports say nothing of the server; a name that nobody knows may be an alias."""
    metrics = tmp_path / "metrics"  # as `curl -O` names it
    metrics.write_text(vllm_metrics(cached=0, model="Qwen/Qwen3-32B"), encoding="utf-8")
    usage = {"prompt_tokens": 900, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}

    def log(name: str, *models: str) -> str:
        lines = [{"model": model, "prompt": f"{at} " + "word " * 60} for at, model in enumerate(models)]
        lines += [{"request": {**lines[0], "model": "gpt-5.1"}, "response": {"usage": usage}}] * 2
        path = tmp_path / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return str(path)

    served = ["Qwen/Qwen3-32B", "hosted_vllm/Qwen/Qwen3-32B", "my-adapter"]
    found = said(capsys, str(metrics), log("mixed.jsonl", *served, "claude-sonnet-4-5", "meta-llama/Llama-3.1-8B"))
    assert found["log_prompt_tokens"] is None
    assert all(each["cause"] != "other tokens" for each in found["causes"])
    assert [note.partition(" of the log")[0] for note in found["notes"] if "do not count" in note] == ["4 requests"]
    alone = said(capsys, str(metrics), log("hosted.jsonl", "claude-sonnet-4-5"))
    assert alone["predicted_hit_rate"] is None
    assert any("not predicted: its requests are for" in note for note in alone["notes"])


def test_an_idle_server_had_no_request_and_events_are_offered_where_they_are_published(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(pages(vllm(vllm_metrics()))) as server:
        idle = said(capsys, server.url, "--for", "100ms")
    assert (idle["summary"], idle["next"]) == ("Unknown: no request came in this span.", [])
    sources = json.dumps({"0": {"endpoint": "tcp://*:5557"}})
    for page, offered in (({}, False), ({"/kv_event_sources": sources}, True)):
        with serving(pages(vllm(vllm_metrics(cached=100), **page))) as server:
            found = said(capsys, server.url)
        assert found["verdict"] in ("possible", "unknown")
        assert ("--kv-events" in found["next"]) == offered
