"""The command `kvtool profile`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kvtool import __version__
from kvtool.accounting import Plan, Rules
from kvtool.chat import ChatTemplate
from kvtool.engine.config import EngineConfig
from kvtool.engine.geometry import DEFAULT_GEOMETRY, Geometry, find_geometry
from kvtool.engine.latency import DEFAULT_ACCELERATOR, LatencyModel, find_accelerator
from kvtool.engine.sizing import blocks_that_fit
from kvtool.errors import KvtoolError
from kvtool.profile import Demands, Profile, Profiler
from kvtool.progress import Progress
from kvtool.render import Renderer
from kvtool.report.console import ColorChoice, make_console
from kvtool.report.numbers import size
from kvtool.streams import discard_stdout
from kvtool.tokenize import load_tokenizer
from kvtool.workload.inputs import open_inputs
from kvtool.workload.logs import LogOptions, LogSource, locate
from kvtool.workload.quantities import Capacity, parse_bytes, parse_capacity
from kvtool.workload.schema import EngineOptions
from kvtool.workload.yaml_source import YamlSource

_TRACE_BLOCK = 512
_MOST_BLOCKS = 10_000_000
_COUNTS = (
    "block_size",
    "trace_block_size",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "concurrency",
    "requests",
)
"""Flags that are whole numbers from 1 on."""


@dataclass(frozen=True, slots=True)
class ProfileArguments:
    """The command line of `kvtool profile`; None is "not given"."""

    inputs: Sequence[str]
    model: str | None = None
    accelerator: str | None = None
    tokenizer: str | None = None
    chat_template: str | None = None
    block_size: int | None = None
    capacity: str | None = None
    gpu_memory: str | None = None
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    enable_prefix_caching: bool | None = None
    concurrency: int | None = None
    use_timestamps: bool = False
    rules: Rules = "vllm"
    trace_block_size: int = _TRACE_BLOCK
    on_bad_line: Literal["error", "skip"] = "error"
    log_format: str | None = None
    requests: int | None = None
    groups: Sequence[str] = ()
    seed: int | None = None
    measure_budget: float = 20.0
    advice: bool = True
    min_hit_rate: float | None = None
    per_request: bool = False
    json: bool = False
    show_text: Literal["none", "snippet"] = "snippet"
    offline: bool = False
    quiet: bool = False
    color: ColorChoice = "auto"
    width: int | None = None
    command_line: Sequence[str] = ()
    """What stood behind `kvtool`; the report bases the next command on it."""


def run_profile(arguments: ProfileArguments) -> int:
    """Profile and print; returns the exit code: 0, 1 where a gate failed, 130 where it was interrupted."""
    _check(arguments)
    options = LogOptions(
        on_bad_line=arguments.on_bad_line,
        trace_block_size=arguments.trace_block_size,
        limit=arguments.requests,
        format=arguments.log_format,
    )
    source = open_inputs(arguments.inputs, options, seed=arguments.seed)
    if isinstance(source, YamlSource) and arguments.groups:
        source = source.select(arguments.groups)
    elif arguments.groups:
        raise KvtoolError("--group chooses among the groups of a workload file", hint="leave it out for logs")
    asked = source.engine if isinstance(source, YamlSource) else EngineOptions()
    setup = _Setup(arguments, asked, source)
    renderer = Renderer(
        lambda: load_tokenizer(arguments.tokenizer or asked.tokenizer, offline=arguments.offline),
        lambda tokenizer: ChatTemplate.load(arguments.chat_template or asked.chat_template, tokenizer),
    )
    if arguments.chat_template is not None:
        _ = renderer.chat_template  # a file that is named must be there, whether a request needs it or not
    demands = Demands(
        min_hit_rate=arguments.min_hit_rate,
        group_gates=source.gates if isinstance(source, YamlSource) else {},
        measure_budget=arguments.measure_budget,
        advice=arguments.advice,
        per_request=arguments.per_request,
    )
    name = arguments.inputs[0] if len(arguments.inputs) == 1 else f"{len(arguments.inputs)} files"
    with Progress(make_console(stderr=True, color=arguments.color), quiet=arguments.quiet) as progress:
        profiler = Profiler(
            source,
            renderer,
            setup.plan,
            demands,
            progress=progress,
            locate=locate,
            path=name,
            count_skipped=lambda: source.skipped,
        )
        profile = profiler.run()
    profile.config = setup.describe(name, renderer)
    profile.notes = setup.notes()
    try:
        _print(profile, arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough; the gates hold all the same
        discard_stdout()
    if profile.partial:
        return 130
    return 1 if profile.failed_gates else 0


def _print(profile: Profile, arguments: ProfileArguments) -> None:
    if arguments.json:
        from kvtool.report.json_profile import dump

        sys.stdout.write(dump(profile))
        return
    from kvtool.report.profile import print_profile

    console = make_console(color=arguments.color, width=arguments.width)
    command = arguments.command_line or ("profile", *arguments.inputs)
    print_profile(console, profile, show_text=arguments.show_text != "none", command=command)


def _check(arguments: ProfileArguments) -> None:
    """What a flag may hold, where its type does not say it."""
    for flag in _COUNTS:
        value = getattr(arguments, flag)
        if value is not None and value < 1:
            raise KvtoolError(f"--{flag.replace('_', '-')} must be at least 1, not {value}")
    if arguments.min_hit_rate is not None and not 0.0 <= arguments.min_hit_rate <= 1.0:
        raise KvtoolError(f"--min-hit-rate is a ratio from 0 to 1, not {arguments.min_hit_rate}", hint="0.8 is 80 %")
    if not 0.0 <= arguments.measure_budget < float("inf"):
        raise KvtoolError(f"--measure-budget is a number of seconds, not {arguments.measure_budget}")
    if arguments.seed is not None and arguments.seed < 0:
        raise KvtoolError(f"--seed must not be negative: {arguments.seed}")
    utilization = arguments.gpu_memory_utilization
    if utilization is not None and not 0.0 < utilization <= 1.0:
        raise KvtoolError(f"--gpu-memory-utilization is in (0, 1], not {utilization}")
    if arguments.capacity is not None and arguments.gpu_memory is not None:
        raise KvtoolError("--capacity and --gpu-memory both say how large the cache is", hint="give one of them")


class _Setup:
    """Flags over the workload's own options over defaults."""

    def __init__(self, arguments: ProfileArguments, asked: EngineOptions, source: YamlSource | LogSource) -> None:
        self.arguments = arguments
        geometry = find_geometry(arguments.model or asked.model or DEFAULT_GEOMETRY)
        accelerator = find_accelerator(arguments.accelerator or asked.accelerator or DEFAULT_ACCELERATOR)
        block_size = self._block_size(asked, source)
        self.concurrency = arguments.concurrency or asked.concurrency
        self.use_arrivals = arguments.use_timestamps or (isinstance(source, YamlSource) and source.timed)
        caching = arguments.enable_prefix_caching
        if caching is None:
            caching = asked.enable_prefix_caching is not False
        engine = EngineConfig(
            block_size=block_size,
            num_blocks=self._num_blocks(asked, geometry, block_size),
            max_num_batched_tokens=arguments.max_num_batched_tokens or asked.max_num_batched_tokens or 8192,
            max_num_seqs=arguments.max_num_seqs or asked.max_num_seqs or 256,
            max_model_len=arguments.max_model_len or asked.max_model_len or 1 << 31,
            enable_prefix_caching=caching,
            enable_chunked_prefill=asked.enable_chunked_prefill is not False,
        )
        seed = source.seed if isinstance(source, YamlSource) else arguments.seed or 0
        self.plan = Plan(
            engine,
            LatencyModel(geometry, accelerator),
            rules=arguments.rules,
            concurrency=self.concurrency,
            use_arrivals=self.use_arrivals,
            seed=seed,
            limit=arguments.requests,
            skip_refused=arguments.on_bad_line == "skip",
        )

    def _block_size(self, asked: EngineOptions, source: YamlSource | LogSource) -> int:
        """A trace of block hashes cannot be cut differently from how it was written."""
        given = self.arguments.block_size or asked.block_size
        trace = _trace_block_size(source)
        if trace is None:
            return given or 16
        if given is not None and given != trace:
            raise KvtoolError(
                f"the trace has blocks of {trace} tokens; --block-size {given} cannot be had of it",
                hint="leave --block-size out, or say --trace-block-size if the trace's own is another",
            )
        return trace

    def _num_blocks(self, asked: EngineOptions, geometry: Geometry, block_size: int) -> int | None:
        """Blocks of the pool with vLLM's null block; None is unlimited."""
        arguments = self.arguments
        try:
            capacity = parse_capacity(arguments.capacity) if arguments.capacity is not None else None
            memory = parse_bytes(arguments.gpu_memory) if arguments.gpu_memory is not None else None
        except ValueError as error:
            flag = "--capacity" if arguments.capacity is not None else "--gpu-memory"
            raise KvtoolError(f"{flag}: {error}") from error
        if capacity is None and memory is None:
            capacity, memory = asked.capacity, asked.gpu_memory
        if memory is None and arguments.gpu_memory_utilization is not None:
            raise KvtoolError("--gpu-memory-utilization is a part of --gpu-memory, which is not given")
        if capacity is not None:
            blocks = _blocks(capacity, geometry, block_size) + 1
        elif memory is not None:
            utilization = arguments.gpu_memory_utilization or asked.gpu_memory_utilization or 0.92
            blocks = blocks_that_fit(geometry, memory, block_size, utilization=utilization)
        else:
            return None
        if blocks > _MOST_BLOCKS:
            raise KvtoolError(
                f"a cache of {blocks - 1:,} blocks is more than the {_MOST_BLOCKS:,} that kvtool can follow",
                hint="leave the capacity out: the cache is then unlimited",
            )
        return blocks

    def notes(self) -> list[str]:
        """How requests meet the cache, for the head of the report."""
        engine = self.plan.engine
        if self.plan.rules == "block-lru":
            how = "block-lru accounting: whole requests, one at a time, an LRU list of blocks"
        elif self.use_arrivals:
            how = "requests as they arrive" + (f", at most {self.concurrency} at once" if self.concurrency else "")
        elif self.concurrency is not None:
            how = f"{self.concurrency} requests at once"
        else:
            how = "requests one at a time"
        if engine.num_blocks is None:
            cache = "unlimited cache"
        else:
            held = size((engine.num_blocks - 1) * self.bytes_per_block)
            cache = f"cache of {engine.num_blocks - 1:,} blocks ({held} for {self.plan.latency.geometry.name})"
        if not engine.enable_prefix_caching:
            cache += ", prefix caching off"
        return [f"{how}; {cache}"]

    @property
    def bytes_per_block(self) -> int:
        return self.plan.latency.geometry.kv_bytes_per_token() * self.plan.engine.block_size

    def describe(self, name: str, renderer: Renderer) -> dict[str, str | int | float | bool | None]:
        """Everything that the numbers depend on."""
        engine = self.plan.engine
        tokenizer = renderer.tokenizer if renderer.loaded("tokenizer") else None
        return {
            "version": __version__,
            "input": name,
            "rules": self.plan.rules,
            "tokenizer": tokenizer.name if tokenizer is not None else None,
            "tokenizer_fingerprint": tokenizer.fingerprint if tokenizer is not None else None,
            "chat_template": renderer.chat_template.name if renderer.loaded("chat_template") else None,
            "block_size": engine.block_size,
            "capacity_blocks": None if engine.num_blocks is None else engine.num_blocks - 1,
            "enable_prefix_caching": engine.enable_prefix_caching,
            "max_model_len": engine.max_model_len if engine.max_model_len < 1 << 31 else None,
            "max_num_batched_tokens": engine.max_num_batched_tokens,
            "max_num_seqs": engine.max_num_seqs,
            "concurrency": self.concurrency,
            "use_arrivals": self.use_arrivals,
            "seed": self.plan.seed,
            "model": self.plan.latency.geometry.name,
            "accelerator": self.plan.latency.accelerator.name,
            "device": "cpu",
            "measure_budget": self.arguments.measure_budget,
        }


def _trace_block_size(source: YamlSource | LogSource) -> int | None:
    """Tokens in a block of a trace of hashes; None where the workload begins with anything else."""
    conversation = next(source.conversations(), None)
    turn = conversation.next_turn(None) if conversation is not None else None
    return turn.hashed.block_size if turn is not None and turn.hashed is not None else None


def _blocks(capacity: Capacity, geometry: Geometry, block_size: int) -> int:
    """Usable blocks in a capacity; KvtoolError where it holds none."""
    match capacity.unit:
        case "blocks":
            blocks = capacity.number
        case "tokens":
            blocks = capacity.number // block_size
        case "bytes":
            blocks = capacity.number // (geometry.kv_bytes_per_token() * block_size)
    if blocks < 1:
        raise KvtoolError(
            f"a capacity of {capacity.number} {capacity.unit} holds no block of {block_size} tokens",
            hint=f"a block takes {size(geometry.kv_bytes_per_token() * block_size)} for {geometry.name}",
        )
    return blocks
