"""Logs of a hidden server that drops reasoning, or has hosts with caches of their own: a rerun finds which, and claims no other."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kvtool
from kvtool.results.misses import CacheMisses
from tests.conftest import some

BLOCK = 16
TIME = "2026-11-20T{:02}:{:02}:{:02}Z"


class HiddenServer:
    """Cache prompt and answer in whole blocks, host by host; leave reasoning out of the prompt as its template does."""

    def __init__(
        self,
        source: random.Random,
        template: str,
        lost: float = 0.0,
        silent: Sequence[str] = (),
        *,
        shared: bool = False,
    ) -> None:
        self.source, self.template, self.lost, self.silent = source, template, lost, silent
        self.shared = shared
        self.caches: defaultdict[str, set[str]] = defaultdict(set)

    def prompt(self, messages: Sequence[dict[str, Any]]) -> str:
        last = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=0)
        text = ""
        for at, message in enumerate(messages):
            kept = self.template == "keep" or (self.template == "question" and at > last)
            thought = message.get("reasoning_content") if kept else None
            said = message["content"] if message["role"] != "assistant" else self.answer(message["content"], thought)
            text += f"<{message['role']}>{said}"
        return f"{text}<assistant>"

    @staticmethod
    def answer(said: str, thought: str | None) -> str:
        return said if thought is None else f"<think>{thought}</think>{said}"

    def usage(self, messages: Sequence[dict[str, Any]], answer: dict[str, Any], host: str) -> dict[str, Any]:
        prompt = self.prompt(messages)
        whole = prompt + self.answer(answer["content"], answer.get("reasoning_content"))
        cache = self.caches["" if self.shared else host]
        ends = range(BLOCK, len(prompt) + 1, BLOCK)
        read = max((end for end in ends if prompt[:end] in cache), default=0)
        if host in self.silent or self.source.random() < self.lost:
            read = 0
        cache |= {whole[:end] for end in range(BLOCK, len(whole) + 1, BLOCK)}
        return {
            "prompt_tokens": len(prompt),
            "completion_tokens": len(whole) - len(prompt),
            "prompt_tokens_details": {"cached_tokens": read},
        }


def text_of(source: random.Random, least: int, most: int) -> str:
    return "".join(source.choice("abcdefghijklmnop ") for _ in range(source.randrange(least, most)))


def made_log(
    path: Path,
    source: random.Random,
    server: HiddenServer,
    *,
    sends: bool = True,
    model: str = "m",
    hosts: Sequence[str] = ("",),
    reasons: bool = True,
) -> str:
    """Write sessions that interleave, with rounds of tool calls; `sends`: the client sends reasoning again."""
    system = text_of(source, 900, 1_200)
    talks: list[list[dict[str, Any]]] = [[{"role": "system", "content": system}] for _ in range(3)]
    at = [source.choice(hosts) for _ in talks]
    lines = []
    for number in range(60):
        who = source.randrange(len(talks))
        talk = talks[who]
        asks = talk[-1]["role"] != "assistant" or source.random() < 0.4
        talk.append({"role": "user" if asks else "tool", "content": text_of(source, 150, 400)})
        answer = {"role": "assistant", "content": text_of(source, 80, 300)}
        if reasons and source.random() < 0.9:
            answer["reasoning_content"] = text_of(source, 300, 600)
        if source.random() < 0.5:
            at[who] = source.choice(hosts)
        usage = server.usage(talk, answer, at[who])
        response = {"choices": [{"finish_reason": "stop", "message": answer}], "usage": usage}
        lines.append(
            {
                "timestamp": TIME.format(9, number, 0),
                "session_id": f"s{who}",
                "request": {"model": model, "messages": list(talk)},
                "response": {**response, **({"provider": at[who]} if at[who] else {})},
            }
        )
        talk.append(answer if sends else {"role": "assistant", "content": answer["content"]})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def misses_of(path: str, tokenizer: str) -> CacheMisses:
    misses = kvtool.profile(path, tokenizer=tokenizer).misses
    assert misses is not None
    assert misses.promised - misses.read == sum(each.tokens for each in misses.by_cause.values())
    assert "proven" not in {each.certainty for each in misses.events if each.cause != "prompt_changed"}
    return misses


@pytest.mark.parametrize("seed", some(range(3), 1))
@pytest.mark.parametrize(("template", "sends", "dropped"), [
    ("question", True, "question"),
    ("always", True, "always"),
    ("question", False, "client"),
    ("keep", False, "client"),
    ("keep", True, None),
])  # fmt: skip
def test_dropped_reasoning_is_found(
    seed: int, template: str, sends: bool, dropped: str | None, tmp_path: Path, bytes_json: str
) -> None:
    source = random.Random(7_000 + seed)
    misses = misses_of(
        made_log(tmp_path / "log.jsonl", source, HiddenServer(source, template), sends=sends), bytes_json
    )
    found = misses.hypothesis
    if dropped is None:
        assert found is None
        assert not {"reasoning_dropped", "answer_not_kept"} & set(misses.by_cause)
        return
    assert found is not None
    assert (found.cause, found.dropped) == ("reasoning_dropped", dropped)
    assert found.explained >= 0.9 * found.misses
    assert {each.certainty for each in misses.events if each.cause == "reasoning_dropped"} == {"simulated"}


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_random_losses_are_no_dropped_reasoning(seed: int, tmp_path: Path, bytes_json: str) -> None:
    source = random.Random(8_000 + seed)
    server = HiddenServer(source, "keep", lost=source.uniform(0.1, 0.5))
    misses = misses_of(made_log(tmp_path / "log.jsonl", source, server), bytes_json)
    assert misses.hypothesis is None or misses.hypothesis.cause != "reasoning_dropped"
    assert "reasoning_dropped" not in misses.by_cause


HOSTED = "deepseek/deepseek-v4.1-flash"
HOSTS = ("Novita", "Wafer", "GMICloud")


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_hosts_with_caches_of_their_own_are_found(seed: int, tmp_path: Path, bytes_json: str) -> None:
    source = random.Random(9_000 + seed)
    silent = [source.choice(HOSTS)] if seed % 2 else []
    server = HiddenServer(source, "keep", silent=silent)
    log = made_log(tmp_path / "log.jsonl", source, server, model=HOSTED, hosts=HOSTS, reasons=False)
    misses = misses_of(log, bytes_json)
    found = misses.hypothesis
    assert found is not None
    assert (found.cause, found.silent_hosts) == ("host_changed", silent)
    assert found.explained >= 0.9 * found.misses
    assert ("host_uncached" in misses.by_cause) == bool(silent)
    assert "provider" not in misses.by_cause


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_hosts_that_share_a_cache_with_losses_are_not_taken_for_it(seed: int, tmp_path: Path, bytes_json: str) -> None:
    source = random.Random(10_000 + seed)
    server = HiddenServer(source, "keep", lost=source.uniform(0.2, 0.5), shared=True)
    misses = misses_of(
        made_log(tmp_path / "log.jsonl", source, server, model=HOSTED, hosts=HOSTS, reasons=False), bytes_json
    )
    assert misses.hypothesis is None
    assert "host_uncached" not in misses.by_cause


@pytest.mark.parametrize(("reasons", "model", "told"), [(True, "m", True), (False, "m", False), (True, HOSTED, False)])
def test_reasoning_that_kvtools_template_leaves_out_is_told(
    reasons: bool, model: str, told: bool, tmp_path: Path, bytes_json: str
) -> None:
    source = random.Random(11_000)
    log = made_log(tmp_path / "log.jsonl", source, HiddenServer(source, "keep"), model=model, reasons=reasons)
    notes = kvtool.profile(log, tokenizer=bytes_json).notes
    assert any("leaves out the reasoning" in note for note in notes) == told


class SplicingServer(HiddenServer):
    """Move system messages of mid-conversation to the first one (`hoists`), or write parts of a list otherwise than a string."""

    hoists = True

    def prompt(self, messages: Sequence[dict[str, Any]]) -> str:
        first = [message for message in messages if message["role"] == "system" and self.hoists]
        said = [*first, *(message for message in messages if message not in first)]
        return "".join(f"<{message['role']}>{_text(message['content'])}" for message in said) + "<assistant>"


class FormServer(SplicingServer):
    hoists = False


def _text(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else f"[{content[0]['text']}]"


@pytest.mark.parametrize("seed", some(range(2), 1))
@pytest.mark.parametrize(("kind", "cause"), [(SplicingServer, "system_changed"), (FormServer, "wire_form")])
def test_moved_system_messages_and_other_forms_are_found(
    seed: int, kind: type[SplicingServer], cause: str, tmp_path: Path, bytes_json: str
) -> None:
    source = random.Random(12_000 + seed)
    server, talk, lines = kind(source, "keep"), [{"role": "system", "content": text_of(source, 900, 1_200)}], []
    for number in range(24):
        talk.append({"role": "user", "content": text_of(source, 150, 400)})
        if number % 4 == 3 and cause == "system_changed":
            talk.append({"role": "system", "content": text_of(source, 60, 90)})
        elif number % 4 == 3:
            at = source.randrange(1, len(talk) - 2)
            talk[at] = {"role": talk[at]["role"], "content": [{"type": "text", "text": talk[at]["content"]}]}
            if isinstance(talk[at]["content"][0]["text"], list):
                talk[at] = {"role": talk[at]["role"], "content": talk[at]["content"][0]["text"][0]["text"]}
        answer = {"role": "assistant", "content": text_of(source, 80, 300)}
        response = {
            "choices": [{"finish_reason": "stop", "message": answer}],
            "usage": server.usage(talk, answer, ""),
        }
        request = {"model": "gpt-5.1", "messages": list(talk)}
        time = TIME.format(9, number, 0)
        lines.append({"timestamp": time, "session_id": "s", "request": request, "response": response})
        talk.append(answer)
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = misses_of(str(path), bytes_json)
    assert found.hypothesis is not None
    assert found.hypothesis.cause == cause
    assert found.hypothesis.explained >= 0.8 * found.hypothesis.misses
