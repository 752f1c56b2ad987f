"""Logs of servers of one's own: what they reported beside what the embedded engine reads, and one tested cause for each token."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.results.money import MORE_PREDICTED, MORE_REPORTED
from tests.conftest import some
from tests.files import write
from tests.measure.servers.recordings import recording

Report = dict[str, Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _profiled(capsys: pytest.CaptureFixture[str], *arguments: str) -> Report:
    assert run(["profile", *arguments, "--dry-run", "--no-advice", "--json", "--per-request", "--no-config"]) == 0
    found: Report = json.loads(capsys.readouterr().out)
    _check_sums(found)
    return found


def _check_sums(report: Report) -> None:
    """Differences are explained to the token: in all, by group and by request."""
    if "reported" not in report:
        return

    def apart(causes: dict[str, int]) -> int:
        assert set(causes) <= {*MORE_PREDICTED, *MORE_REPORTED}
        assert all(count > 0 for count in causes.values())
        return sum(count if cause in MORE_PREDICTED else -count for cause, count in causes.items())

    total = report["predicted"]["cached_tokens"] - report["reported"]["cached_tokens"]
    assert apart(report["difference"]) == total
    groups = [group["provider"] for group in report["groups"] if "provider" in group]
    assert sum(one["predicted_tokens"] - one["reported_tokens"] for one in groups) == total
    for one in [*groups, *(row["provider"] for row in report["requests"] if "provider" in row)]:
        assert apart(one["difference"]) == one["predicted_tokens"] - one["reported_tokens"]
    assert sum(one["requests"] for one in groups) == report["reported"]["requests"]


def _prompts(seed: int, count: int = 60) -> list[str]:
    """Some templates, each used again and again with another end."""
    chance = random.Random(seed)
    texts = ["".join(chance.choices("abcdefgh ", k=chance.randint(200, 900))) for _ in range(8)]
    return [chance.choice(texts) + "".join(chance.choices("xyz ", k=chance.randint(1, 60))) for _ in range(count)]


def _log(prompts: list[str], cached: list[int | None], **extra: list[Any]) -> None:
    rows = []
    for at, (prompt, read) in enumerate(zip(prompts, cached, strict=True)):
        usage: Report = {"prompt_tokens": len(prompt), "completion_tokens": 1, "total_tokens": len(prompt) + 1}
        if read is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": read}
        record = {"prompt": prompt, "response": {"choices": [{"text": "a"}], "usage": usage}}
        rows.append(json.dumps({**record, **{name: values[at] for name, values in extra.items()}}))
    write("log.jsonl", "\n".join(rows))


def _hits(capsys: pytest.CaptureFixture[str], bytes_json: str, prompts: list[str], *flags: str) -> list[int | None]:
    """What a server of this configuration would report."""
    _log(prompts, [None] * len(prompts))
    report = _profiled(capsys, "log.jsonl", "-t", bytes_json, *flags)
    assert "reported" not in report
    return [row["hit_tokens"] for row in report["requests"]]


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_the_right_configuration_leaves_no_difference(
    seed: int, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = _prompts(seed)
    flags = ["--block-size", "32", "--num-gpu-blocks", "60"]
    _log(prompts, _hits(capsys, bytes_json, prompts, *flags))
    report = _profiled(capsys, "log.jsonl", "-t", bytes_json, *flags)
    assert report["difference"] == {}
    assert report["reported"]["hit_rate"] == report["predicted"]["hit_rate"] > 0


@pytest.mark.parametrize(
    ("there", "here", "causes", "told"),
    [
        (["--num-gpu-blocks", "90"], [], {"evicted_there"}, "--num-gpu-blocks 9"),
        (["--num-gpu-blocks", "150"], ["--num-gpu-blocks", "70"], {"larger_cache"}, "--num-gpu-blocks 1"),
        ([], ["--num-gpu-blocks", "70"], {"larger_cache"}, "unlimited cache"),
        (["--block-size", "32"], [], {"block_size"}, "--block-size 32"),
        ([], ["--block-size", "64"], {"block_size_more"}, "--block-size 16"),
        (
            ["--block-size", "32", "--num-gpu-blocks", "50"],
            ["--block-size", "16"],
            {"block_size", "evicted_there"},
            "--block-size 32",
        ),
    ],
)
def test_another_cache_is_found_by_running_again(
    there: list[str],
    here: list[str],
    causes: set[str],
    told: str,
    bytes_json: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    prompts = _prompts(5)
    _log(prompts, _hits(capsys, bytes_json, prompts, *there))
    report = _profiled(capsys, "log.jsonl", "-t", bytes_json, *here)
    assert set(report["difference"]) == causes
    notes = [note for note in report["notes"] if note.startswith("the server read what ")]
    evictions = report["misses"]["hypothesis"]
    if evictions is None:
        assert told in notes[0]
        assert notes[0].endswith("request by request")
    else:
        cache = evictions["cache"]
        assert notes == []
        assert told in {f"--block-size {cache['block_size']}", f"--num-gpu-blocks {str(cache['blocks'])[0]}"}
        assert evictions["agree"] == evictions["requests"] == len(prompts)
        assert {each["cause"] for each in report["misses"]["events"] if each["certainty"] == "simulated"} == {"evicted"}


@pytest.mark.parametrize("given", [[], ["--num-gpu-blocks", "90"]])
def test_evictions_are_a_cause_and_next_names_a_cache_that_reaches_its_figure(
    given: list[str], bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the cache that the user gives is that of the server: then nothing differs, and the misses are the same."""
    prompts = _prompts(5)
    _log(prompts, _hits(capsys, bytes_json, prompts, "--num-gpu-blocks", "90"))
    report = _profiled(capsys, "log.jsonl", "-t", bytes_json, *given)
    causes = report["misses"]["causes"]
    assert "unknown" not in causes
    assert causes["evicted"]["tokens"] == sum(
        each["tokens"] for each in report["misses"]["events"] if each["cause"] == "evicted"
    )
    cache = report["misses"]["hypothesis"]["cache"]
    assert cache["block_size"] == 16
    again = _profiled(capsys, "log.jsonl", "-t", bytes_json, "--num-gpu-blocks", str(cache["enough"]))
    assert again["predicted"]["hit_rate"] == pytest.approx(cache["hit_rate"])
    assert run(["profile", "log.jsonl", "-t", bytes_json, "--dry-run", "--no-config", *given]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert f"blocks (vLLM: --gpu-memory-utilization): hit rate {report['reported']['hit_rate']:.1%} -> " in words
    assert f"--num-gpu-blocks {cache['enough']}" in words


def test_a_text_prompt_that_was_evicted_is_a_miss_without_marks(
    bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text of completions has no template, and writes that an own server reports are no marks."""
    prompts = _prompts(5)
    read = _hits(capsys, bytes_json, prompts, "--num-gpu-blocks", "90")
    _log(prompts, read)
    path = Path("log.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row, prompt in zip(rows, prompts, strict=True):
        details = row["response"]["usage"]["prompt_tokens_details"]
        details["created_cache_tokens"] = len(prompt) // 16 * 16 - details["cached_tokens"]
    path.write_text("\n".join(map(json.dumps, rows)))
    report = _profiled(capsys, "log.jsonl", "-t", bytes_json)
    assert set(report["misses"]["causes"]) <= {"evicted", "prompt_changed"}
    missed = sum(each["tokens"] for each in report["misses"]["events"] if each["cause"] == "evicted")
    assert missed == pytest.approx(report["difference"]["evicted_there"], rel=0.1)


def test_a_server_that_caches_nothing(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = _prompts(1)
    _log(prompts, [0] * len(prompts))
    assert set(_profiled(capsys, "log.jsonl", "-t", bytes_json)["difference"]) == {"caching_off"}


def test_what_nothing_explains_is_said_to_be_so(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every other request went to another server: no size of one cache gives that."""
    prompts = _prompts(2)
    whole = _hits(capsys, bytes_json, prompts)
    chance = random.Random(2)
    _log(prompts, [read if chance.random() < 0.5 else 0 for read in whole])
    report = _profiled(capsys, "log.jsonl", "-t", bytes_json)
    assert set(report["difference"]) == {"not_explained"}
    assert not [note for note in report["notes"] if note.startswith("the server read")]


def test_what_was_warm_before(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    prompt = "What is on the menu today, and until when is it served in the house? " * 2
    _log([prompt, prompt], [128, 128])
    report = _profiled(capsys, "log.jsonl", "-t", bytes_json)
    assert report["difference"] == {"warm_before_the_log": 128}
    assert report["requests"][0]["provider"]["difference"] == {"warm_before_the_log": 128}


@pytest.mark.parametrize(("ends", "cause"), [(5.0, "parallel"), (1.5, "not_explained")])
def test_parallel_needs_a_request_that_was_not_answered(
    ends: float, cause: str, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt = "What is on the menu today, and until when is it served in the house? " * 2
    other = prompt[:64] + "No more of it. " * 5
    times = [1_790_000_000.0 + at for at in (0.0, 2.0, 8.0)]
    _log([prompt, prompt, other], [0, 0, 64], timestamp=times, end_time=[times[0] + ends, times[1] + 1, times[2] + 1])
    report = _profiled(capsys, "log.jsonl", "-t", bytes_json)
    assert report["difference"] == {cause: 128}


def test_a_prompt_of_other_tokens(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its server counts twice as many: both figures are in its tokens, and the ratio is told."""
    prompt = "What is on the menu today, and until when is it served in the house? " * 2
    write(
        "log.jsonl",
        "\n".join(
            json.dumps(
                {
                    "model": "m",
                    "prompt": prompt,
                    "usage": {"prompt_tokens": 276, "prompt_tokens_details": {"cached_tokens": cached}},
                }
            )
            for cached in (0, 240)
        ),
    )
    report = _profiled(capsys, "log.jsonl", "-t", bytes_json)
    assert report["predicted"]["tokens_per_own"] == {"m": 2.0}
    assert report["predicted"]["cached_tokens"] == 256
    assert report["difference"] == {"other_tokens": 16}


def test_requests_of_which_nothing_is_told_are_left_out(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    prompt = "What is on the menu today, and until when is it served in the house? " * 2
    _log([prompt] * 4, [None, 128, None, 128])
    report = _profiled(capsys, "log.jsonl", "-t", bytes_json)
    assert report["reported"]["requests"] == 2
    assert report["difference"] == {}
    assert ["provider" in row for row in report["requests"]] == [False, True, False, True]


def test_every_report_shows_it(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = _prompts(5)
    _log(prompts, _hits(capsys, bytes_json, prompts, "--num-gpu-blocks", "90"), service=["<a>", "b|c"] * 30)
    flags = ["-t", bytes_json, "--dry-run", "--no-advice", "--no-config", "--group-by", "service"]
    outputs = ["-o", "markdown=r.md", "-o", "html=r.html"]
    assert run(["profile", "log.jsonl", *flags, *outputs]) == 0
    terminal = capsys.readouterr().out
    for text in (terminal, Path("r.md").read_text(), Path("r.html").read_text()):
        for words in ("Reported by the server", "Predicted", "evicted on the server only"):
            assert words in text
    html = Path("r.html").read_text()
    assert "<a>" not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert "What it costs" not in html


@pytest.mark.parametrize(("bound", "code"), [("<=90%", 0), ("<=10%", 1)])
def test_the_gate_of_the_gap_holds_for_own_servers(bound: str, code: int, bytes_json: str) -> None:
    prompts = _prompts(1)
    _log(prompts, [0] * len(prompts))
    write("kvtool.toml", f'[gate]\nreported_gap = "{bound}"\n')
    assert run(["check", "log.jsonl", "-t", bytes_json]) == code


@pytest.mark.parametrize(
    ("session", "flags", "requests"),
    [
        ("own-prompts", ["--block-size", "32", "--num-gpu-blocks", "32768"], 72),
        ("sequential", ["--block-size", "32", "--num-gpu-blocks", "32768"], 276),
        ("eviction", ["--block-size", "32", "--num-gpu-blocks", "400", "--max-model-len", "8192"], 200),
    ],
)
def test_recorded_sessions_of_a_real_server(
    session: str, flags: list[str], requests: int, capsys: pytest.CaptureFixture[str]
) -> None:
    log = recording(session) / "requests.jsonl.gz"
    right = _profiled(capsys, str(log), *flags)
    assert (right["reported"]["requests"], right["difference"]) == (requests, {})
    assert all(row["provider"]["difference"] == {} for row in right["requests"])
    if session == "sequential":  # as that of own prompts
        return
    wrong = _profiled(capsys, str(log))
    expected = {"block_size"} if session != "eviction" else {"block_size", "evicted_there"}
    assert set(wrong["difference"]) == expected
    if session == "eviction":
        cache = wrong["misses"]["hypothesis"]["cache"]
        assert (cache["block_size"], cache["blocks"]) == (32, 400)
        assert wrong["misses"]["causes"]["evicted"]["tokens"] > 0.99 * wrong["difference"]["evicted_there"]
        assert not {"unknown", "not_marked"} & set(wrong["misses"]["causes"])
    else:
        assert "the server read what --block-size 32 gives, request by request" in wrong["notes"]
