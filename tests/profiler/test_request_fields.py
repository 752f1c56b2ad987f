"""Fields of requests: what an engine makes of logs that set them by vLLM's rules, and of real answers to such requests."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.workload.request_fields import REQUEST_FIELDS, request_fields
from tests.conftest import some
from tests.files import write

_LIVE = Path(__file__).resolve().parents[3] / "shared/data/truth/live"
_TOKENIZER = Path(__file__).resolve().parents[3] / "shared/data/tokenizers/TinyLlama_v1.1.tokenizer.json"
_BLOCK = 4
Record = dict[str, Any]
# As the recorded server wrote its chats, to be seen in the tokens that it said it read.
_TEMPLATE = """
{{- bos_token }}{{ '[SYS]\\nCutting Knowledge Date: December 2023\\nToday Date: ' + strftime_now('%d %b %Y') + '\\n' }}
{%- if messages[0]['role'] == 'system' %}
  {%- for part in messages[0]['content'] %}{{ part['text'] }}{% endfor %}
  {%- set messages = messages[1:] %}
{%- endif %}
{%- if tools %}
  {{- '\\nYou can call these functions:\\n' }}
  {%- for tool in tools %}{{ tool | tojson(indent=2) }}{{ '\\n' }}{% endfor %}
{%- endif %}
{{- '[/SYS]\\n' }}
{%- for message in messages %}
  {{- '[' + message['role'] + ']\\n' }}
  {%- if message['content'] is string %}{{ message['content'] }}
  {%- else %}{%- for part in message['content'] %}{{ part['text'] }}{% endfor %}
  {%- endif %}
  {%- for call in message['tool_calls'] or [] %}
    {{- '\\n<call>' + (call['function']['name'] | tojson) + ' ' + (call['function']['arguments'] | tojson) + '</call>' }}
  {%- endfor %}
  {{- '[/' + message['role'] + ']\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '[assistant]\\n' }}{% endif %}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _profiled(
    capsys: pytest.CaptureFixture[str], records: list[Record], *flags: str, tokenizer: str | Path = _TOKENIZER
) -> Record:
    write("log.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    asked = ["profile", "log.jsonl", "-t", str(tokenizer), "--dry-run", "--no-advice", "--per-request", "--no-config"]
    assert run([*asked, "--json", *flags]) == 0
    found: Record = json.loads(capsys.readouterr().out)
    return found


def _random_record(chance: random.Random, stems: list[list[int]]) -> Record:
    """A call with any of the fields, and an answer for each of its requests; nothing is said of the cache yet."""
    prompts = [
        [*chance.choice(stems)[: chance.randint(2, 30)], chance.randrange(99)] for _ in range(chance.randint(1, 3))
    ]
    body: Record = {"prompt": prompts[0] if len(prompts) == 1 else prompts, "n": chance.choice((1, 1, 2, 3))}
    for name, values in {
        "truncate_prompt_tokens": (None, None, 3, 9, 64),
        "truncation_side": (None, "left", "right"),
        "prompt_logprobs": (None, None, None, 0, 2),
        "echo": (None, True, False),
        "logprobs": (None, None, 1),
        "stream": (None, True),
    }.items():
        if (value := chance.choice(values)) is not None:
            body[name] = value
    answers = [[chance.randrange(99) for _ in range(chance.randint(1, 9))] for _ in range(len(prompts) * body["n"])]
    choices = [{"index": at, "token_ids": ids, "text": "?"} for at, ids in enumerate(answers)]
    return {"request": body, "response": {"choices": choices}}


def _serve(records: list[Record]) -> list[tuple[int, int]]:
    """Length and hit of each request by vLLM's rules, in a cache without end; it puts a server's usage into the records."""
    cached: set[tuple[int, ...]] = set()
    served = []
    for record in records:
        body, choices = record["request"], record["response"]["choices"]
        prompts = body["prompt"] if isinstance(body["prompt"][0], list) else [body["prompt"]]
        most = body.get("truncate_prompt_tokens", 1 << 20)
        prompts = [ids[:most] if body.get("truncation_side") == "right" else ids[-most:] for ids in prompts]
        logprobs = body.get("logprobs") if body.get("echo") else None
        reads = body.get("prompt_logprobs", logprobs) is None
        first = len(served)
        for at, choice in enumerate(choices):
            prompt = prompts[at // body["n"]]
            hit = 0
            while reads and hit + _BLOCK < len(prompt) and tuple(prompt[: hit + _BLOCK]) in cached:
                hit += _BLOCK
            whole = prompt + choice["token_ids"][:-1]
            cached |= {tuple(whole[:stop]) for stop in range(_BLOCK, len(whole) + 1, _BLOCK)}
            served.append((len(prompt), hit))
        lengths = [len(choice["token_ids"]) for choice in choices[-body["n"] :]]
        last = len(choices) - body["n"] + max(range(body["n"]), key=lambda at: (lengths[at], at))
        reported = served[first + (0 if body.get("stream") else last)][1]
        usage = {"prompt_tokens": sum(map(len, prompts)), "prompt_tokens_details": {"cached_tokens": reported}}
        record["response"]["usage"] = usage
    return served


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_requests_with_any_fields_hit_what_vllm_gives_them(
    seed: int, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(seed)
    stems = [[chance.randrange(99) for _ in range(30)] for _ in range(4)]
    records = [_random_record(chance, stems) for _ in range(40)]
    served = _serve(records)
    found = _profiled(capsys, records, "--block-size", str(_BLOCK), tokenizer=bytes_json)
    assert [(row["prompt_tokens"], row["hit_tokens"]) for row in found["requests"]] == served
    assert found["difference"] == {}
    assert found["reported"]["requests"] == len(records)


def test_fields_that_nothing_follows_are_named_with_their_requests(
    bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = {"use_beam_search": True, "n": 2000, "truncate_prompt_tokens": -1, "chat_template": "{{ x }}", "echo": "yes"}
    records = [{"prompt": "some text", **odd}, {"prompt": "some text", "n": "many", "truncation_side": None}]
    found = _profiled(capsys, records, tokenizer=bytes_json)
    told = [note for note in found["notes"] if "is not followed" in note]
    assert [note.split(" is not")[0] for note in told] == [
        "`chat_template` of 1 request",
        "`echo` of 1 request",
        "`n` of 2 requests",
        "`truncate_prompt_tokens` of 1 request",
        "`use_beam_search` of 1 request",
    ]
    assert found["totals"]["requests"] == 2
    assert all(name in REQUEST_FIELDS for name in odd)


def test_a_priority_is_kept_and_a_word_is_none(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert request_fields({"priority": -3, "n": "many"}) == {"priority": -3, "n": "many"}
    assert request_fields({"priority": "high"}) == request_fields({"priority": True}) == {}
    records = [{"prompt": "some text", "priority": "high"}, {"prompt": "some text", "priority": 2}]
    assert not [note for note in _profiled(capsys, records, tokenizer=bytes_json)["notes"] if "priority" in note]


def test_several_answers_are_one_request_of_a_provider(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    records = [{"model": "gpt-4o", "messages": [{"role": "user", "content": "hello " * 400}], "n": 3}] * 2
    assert _profiled(capsys, records, "--provider", "openai", tokenizer=bytes_json)["totals"]["requests"] == 2
    own = [{**one, "model": "own"} for one in records]
    assert _profiled(capsys, own, tokenizer=bytes_json)["totals"]["requests"] == 6


def test_blocks_of_requests_that_read_no_cache_are_named(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    records = [{"prompt": "some text", "prompt_logprobs": 1}, {"prompt": "some text"}]
    write("log.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    assert run(["trace", "log.jsonl", "-t", bytes_json, "-o", "trace.jsonl", "--no-config"]) == 0
    said = "".join(capsys.readouterr())
    assert "1 request with `prompt_logprobs`" in " ".join(said.split())


def test_billing_headers_are_no_part_of_what_vllm_or_anthropic_read(
    bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def body(number: int) -> Record:
        header = {"type": "text", "text": f"x-anthropic-billing-header: cch={number:05};"}
        system = [header, {"type": "text", "text": "You are helpful. " * 40}]
        asked = [{"role": "user", "content": f"question {number}"}]
        return {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": system, "messages": asked}

    hosted = [body(number) for number in range(4)]
    records = [{**one, "model": "own"} for one in hosted]
    here = _profiled(capsys, records, tokenizer=bytes_json)["totals"]
    assert here["hit_rate"] > 0.6
    chats = [{**one, "system": None, "messages": [{"role": "system", "content": one["system"]}]} for one in records]
    assert _profiled(capsys, chats, tokenizer=bytes_json)["totals"]["hit_rate"] < 0.1, (
        "in a chat it is text like any other"
    )
    bare = [{**one, "system": one["system"][1:]} for one in hosted]
    there, less = (
        _profiled(capsys, each, "--provider", "anthropic", tokenizer=bytes_json)["totals"] for each in (hosted, bare)
    )
    assert there["prompt_tokens"] == less["prompt_tokens"], "reports show reads of what follows a changed header"


def _lines(name: str) -> list[Record]:
    path = _LIVE / name
    if not path.exists() or not _TOKENIZER.exists():
        pytest.skip("the recorded answers of a server are not here")
    data = path.read_bytes()
    return [json.loads(line) for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()]


def _count(name: str, counter: str) -> int:
    text = gzip.decompress((_LIVE / name).read_bytes()).decode()
    return int(sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"vllm:{counter}{{")))


_SERVER = ("--block-size", "32", "--num-gpu-blocks", "399", "--max-model-len", "8192", "--chat-template", "chat.jinja")


def test_every_answer_of_a_real_server_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    log, answers = _lines("log2.jsonl.gz"), _lines("resp2.jsonl.gz")
    records = [
        {"id": log[each["i"]]["custom_id"], "request": log[each["i"]]["body"], "response": each["response"]}
        for each in answers
        if each["status"] == 200
    ]
    write("chat.jinja", _TEMPLATE)
    found = _profiled(capsys, records, *_SERVER)
    told = [(row, row["provider"]) for row in found["requests"] if "provider" in row]
    assert (len(told), found["difference"]) == (141, {})
    assert all(one["prompt_tokens"] == row["prompt_tokens"] for row, one in told)
    totals = found["totals"]
    looked_up = totals["prompt_tokens"] - totals["uncounted_tokens"]
    for here, counter in (
        (looked_up, "prefix_cache_queries_total"),
        (totals["hit_tokens"], "prefix_cache_hits_total"),
        (totals["requests"], "request_success_total"),
    ):
        assert here == _count("m1.prom.gz", counter) - _count("m0.prom.gz", counter)


@pytest.mark.parametrize(
    "name", ["n3", "batch", "batch_ids", "prompt_logprobs", "truncate", "special", "generation_prompt"]
)
def test_counters_and_answers_of_a_real_server_agree(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra `live`")
    asked = _lines(f"{name}.jsonl")
    answers = _lines(f"{name}.answers.jsonl{'.gz' if name == 'prompt_logprobs' else ''}")
    write("chat.jinja", _TEMPLATE)
    _profiled(capsys, asked, *_SERVER[:3], "400", *_SERVER[4:], "-o", "report.json")
    for when in ("before", "after"):
        write(f"{when}.prom", gzip.decompress((_LIVE / f"{name}.{when}.prom.gz").read_bytes()).decode())
    assert run(["compare", "after.prom", "report.json", "--before", "before.prom", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agree"] is True
    rows = [
        {"n": at, "endpoint": one["url"], "body": one["body"], "status": 200, "response": each["response"]}
        for at, (one, each) in enumerate(zip(asked, answers, strict=True))
    ]
    write("kept/requests.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    for when in ("before", "after"):
        write(f"kept/metrics_{when}.txt", Path(f"{when}.prom").read_text())
    flags = ("--json", "-t", str(_TOKENIZER), "--chat-template", "chat.jinja")
    assert run(["replay", "--recorded", "kept", *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["agree"], found["counters_agree"], found["left_out"]) == (len(rows), True, [])


def test_answers_of_token_ids_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    records = _lines("answers_of_token_ids.jsonl")
    write("chat.jinja", _TEMPLATE)
    assert [row["hit_tokens"] for row in _profiled(capsys, records, *_SERVER)["requests"]] == [0, 96, 128]
