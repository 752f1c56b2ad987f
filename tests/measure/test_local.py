"""The measured run: requests that decode together, what a device has room for, and what is said of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kvtool.cli.app import run
from kvtool.engine.config import DecodeMode, EngineConfig
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.device import KernelChoice
from kvtool.engine.request import Request
from kvtool.kernels import torch_twins
from kvtool.measure import decode as measure_decode
from kvtool.measure import device_memory
from kvtool.measure import local as measure
from kvtool.measure.decode import DecodeMeasurement, MeasuredDecode, decode_modes, prompts_together
from kvtool.measure.device_memory import DeviceMemory
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.tokenizer import load_tokenizer
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Conversation, Output, Turn

Capture = pytest.CaptureFixture[str]
VOCABULARY = 200
FOREVER = 1e9


@pytest.fixture(scope="module")
def model() -> Decoder:
    config = ModelConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
    )
    return Decoder.random(config, seed=0)


def prompts(count: int, shared: int = 96, own: int = 20) -> list[Request]:
    made = []
    for index in range(count):
        ids = np.concatenate([np.full(shared, 1, np.int32), np.full(own, 2 + index, np.int32)])
        made.append(Request(str(index), len(ids), prompt_ids=ids, output_ids=[0]))
    return made


def measurement(
    model: Decoder,
    *,
    modes: tuple[DecodeMode, ...] = ("flat",),
    blocks: int = 1000,
    rate: float = 1e9,
    deadline: float = FOREVER,
    **config: Any,
) -> DecodeMeasurement:
    return DecodeMeasurement(
        model,
        EngineConfig(16, **config),
        kv_cache_dtype="auto",
        modes=modes,
        most_blocks=lambda caches: blocks // caches,
        rate=rate,
        deadline=deadline if deadline == FOREVER else time.monotonic() + deadline,
    )


# Requests that decode together


@pytest.mark.parametrize("budget", [8192, 64, 8])
def test_all_decode_together_in_every_step_that_is_timed(
    model: Decoder, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the steps are in which their prompts are computed."""
    begun = measurement(model, modes=("flat", "prefix-aware"), max_num_batched_tokens=budget)
    result = begun.begin(prompts(6))
    assert result is not None
    lengths = [request.num_tokens for request in begun._engines[0].scheduler.running]
    assert (result.requests, result.tokens) == (6, np.mean(lengths))
    assert min(lengths) > 116
    scheduled: list[list[int]] = []
    for engine in begun._engines:
        runner = engine.runner.run
        monkeypatch.setattr(
            engine.runner,
            "run",
            lambda step, runner=runner: scheduled.append([item.num_tokens for item in step.scheduled]) or runner(step),
        )
    steps = sum(1 for _ in begun.steps(result))
    assert scheduled == [[1] * 6] * (2 * steps)
    assert steps - 3 == len(result.flat) == len(result.sharing) == 64
    assert all(seconds > 0 for seconds in (*result.flat, *result.sharing))
    assert result.flat_seconds == pytest.approx(np.median(result.flat))
    assert result.sharing_seconds == pytest.approx(np.median(result.sharing))


def test_both_ways_of_attention_give_the_same_tokens(model: Decoder) -> None:
    begun = measurement(model, modes=("flat", "prefix-aware"))
    result = begun.begin(prompts(5))
    assert result is not None
    for _ in begun.steps(result):
        pass
    flat, aware = ([request.outputs for request in engine.scheduler.running] for engine in begun._engines)
    assert flat == aware
    assert len(flat[0]) >= 68


def test_the_prefix_is_held_once(model: Decoder) -> None:
    """Six blocks in common and the rest of each: 96 shared tokens, 20 own ones and room for output."""
    begun = measurement(model)
    assert begun.begin(prompts(4)) is not None
    cache = begun._engines[0].cache
    assert cache.num_used < 4 * 9
    room = begun._room(prompts(4))
    assert cache.num_blocks == 1 + 6 + 4 * (-(-(116 + room) // 16) - 6)


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({"blocks": 1000}, 8),
        ({"blocks": 30}, 3),  # 29 usable ones: 13, then 7 for what is not shared
        ({"blocks": 12}, None),
        ({"rate": 175 / 5.0, "deadline": 10.0}, 3),  # half of the time is five seconds: 116 + 20 + 20 … tokens
        ({"deadline": -1.0}, None),
        ({"enable_prefix_caching": False, "rate": 300 / 5.0, "deadline": 10.0}, 2),
    ],
)
def test_as_many_as_time_and_memory_allow(
    model: Decoder, change: dict[str, Any], count: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)  # else a busy machine has less of its ten seconds left
    chosen = measurement(model, **change)._that_fit(prompts(8))
    assert len(chosen) == (count or len(chosen))
    if count is None:
        assert len(chosen) < 2
        assert measurement(model, **change).begin(prompts(8)) is None


def test_time_that_runs_out_keeps_what_there_is(model: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = measurement(model)
    result = begun.begin(prompts(3))
    assert result is not None
    for number, _ in enumerate(begun.steps(result)):
        if number == 9:
            monkeypatch.setattr(begun, "_deadline", 0.0)
    assert len(result.flat) == 7
    assert result.flat_seconds is None  # no median of so few
    result.flat.append(1.0)
    assert result.flat_seconds == np.median(result.flat)
    assert result.sharing_seconds is None


def test_what_is_measured_where() -> None:
    both = ("flat", "prefix-aware")
    assert decode_modes("auto", shares=False) == ("flat",)
    assert decode_modes("auto", shares=True) == both
    assert decode_modes("prefix-aware", shares=False) == both
    assert decode_modes("flat", shares=True) == ("flat",)


class Talk:
    def __init__(self, name: str, lengths: list[int], session: str | None = None) -> None:
        self._name, self._session = name, session
        self._left = list(enumerate(lengths))
        self.heard: list[Output | None] = []

    def next_turn(self, previous: Output | None) -> Turn | None:
        self.heard.append(previous)
        if not self._left:
            return None
        index, length = self._left.pop(0)
        return Turn(
            "g",
            id=f"{self._name}{index}",
            session=self._session,
            index=index,
            token_ids=np.full(length, 1000 + index, np.int32),
            output_tokens=3,
        )


class Source:
    def __init__(self, *talks: Talk) -> None:
        self._talks = talks

    def conversations(self) -> Iterator[Conversation]:
        yield from self._talks


@pytest.fixture
def maker(bytes_json: str) -> Callable[[int], JobMaker]:
    renderer = Renderer(
        lambda: load_tokenizer(bytes_json, offline=True), lambda tokenizer: ChatTemplate.load(None, tokenizer)
    )
    return lambda seed: JobMaker(renderer, seed=seed)


def drawn(source: Source, maker: JobMaker, **change: Any) -> list[Request]:
    asked: dict[str, Any] = {
        "batch": 8,
        "limit": None,
        "vocabulary": VOCABULARY,
        "fits": lambda _: True,
        "deadline": FOREVER,
    }
    return prompts_together(source, maker, **(asked | change))


def test_one_turn_of_each_conversation(maker: Callable[[int], JobMaker]) -> None:
    seen: set[int] = set()
    for seed in range(20):
        talks = [Talk("a", [10, 20, 30], "a"), Talk("b", [5]), Talk("c", [7, 8], "c"), Talk("a", [40], "a")]
        found = drawn(Source(*talks), maker(seed))
        assert len(found) == 3
        assert found[1].id == "b0"
        seen.add(found[0].num_prompt_tokens)
        assert all(request.prompt_ids is not None and request.prompt_ids.max() < VOCABULARY for request in found)
        assert [None if heard is None else len(heard.text) for heard in talks[0].heard] == [None, 3, 3, 3]
    assert seen == {10, 20, 30}


def test_prompts_end_with_the_batch_the_limit_or_the_time(maker: Callable[[int], JobMaker]) -> None:
    def source() -> Source:
        return Source(*(Talk(f"t{index}", [10 + index]) for index in range(9)))

    assert [request.num_prompt_tokens for request in drawn(source(), maker(0), batch=2)] == [10, 11]
    assert len(drawn(source(), maker(0), limit=5)) == 5
    assert drawn(source(), maker(0), deadline=0.0) == []
    found = drawn(source(), maker(0), fits=lambda request: request.num_prompt_tokens % 2 == 1)
    assert [request.num_prompt_tokens for request in found] == [11, 13, 15, 17]


# The memory of a device


def test_blocks_share_what_is_free(model: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = DeviceMemory(model, EngineConfig(16, max_num_batched_tokens=64, max_num_seqs=4), ("auto", "int8"))
    assert memory.block_bytes == 2 * 2 * 2 * 16 * 8 * 4  # fp32: the larger of both types
    assert not memory.bounded
    monkeypatch.setattr(device_memory, "free_memory", lambda _: 1 << 30)
    one, four = memory.blocks(1), memory.blocks(4)
    assert 0 < one * memory.block_bytes < 0.9 * (1 << 30)
    assert four == pytest.approx(one / 4, abs=1)
    monkeypatch.setattr(device_memory, "free_memory", lambda _: 1 << 40)
    assert memory.blocks(1) == 1 << 18
    monkeypatch.setattr(device_memory, "free_memory", lambda _: 0)
    assert memory.blocks(1) == 2


# The whole run

Profile = Callable[..., tuple[dict[str, Any], str]]
TOKENS = """\
version: 1
groups:
  - name: gen
    generate: {prefixes: 1, per_prefix: 6, prefix_tokens: 64, suffix_tokens: 16, output_tokens: 4}
"""


@pytest.fixture
def profile(tmp_path: Path, bytes_json: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Profile:
    """A run with its document and the report with its details."""
    (tmp_path / "w.yaml").write_text(TOKENS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def start(*flags: str, code: int = 0) -> tuple[dict[str, Any], str]:
        arguments = ["profile", "w.yaml", "-q", "--details", "-o", "r.json", "-t", bytes_json, "--measure-budget", "60"]
        assert run([*arguments, *flags]) == code
        found: dict[str, Any] = json.loads(Path("r.json").read_text(encoding="utf-8"))
        return found, " ".join(capsys.readouterr().out.split())

    return start


def test_tpot_is_measured_beside_ttft(profile: Profile) -> None:
    found, out = profile("--device", "cpu")
    assert found["config"]["device"] == "cpu"
    assert found["ttft"]["measured"]["kernels"] == "torch"
    assert found["ttft"]["measured"]["shortfall"] == ""
    measured = found["decode"]["tpot"]["measured"]
    assert (measured["requests"], measured["steps"]) == (6, 64)
    assert measured["flat"] > 0
    assert measured["prefix_aware"] > 0
    assert "TPOT, measured here" in out
    assert "Measured: 6 requests together, median of 64 steps" in out
    assert "where auto is flat" not in out


def test_a_cache_of_another_type_is_read_flat(profile: Profile) -> None:
    found, out = profile("--device", "cpu", "--kv-cache-dtype", "int8")
    assert found["decode"]["tpot"]["measured"]["prefix_aware"] is None
    assert "cpu, where auto is flat" in out


def test_prefix_aware_attention_where_it_is_asked_for(profile: Profile) -> None:
    found, _ = profile("--decode-attention", "prefix-aware", "--audit")
    assert found["decode"]["tpot"]["measured"]["prefix_aware"] > 0
    assert found["ttft"]["measured"]["audit"]["flips"] == []


def test_tpot_that_takes_too_long_is_told(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DecodeMeasurement, "_that_fit", lambda *_: [])
    found, out = profile()
    assert found["decode"]["tpot"]["measured"] is None
    assert found["ttft"]["measured"]["complete"]
    assert "TPOT is not measured: it takes longer than" in out
    assert "TPOT, measured here" not in out


def test_one_conversation_leaves_all_of_the_budget_to_ttft(profile: Profile) -> None:
    found, _ = profile("-n", "1")
    assert found["decode"] is None
    assert found["ttft"]["measured"]["complete"]


def test_a_shortfall_is_never_silent(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "choose_kernels", lambda _: KernelChoice(torch_twins, "this GPU lacks a thing"))
    found, out = profile()
    assert found["ttft"]["measured"]["shortfall"] == "this GPU lacks a thing"
    assert "Note: this GPU lacks a thing" in out


class SmallDevice(DeviceMemory):
    """Memory for caches of seven blocks and the null block."""

    bounded = True

    def blocks(self, caches: int) -> int:
        assert caches in (2, 4, 5)
        return 8


def test_a_device_bounds_the_cache(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """80 prompt tokens and 4 of an answer take six blocks of 16."""
    reserved: list[int] = []
    made = measure.ModelRunner

    class Runner(made):  # type: ignore[misc, valid-type]
        def __init__(self, model: Decoder, block_size: int, num_blocks: int | None = None, **options: Any) -> None:
            super().__init__(model, block_size, num_blocks, **options)
            assert num_blocks is not None
            reserved.append(num_blocks)

    monkeypatch.setattr(measure, "ModelRunner", Runner)
    monkeypatch.setattr(measure, "DeviceMemory", SmallDevice)
    found = profile()[0]["ttft"]["measured"]
    assert reserved[1:3] == [7, 7]  # the first one is the warm-up's
    assert (found["requests"], found["too_large_requests"], found["complete"]) == (6, 0, True)
    path = Path("w.yaml")
    path.write_text(TOKENS.replace("suffix_tokens: 16", "suffix_tokens: 64"), encoding="utf-8")
    document, out = profile()
    found = document["ttft"]["measured"]
    assert (found["requests"], found["too_large_requests"]) == (0, 6)
    assert found["reason"] == "no request fits the memory of the cpu"
    assert "Not measured: no request fits the memory of the cpu" in out


def test_ctrl_c_while_decode_is_measured_keeps_what_there_is(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = DecodeMeasurement.steps

    def interrupted(self: DecodeMeasurement, result: MeasuredDecode) -> Iterator[None]:
        for number, _ in enumerate(steps(self, result)):
            if number == 12:
                raise KeyboardInterrupt
            yield

    monkeypatch.setattr(measure_decode.DecodeMeasurement, "steps", interrupted)
    found, _ = profile(code=130)
    assert found["partial"]
    assert found["ttft"]["measured"]["complete"]
    assert found["decode"]["tpot"]["measured"]["steps"] == 10


def test_a_device_that_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    (tmp_path / "w.yaml").write_text(TOKENS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run(["profile", "w.yaml", "--device", "cuda:1"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: this machine has no device 'cuda:1'\n  help: use cpu, or cuda with a GPU\n"
