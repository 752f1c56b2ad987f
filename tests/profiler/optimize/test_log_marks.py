"""Cache marks that `kvtool optimize` writes into a log: they cost what the written log costs, and its provider takes them."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kvtool.fixes.edits.body_limits import refusals
from kvtool.text.files.atomic_file import AtomicFile
from kvtool.text.files.compressed import compressed, is_plain, open_bytes
from tests.conftest import Command, some
from tests.profiler.optimize.hosted_logs import HostedLog

MARK = {"type": "ephemeral"}


def optimized(in_folder: Command, records: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The document of `optimize`, and the records that it wrote."""
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    code, out, err = in_folder("optimize", "log.jsonl", "-o", "better.jsonl", "--json")
    assert code == 0, err
    return json.loads(out), [json.loads(line) for line in Path("better.jsonl").read_text().splitlines()]


def cost(in_folder: Command, path: str) -> Decimal:
    found = json.loads(in_folder("profile", path, "--no-advice", "--json")[1])
    return Decimal(found["money"]["predicted"])


@pytest.mark.parametrize("provider", ["anthropic", "openai-5.6"])
def test_a_log_gets_its_cheapest_marks(in_folder: Command, provider: str) -> None:
    log = HostedLog(provider, 3, (), {}, sessions=8, gap=60)
    found, records = optimized(in_folder, log.bodies())
    assert [mark["place"] for advice in found["marks"] for mark in advice["marks"]] == ["system[-1]"]
    edited = found["edited_log"]
    assert Decimal(edited["cost"]["after"]) == cost(in_folder, "better.jsonl") < cost(in_folder, "log.jsonl")
    for record in records:
        assert refusals(record.get("request", record)) == []


def setting_log(provider: str, seconds: float, keys: int) -> list[dict[str, Any]]:
    """Single questions so many seconds apart, of so many users, each with a cache key of its own."""
    bodies = HostedLog(provider, 5, (), {}, sessions=24, gap=int(seconds)).bodies()
    if provider == "openai":  # which has no 24 hours for its default here
        bodies = [body | {"model": "gpt-5.1", "prompt_cache_retention": "in_memory"} for body in bodies]
    return [body | ({"prompt_cache_key": f"user {at % keys}"} if keys else {}) for at, body in enumerate(bodies)]


@pytest.mark.parametrize(
    ("records", "what", "kept"),
    [
        (setting_log("openai", 900, 0), 'set "prompt_cache_retention": "24h"', {("prompt_cache_retention", "24h")}),
        (setting_log("openai-5.6", 60, 24), "use one cache key (prompt_cache_key)", {("prompt_cache_key", "shared")}),
        (
            setting_log("openai-5.6", 1, 24),
            "use 2 cache keys (prompt_cache_key)",
            {("prompt_cache_key", f"shared-{number}") for number in (1, 2)},
        ),
    ],
    ids=["a longer time to live", "one key", "as many keys as the limit of requests a minute allows"],
)  # fmt: skip
def test_request_settings_cost_what_the_written_log_costs(
    in_folder: Command, records: list[dict[str, Any]], what: str, kept: set[tuple[str, str]]
) -> None:
    found, after = optimized(in_folder, records)
    assert [each["what"].startswith(what) for each in found["settings"]] == [True]
    edited = found["edited_log"]
    assert Decimal(edited["cost"]["after"]) == cost(in_folder, "better.jsonl")
    assert Decimal(edited["cost"]["after"]) < Decimal(edited["cost"]["before"]) * 2 / 3
    name = next(iter(kept))[0]
    assert {(name, body[name]) for body in after} == kept
    profiled = json.loads(in_folder("profile", "log.jsonl", "--json")[1])["money"]
    assert profiled["settings"] == [each["what"] for each in found["settings"]]
    best = profiled["with_marks"] if found["marks"] else profiled["with_fixes"]
    assert Decimal(best) == Decimal(edited["cost"]["after"])
    again = json.loads(in_folder("optimize", "better.jsonl", "--json")[1])
    assert not again["settings"]


@pytest.mark.parametrize("ending", some([".jsonl", ".jsonl.zst", ".jsonl.gz"], 2))
def test_a_key_a_move_and_a_mark_that_win_only_together(in_folder: Command, ending: str) -> None:
    """Each request has a key of its own, passages among the rules, and an id that ends the system prompt."""
    r = random.Random(7)
    bodies = HostedLog("openai-5.6", 7, (), {}, rules=120, sessions=10, gap=60).bodies()
    for at, body in enumerate(bodies):
        system = body["messages"][0]
        lines = system["content"].split("\n")
        found = [f"[{number}] {r.getrandbits(400):x}." for number in range(1, 6)]
        system["content"] = "\n".join(
            [*lines[:20], "Relevant passages:", *found, *lines[20:], f"Id: {r.getrandbits(99):x}"]
        )
        body["prompt_cache_key"] = f"user {at}"
    log = Path(f"log{ending}")
    with AtomicFile(log) as file:
        for chunk in compressed((json.dumps(body).encode() + b"\n" for body in bodies), str(log)):
            file.write(chunk)
    _, out, err = in_folder("optimize", str(log), "--allow", "P2", "-o", f"better{ending}", "--json")
    document = json.loads(out)
    assert document["settings"], err
    assert [mark["place"] for advice in document["marks"] for mark in advice["marks"]] == ["system[0]"]
    assert [split["place"] for advice in document["marks"] for split in advice["splits"]] == ["system[0]"]
    edited = document["edited_log"]
    assert Decimal(edited["cost"]["after"]) == cost(in_folder, f"better{ending}")
    assert Decimal(edited["cost"]["after"]) < Decimal(edited["cost"]["before"]) / 3
    assert not edited["left_as_they_are"]
    with open_bytes(f"better{ending}") as reader:
        assert is_plain(reader) == (ending == ".jsonl")
        assert not [refusal for line in reader for refusal in refusals(json.loads(line))]
    if ending == ".jsonl":
        profiled = json.loads(in_folder("profile", str(log), "--json")[1])["money"]
        assert profiled["with_fixes"] == edited["cost"]["after"]
        assert profiled["fixed_hit_rate"] == document["hit_rate"]["after"]


def test_instructions_of_the_responses_api_get_no_mark(in_folder: Command) -> None:
    bodies = HostedLog("openai-5.6", 3, (), {}, sessions=8, gap=60).bodies()
    records = []
    for body in bodies:
        system, question = (message["content"] for message in body["messages"])
        part = {"type": "input_text", "text": "Answer from the handbook. " * 20}
        items = [{"role": "user", "content": [part, {"type": "input_text", "text": question}]}]
        asked = {"model": body["model"], "instructions": system, "input": items}
        records.append({"timestamp": body["timestamp"], "request": asked})
    found, written = optimized(in_folder, records)
    assert not found["edited_log"]["left_as_they_are"]
    for record in written:
        assert refusals(record["request"]) == []
        assert record["request"]["input"][0]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}


def test_marks_on_empty_blocks_are_not_sent_again(in_folder: Command) -> None:
    """A provider refuses them; what profile promises of the line that moves is what the written log reaches."""
    records = HostedLog("anthropic", 4, (), {"time": 1}, sessions=6, gap=60).bodies()
    for record in records:
        body = record.get("request", record)
        system = body["system"]
        body["system"] = [system[0] if isinstance(system, list) else {"type": "text", "text": system}]
        body["system"].append({"type": "text", "text": " ", "cache_control": MARK})
        assert refusals(body) == ["system[1]: an empty block takes no cache breakpoint"]
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    found = json.loads(in_folder("optimize", "log.jsonl", "--allow", "P2", "-o", "better.jsonl", "--json")[1])
    after = [json.loads(line) for line in Path("better.jsonl").read_text().splitlines()]
    assert not [refusal for record in after for refusal in refusals(record.get("request", record))]
    promised = json.loads(in_folder("profile", "log.jsonl", "--json")[1])["money"]
    reached = cost(in_folder, "better.jsonl")
    assert Decimal(found["edited_log"]["cost"]["after"]) == reached < cost(in_folder, "log.jsonl") / 2
    assert reached in {Decimal(promised[name] or 0) for name in ("with_fixes", "with_marks")}


def test_five_marks_become_what_the_provider_takes(in_folder: Command) -> None:
    records = HostedLog("anthropic", 4, (), {}, sessions=6, gap=60).bodies()
    for record in records:
        body = record.get("request", record)
        system = body["system"]
        text = system if isinstance(system, str) else system[0]["text"]
        body["system"] = [{"type": "text", "text": f"{text} {part}", "cache_control": MARK} for part in range(5)]
        assert refusals(body) == ["5 cache breakpoints (cache_control), 4 are allowed"]
    found, written = optimized(in_folder, records)
    assert found["marks"]
    for record in written:
        assert refusals(record.get("request", record)) == []


def split_by_hand(text: str, at: int) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text[:at], "cache_control": MARK}, {"type": "text", "text": text[at:]}]


@pytest.mark.parametrize(("seed", "form"), [(21, "text"), (22, "marked"), (23, "followed"), (24, "question")])
def test_a_block_is_split_where_its_shared_text_ends(in_folder: Command, seed: int, form: str) -> None:
    """Passages at the end of a marked text, of one among others, or of what is asked: as cheap as parted by hand, at that line."""
    r = random.Random(seed)
    records = HostedLog("anthropic", seed, (), {}, sessions=9, gap=r.choice([20, 60])).bodies()
    by_hand = []
    for record in records:
        body = record.get("request", record)
        system = body["system"]
        rules = system if isinstance(system, str) else system[0]["text"]
        found = "\n".join(f"Passage {n}: {r.getrandbits(300):x}" for n in range(r.randint(2, 6)))
        text = f"{rules}\n\nFound today:\n{found}"
        at = text.index("Passage")
        better = json.loads(json.dumps(record))
        other = better.get("request", better)
        if form == "question":
            body["system"], other["system"] = "You help.", "You help."
            body["messages"][-1]["content"], other["messages"][-1]["content"] = text, split_by_hand(text, at)
        else:
            last = [{"type": "text", "text": "Answer in English."}] if form == "followed" else []
            block = {"type": "text", "text": text, **({"cache_control": MARK} if form == "marked" else {})}
            body["system"] = text if form == "text" else [block, *last]
            other["system"] = [*split_by_hand(text, at), *last]
        by_hand.append(better)
    Path("hand.jsonl").write_text("".join(json.dumps(record) + "\n" for record in by_hand))
    found, written = optimized(in_folder, records)
    place = "messages[0].content[0]" if form == "question" else "system[0]"
    assert [(split["place"], split["line"]) for split in found["marks"][0]["splits"]] == [(place, at_line(text, at))]
    assert cost(in_folder, "better.jsonl") <= cost(in_folder, "hand.jsonl") * Decimal("1.01")
    assert Decimal(found["edited_log"]["cost"]["after"]) == cost(in_folder, "better.jsonl")
    for record, edited in zip(records, written, strict=True):
        assert all_text(record) == all_text(edited)
        assert refusals(edited.get("request", edited)) == []


def at_line(text: str, at: int) -> int:
    return text[:at].count("\n")


def all_text(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(
            all_text(each)
            for name, each in value.items()
            if name in ("request", "system", "messages", "content", "text")
        )
    return "".join(map(all_text, value)) if isinstance(value, list) else value if isinstance(value, str) else ""


def test_keys_of_tools_are_written_in_one_order(in_folder: Command) -> None:
    r = random.Random(31)
    records = HostedLog("anthropic", 31, ("system",), {}, sessions=8, tools=3).bodies()

    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: shuffled(value[name]) for name in r.sample(list(value), len(value))}
        return [shuffled(each) for each in value] if isinstance(value, list) else value

    fields = {f"field_{n}": {"type": "string", "description": f"Says what field {n} is for."} for n in range(6)}
    for record in records:
        for tool in record.get("request", record)["tools"]:
            tool["input_schema"] = {"type": "object", "properties": fields, "required": ["field_1"]}
    steady = [json.dumps(record.get("request", record)["tools"], sort_keys=True) for record in records]
    for record in records:
        body = record.get("request", record)
        body["tools"] = shuffled(body["tools"])
    found, written = optimized(in_folder, records)
    assert [step["code"] for step in found["steps"]] == ["KV112"]
    assert [json.dumps(record.get("request", record)["tools"], sort_keys=True) for record in written] == steady
    assert len({json.dumps(record.get("request", record)["tools"]) for record in written}) == 1
    assert found["hit_rate"]["before"] < 0.2 < 0.8 < found["hit_rate"]["after"]
    _, out, _ = in_folder("optimize", "log.jsonl")
    assert "+with keys in alphabetical order" in out


def _called(form: str, number: int, arguments: dict[str, Any]) -> dict[str, Any]:
    match form:
        case "anthropic":
            return {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": f"t{number}", "name": "look", "input": arguments}],
            }
        case "openai":
            inner = {"name": "look", "arguments": json.dumps(arguments)}
            return {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"t{number}", "type": "function", "function": inner}],
            }
        case _:
            return {"role": "model", "parts": [{"functionCall": {"name": "look", "args": arguments}}]}


def _result(form: str, number: int, text: str) -> dict[str, Any]:
    match form:
        case "anthropic":
            return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": text}]}
        case "openai":
            return {"role": "tool", "tool_call_id": f"t{number}", "content": text}
        case _:
            return {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"result": text}}}]}


@pytest.mark.parametrize("form", ["anthropic", "openai", "gemini"])
def test_calls_are_replayed_with_their_keys_in_one_order(in_folder: Command, form: str) -> None:
    """An agent that writes the arguments of earlier calls anew, each time in another order: the written log has one order."""
    r = random.Random(form)
    rules = HostedLog("openai", 5, (), {}).bodies()[0]["messages"][0]["content"]
    records, calls = [], []
    for number in range(8):
        calls.append(({f"key_{key}": f"{r.getrandbits(160):x}" for key in range(4)}, f"{r.getrandbits(400):x}"))
        talk = [
            each
            for at, (arguments, text) in enumerate(calls)
            for each in (_called(form, at, dict(r.sample(list(arguments.items()), 4))), _result(form, at, text))
        ]
        if form == "gemini":
            asked: Any = {"role": "user", "parts": [{"text": "Find the order."}]}
            body = {
                "model": "gemini-2.5-pro",
                "contents": [asked, *talk],
                "systemInstruction": {"parts": [{"text": rules}]},
            }
        elif form == "openai":
            head = [{"role": "system", "content": rules}, {"role": "user", "content": "Find the order."}]
            body = {"model": "gpt-4o", "messages": [*head, *talk]}
        else:
            talk[-1]["content"][-1]["cache_control"] = MARK
            body = {
                "model": "claude-sonnet-5",
                "system": rules,
                "messages": [{"role": "user", "content": "Go."}, *talk],
            }
        records.append({"timestamp": 1_790_000_000 + 30 * number, "session_id": "s", "request": body})
    found, written = optimized(in_folder, records)
    assert [step["code"] for step in found["steps"]] == ["KV112"]
    assert found["hit_rate"]["before"] < found["hit_rate"]["after"]
    assert len({json.dumps(_talk(record)) for record in written[2:]}) == 1
    assert len({json.dumps(_talk(record)) for record in records[2:]}) > 1


def _talk(record: dict[str, Any]) -> list[Any]:
    body = json.loads(json.dumps(record["request"]).replace(', "cache_control": {"type": "ephemeral"}', ""))
    talk: list[Any] = body.get("contents") or body["messages"]
    return talk[:4]


def test_a_block_moves_where_only_other_marks_make_it_worth_it(in_folder: Command) -> None:
    """A mark ends the system text alone, and the first message changes: neither a mark after it nor its move wins by itself."""
    r = random.Random(41)
    records = HostedLog("anthropic", 41, ("system",), {}, rules=60, sessions=1, turns=5, gap=20).bodies()
    for record in records:
        body = record.get("request", record)
        memory = f"<memory>\nLast order: {r.getrandbits(60):x}\nName: {r.getrandbits(60):x}\n</memory>\n\n"
        for message in body["messages"]:
            message["content"][0]["text"] += " " + "Please check this order, and say what is next. " * 25
        body["messages"][0]["content"][0]["text"] = memory + body["messages"][0]["content"][0]["text"]
    _, out, _ = in_folder("optimize", written_as(records), "--json")
    assert json.loads(out)["steps"] == []
    code, out, err = in_folder("optimize", "log.jsonl", "--allow", "P2", "-o", "better.jsonl", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert [step["code"] for step in found["steps"]] == ["KV144"]
    assert any(mark["place"].startswith("messages") for mark in found["marks"][0]["marks"])
    cost_after = cost(in_folder, "better.jsonl")
    assert Decimal(found["edited_log"]["cost"]["after"]) == cost_after < cost(in_folder, "log.jsonl") * Decimal("0.9")
    rate = found["edited_log"]["hit_rate"]["after"]
    assert [step["files_hit_rate"]["after"] for step in found["steps"]] == [rate]


@pytest.mark.parametrize("seed", [51, 52])
def test_profile_names_the_edit_that_wins_only_with_marks(in_folder: Command, seed: int) -> None:
    """A clock among the rules of requests without any mark: the fix is told with the marks that it needs, at their price."""
    log = HostedLog("anthropic", seed, (), {"time": seed % 3 + 1}, sessions=10, gap=30)
    code, out, err = in_folder("profile", written_as(log.bodies()), "--json")
    assert code == 0, err
    report = json.loads(out)
    (finding,) = [each for each in report["findings"] if each["severity"] == "error"]
    assert (finding["code"], finding["tier"]) == ("KV101", "P2")
    assert "; then " in finding["fix"]
    assert "mark system[0] for 5 minutes" in finding["fix"]
    assert finding["rerun"]["group_before"] == 0 < 0.8 < finding["rerun"]["group_after"]
    _, out, _ = in_folder("optimize", "log.jsonl", "--allow", "P2", "--json")
    edited = json.loads(out)["edited_log"]
    assert edited["cost"]["after"] == report["money"]["with_fixes"]
    assert edited["hit_rate"]["after"] == pytest.approx(finding["rerun"]["group_after"])


def written_as(records: list[dict[str, Any]]) -> str:
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return "log.jsonl"


@pytest.mark.parametrize("seed", some(range(50, 56), 2))
def test_breakpoints_of_a_log_whose_records_are_edited(in_folder: Command, seed: int) -> None:
    r = random.Random(seed)
    log = HostedLog(
        "anthropic", seed, ("system", "last"), {}, sessions=r.choice([2, 6]), turns=4, gap=r.randint(40, 900)
    )
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in log.bodies()))
    found = []
    for more in ((), ("--breakpoints", str(r.randint(1, 4)))):
        code, out, err = in_folder("optimize", "log.jsonl", *more, "--json")
        assert code == 0, err
        found.append(json.loads(out))
    assert found[1].pop("breakpoints")["groups"]
    assert found[0].pop("breakpoints") is None
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", some(range(60, 68), 3))
def test_written_marks_are_the_ones_of_the_plan(in_folder: Command, seed: int) -> None:
    """Sessions whose gaps outlive 5 minutes: their provider refuses a longer time to live after a shorter one."""
    r = random.Random(seed)
    marks = r.choice([("system",), ("last",), ("system", "last")])
    log = HostedLog(
        "anthropic", seed, marks, {}, sessions=r.randint(1, 3), turns=r.randint(3, 7), gap=r.randint(150, 700)
    )
    found, written = optimized(in_folder, log.bodies())
    if not found["marks"]:
        return
    times = {each["place"].split("[")[0]: each["ttl"] for each in found["marks"][0]["marks"]}
    for record in written:
        body = record.get("request", record)
        assert refusals(body) == []
        sent = {name: block for name in ("system", "messages") for block in marked_blocks(body[name])}
        assert {name: block["cache_control"].get("ttl", "5m") for name, block in sent.items()} == times


def marked_blocks(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [found for each in value for found in marked_blocks(each)]
    if not isinstance(value, dict):
        return []
    return [value] if "cache_control" in value else marked_blocks(value.get("content"))
