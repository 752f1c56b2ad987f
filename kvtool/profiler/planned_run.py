"""Settle the settings of a profile: flags over the workload's own options over the defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from kvtool.accounting.caches.cache_rules import CacheRules, traced_error
from kvtool.accounting.plan import ModelSource, Plan
from kvtool.config.asked_run import RunOptions, of_engine
from kvtool.config.engine_rules import chosen_release, chosen_rule_set, chosen_rules
from kvtool.config.options.cache_options import chosen_cache_rules
from kvtool.config.options.served_options import ServedOptions
from kvtool.engine.config import (
    DEFAULT_ACCELERATOR,
    DEFAULT_DECODE_BATCH,
    DEFAULT_UTILIZATION,
    UNLIMITED_LEN,
    EngineConfig,
)
from kvtool.engine.engine_error import EngineError
from kvtool.engine.kv_dtype import AUTO, find_kv_dtype
from kvtool.engine.model.configs.find_runnable import is_runnable
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.presets import model_path
from kvtool.engine.prediction.accelerators import (
    BATCH_LIMITS_SOURCE,
    BatchLimits,
    batch_limits_with,
    find_accelerator,
)
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.engine.prediction.sizing import block_bytes, blocks_that_fit
from kvtool.errors import KvtoolError, Place
from kvtool.measure.measure_options import MeasureOptions
from kvtool.profiler.run_model import RunModel
from kvtool.results.choices import Rules
from kvtool.text.quantities import Capacity, parse_bytes, parse_capacity
from kvtool.text.terminal.numbers import size
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.turn import Turn
from kvtool.workload.yaml.schema import EngineOptions

if TYPE_CHECKING:
    from kvtool.accounting.served_cache import ServedCache
    from kvtool.engine.rules.rule_set import RuleChoice
    from kvtool.measure.bench.calibration_file import Calibration
    from kvtool.workload.yaml.yaml_source import YamlSource

_NAME_A_MODEL = (
    "name a model with windows, linear attention or drafts: --model gpt-oss-20b, "
    "or `model` among the engine's options in a file"
)
_MOST_BLOCKS = 10_000_000
"""Bound against mistakes: the cache's tables would take gigabytes of memory."""


class PlannedRun:
    """Flags over the workload's own options over defaults, settled as the plan, with other settings for reports and real runs."""

    def __init__(self, options: RunOptions, asked: EngineOptions, source: YamlSource | LogSource) -> None:
        self.options = options
        self.asked = asked
        self._source = source
        turns = _first_turns(source) if isinstance(source, LogSource) else []
        first = cache(lambda: _first_turn(source, turns))
        tokenizer = options.rendering.tokenizer or asked.tokenizer
        reported = options.reported
        of_workload = None if reported.server_model else asked.model
        self.run_model = RunModel.of(options.predicting.model or of_workload, reported.server_model, turns, tokenizer)
        self.rules: Rules = chosen_rule_set(options, asked)
        own = self.rules in ("vllm", "block-lru")
        rules = chosen_cache_rules(options, asked, first) if own else None
        timed = rules is not None and rules.ttl is not None
        leaves_hosted = False
        if self.rules == "vllm" and rules is None and isinstance(source, LogSource):
            from kvtool.profiler.reported.hosted_log import are_hosted, asks_for_engine

            if not asks_for_engine(options, asked):
                if are_hosted(turns, self.run_model.models):
                    rules, timed = CacheRules(dated=True), turns[0].arrival is not None
                else:
                    leaves_hosted = True
        if rules is not None and rules.hosted:
            begun = first()
            rules = replace(rules, epoch=None if begun is None else begun.epoch)
        self._turns = turns
        self.model = self.run_model.name
        if options.measuring.load_format == "dummy" and (self.run_model.given is None or self.run_model.of_server):
            raise KvtoolError("--load-format dummy needs a --model")
        self.calibration = self._calibration(options.predicting.calibration)
        served = None if self.calibration is None or not self.calibration.of_server else self.calibration.geometry
        geometry = self.run_model.geometry if self.model or served is None else served
        model_from: ModelSource = "given" if geometry is served else self.run_model.source
        kv_dtype = find_kv_dtype(options.serving.kv_cache_dtype or asked.kv_cache_dtype or AUTO).name
        self.geometry, self.kv_dtype, self._model_from = geometry, kv_dtype, model_from
        choice = self._choice()
        if choice is not None:
            rules = CacheRules(engine=choice)
        provided = rules is not None and rules.hosted
        trace_block = None if provided else _trace_block_size(first())
        block_size = self._block_size(rules, trace_block)
        self.untimed = [] if isinstance(source, LogSource) else source.untimed
        caching = options.serving.enable_prefix_caching
        if caching is None:
            caching = asked.enable_prefix_caching is not False
        longest = options.serving.max_model_len or asked.max_model_len or EngineConfig.max_model_len
        chunks = options.serving.enable_chunked_prefill
        chunks = asked.enable_chunked_prefill if chunks is None else chunks
        self.limits_source: str | None = None
        """Whose limits of a step are used, if none are given: those of an accelerator, or of its memory."""
        limits = self._batch_limits(longest)
        engine = EngineConfig(
            block_size=block_size,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            max_num_seqs=limits.max_num_seqs,
            max_model_len=longest,
            enable_prefix_caching=caching,
            enable_chunked_prefill=chunks is not False,
            async_scheduling=options.mirroring.async_scheduling,
            **self._reported_scheduler(),
            hash_algo=options.mirroring.hash_algo or EngineConfig.hash_algo,
            hash_seed=os.environ.get("PYTHONHASHSEED"),
        )
        self.served = self._served(engine, kv_dtype, alone=rules is None and trace_block is None)
        if self.served is not None:
            engine = self._grouped(engine, self.served)
        token_bytes = block_bytes(geometry, 1, kv_dtype) if self.served is None else self.served.token_bytes
        latency = self._latency(geometry, token_bytes)
        if choice is None and (rules is None or not rules.hosted):  # no provider publishes its size
            engine = replace(engine, num_blocks=self._num_blocks(engine, latency, kv_dtype))
        concurrency = None if rules is not None else options.caching.concurrency or asked.concurrency
        seed = options.reading.seed if isinstance(source, LogSource) else source.seed
        self.plan = Plan(
            engine,
            latency,
            rules=self.rules,
            concurrency=concurrency,
            use_arrivals=options.caching.use_timestamps
            or (not isinstance(source, LogSource) and source.timed)
            or timed,
            seed=(options.fallback_seed or 0) if seed is None else seed,
            kv_cache_dtype=kv_dtype,
            limit=options.reading.requests,
            leaves_hosted=leaves_hosted,
            skip_refused=options.reading.on_bad_line == "skip",
            decode_attention=options.measuring.decode_attention,
            decode_batch=self._decode_batch(engine, concurrency),
            cache=rules,
            traced=trace_block is not None,
            served=self.served,
            model_from=model_from,
            models=self.run_model.models if model_from in ("log", "unknown") and not provided else None,
        )

    @property
    def has_hosted_models(self) -> bool:
        """Return whether a provider's models answered the log, whichever cache is simulated."""
        if not self._turns:
            return False
        from kvtool.profiler.reported.hosted_log import are_hosted

        return are_hosted(self._turns, self.run_model.models)

    def _served(self, engine: EngineConfig, kv_dtype: str, *, alone: bool) -> ServedCache | None:
        """Return the KV cache of the model that is named, as vLLM plans it; None where none is, or where other rules are followed.

        `alone`: one engine runs, and on tokens.
        """
        asked = ServedOptions(self.options, self.asked, self._place_of)
        if self.model is None or not alone or self.rules != "vllm":
            asked.refuse(
                "no model is named" if self.model is None else "these rules support only full attention in all layers",
                _NAME_A_MODEL,
            )
            return None
        from kvtool.accounting.served_cache import ServedCache

        caching = self.options.serving.enable_prefix_caching
        try:
            served = ServedCache.of(
                self.run_model.served(),
                asked.serving(engine, kv_dtype, self.asked.enable_prefix_caching if caching is None else caching),
            )
        except EngineError as error:
            raise asked.error(error) from None
        if not served.model.states:
            asked.refuse(
                f"{served.model.name} keeps no states",
                "name a model with linear attention: --model qwen3-next-80b",
                "mamba_ssm_cache_dtype",
            )
        if served.plan is None and served.planned.one_group is None:
            asked.refuse(
                f"{served.model.name} has only full attention",
                _NAME_A_MODEL,
            )
        return served

    def _grouped(self, engine: EngineConfig, served: ServedCache) -> EngineConfig:
        """Return the configuration with the groups of the model."""
        asked = ServedOptions(self.options, self.asked, self._place_of)
        try:
            return replace(
                engine,
                plan=served.plan,
                block_size=served.block_size,
                prefix_cache_retention_interval=asked.retention(),
                enable_prefix_caching=engine.enable_prefix_caching and served.planned.caching,
            )
        except EngineError as error:
            raise asked.error(error) from None

    def _decode_batch(self, engine: EngineConfig, concurrency: int | None) -> int:
        """Return how many conversations decode together if no run decides it."""
        most = engine.max_num_seqs if concurrency is None else min(engine.max_num_seqs, concurrency)
        given = self.options.measuring.decode_batch
        if given is not None and given > most:
            flag = "--max-num-seqs" if most == engine.max_num_seqs else "--concurrency"
            raise KvtoolError(f"--decode-batch {given} is more than {flag} {most} allows")
        return given or min(DEFAULT_DECODE_BATCH, most)

    def _reported_scheduler(self) -> dict[str, Any]:
        """Return the scheduler's settings of the server, and the release of vLLM: the one that was asked for, else the server's."""
        asked = chosen_release(self.options, self.asked)
        return self.options.reported.scheduler() | ({} if asked is None else {"release": asked})

    def _batch_limits(self, max_model_len: int) -> BatchLimits:
        """Return a step's limits: the given ones, else vLLM's on the given accelerator."""
        serving, asked = self.options.serving, self.asked
        tokens = serving.max_num_batched_tokens or asked.max_num_batched_tokens
        seqs = serving.max_num_seqs or asked.max_num_seqs
        named = self.options.predicting.accelerator or asked.accelerator
        memory = None if named is not None else self._memory()
        if (named is None and memory is None) or self.calibration is not None or (tokens and seqs):
            return BatchLimits(tokens or EngineConfig.max_num_batched_tokens, seqs or EngineConfig.max_num_seqs)
        if memory is not None:
            limits = batch_limits_with(memory)
            self.limits_source = f"{BATCH_LIMITS_SOURCE} with {size(memory)}; an A100 has others"
        else:
            accelerator = find_accelerator(named or "")
            limits = accelerator.batch_limits
            self.limits_source = f"{BATCH_LIMITS_SOURCE} on {accelerator.name}"
        tokens = tokens or min(limits.max_num_batched_tokens, (seqs or limits.max_num_seqs) * max_model_len)
        return BatchLimits(tokens, seqs or min(limits.max_num_seqs, tokens))

    def _memory(self) -> int | None:
        """Return the bytes of the accelerator's memory, where they size the cache."""
        serving, asked = self.options.serving, self.asked
        try:
            memory = parse_bytes(serving.gpu_memory) if serving.gpu_memory is not None else None
        except ValueError as error:
            raise KvtoolError(f"--gpu-memory: {error}") from error
        if serving.capacity is not None or serving.num_gpu_blocks is not None:
            return None
        above = memory is not None or (asked.capacity is None and asked.num_gpu_blocks is None)
        return (memory or asked.gpu_memory) if above else None

    @staticmethod
    def _calibration(path: str | None) -> Calibration | None:
        if path is None:
            return None
        from kvtool.measure.bench.calibration_file import load_calibration

        return load_calibration(path)

    def _latency(self, geometry: Geometry, kv_token_bytes: float) -> LatencyModel:
        """Return a model fitted to a machine if there is a calibration, else one from an accelerator's data sheet."""
        calibration, options = self.calibration, self.options
        ways = options.serving.tensor_parallel or self.asked.tensor_parallel or 1
        if calibration is None:
            found = find_accelerator(options.predicting.accelerator or self.asked.accelerator or DEFAULT_ACCELERATOR)
            return LatencyModel(geometry, found, tensor_parallel=ways, kv_token_bytes=kv_token_bytes)
        if ways > 1:
            raise KvtoolError(
                f"a calibration covers one device, not a model shared by {ways}",
                hint="predict for one: --tensor-parallel 1",
            )
        return calibration.latency_model(geometry, kv_token_bytes=kv_token_bytes)

    def _choice(self) -> RuleChoice | None:
        """Return another engine's rules for this model, if requested."""
        facts = self.facts_of(self.rules) if self.rules == "llamacpp" else {}
        return chosen_rules(self.options, self.asked, self._place_of, facts, self._token_bytes)

    def _token_bytes(self) -> int:
        """Return the bytes of a token's KV, for a capacity in bytes; KvtoolError where the model is unknown."""
        self.check_known("a capacity in bytes")
        return block_bytes(self.geometry, 1, self.kv_dtype)

    def check_known(self, what: str) -> None:
        """Raise KvtoolError where `what` needs the size of a model and it is unknown."""
        if self._model_from == "unknown":
            self.run_model.check_known(what, self._source)

    @property
    def assumed_note(self) -> str:
        """Say which model's sizes llama.cpp's rules take where none is named."""
        return f"--cache-ram of llama.cpp is counted in blocks of {self.geometry.name} (assumed)"

    def facts_of(self, rules: str) -> Mapping[str, int | str]:
        """Return facts that these rules read from the model, by the names of their options. EngineError if they do not cover its
        layers."""
        if rules == "sglang" and self.model is not None:
            from kvtool.engine.rules.sglang_hybrid import sglang_facts

            return sglang_facts(self.run_model.served())
        if rules != "llamacpp":
            return {}
        if self.model is not None:
            from kvtool.engine.rules.llama_cpp_model import llama_cpp_facts

            return llama_cpp_facts(self.run_model.served(), self.kv_dtype)
        geometry = self.geometry
        return {"kv_bytes_per_token": block_bytes(geometry, 1, self.kv_dtype), "kv_layers": geometry.num_layers}

    def _block_size(self, rules: CacheRules | None, trace: int | None) -> int:
        """Return a trace of block hashes cannot be cut differently from how it was written."""
        given = self.options.serving.block_size or self.asked.block_size
        if rules is not None and rules.dated:
            return 1
        if rules is not None and rules.engine is not None:
            if trace is not None:
                raise traced_error(rules.engine.rules.engine)
            return rules.engine.unit
        if rules is not None and rules.provider is not None:
            return rules.provider.step
        if trace is None:
            return given or EngineConfig.block_size
        if given is not None and given != trace:
            flag = self.options.serving.block_size is not None
            said = f"--block-size {given}" if flag else f"`block_size: {given}`"
            raise KvtoolError(
                f"the trace has blocks of {trace} tokens, which do not fit {said}",
                hint=f"leave {said.split()[0].strip('`:')} out, or set --trace-block-size if the trace has another block size",
                place=self._place_of("block_size"),
            )
        return trace

    def block_bytes_for(self, what: str) -> int:
        """Return the bytes of a block. Raises KvtoolError where `what` needs them and they are unknown."""
        self.check_known(what)
        found = self.plan.bytes_per_block
        if found is None:
            raise KvtoolError(f"{what} needs a model's size, and providers publish none")
        return found

    def _num_blocks(self, engine: EngineConfig, latency: LatencyModel, kv_dtype: str) -> int | None:
        """Return blocks of the pool with vLLM's null block; None is unlimited."""
        options, asked, block_size, geometry = self.options, self.asked, engine.block_size, latency.geometry
        name = "gpu_memory"
        try:
            capacity = parse_capacity(options.serving.capacity) if options.serving.capacity is not None else None
        except ValueError as error:
            raise KvtoolError(f"--capacity: {error}") from error
        memory = self._memory()
        blocks = options.serving.num_gpu_blocks
        if capacity is None and memory is None and blocks is None:
            capacity, blocks = asked.capacity, asked.num_gpu_blocks
        if memory is None and options.serving.gpu_memory_utilization is not None:
            raise KvtoolError("--gpu-memory-utilization needs --gpu-memory")
        if blocks is not None:
            name = "num_gpu_blocks"
        elif capacity is not None:
            name = "capacity"
            if capacity.unit == "bytes":
                self.check_known("a capacity in bytes")
            try:
                blocks = self._capacity_blocks(capacity, geometry, block_size, kv_dtype)
            except KvtoolError as error:
                raise self._option_error(name, error) from None
        elif memory is not None:
            self.check_known("--gpu-memory" if options.serving.gpu_memory is not None else "`gpu_memory`")
            utilization = options.serving.gpu_memory_utilization or asked.gpu_memory_utilization or DEFAULT_UTILIZATION
            blocks = blocks_that_fit(
                geometry,
                memory,
                block_size,
                utilization=utilization,
                kv_cache_dtype=kv_dtype,
                tensor_parallel=latency.tensor_parallel,
                max_model_len=engine.max_model_len if engine.max_model_len < UNLIMITED_LEN else None,
                max_num_batched_tokens=engine.max_num_batched_tokens,
                max_num_seqs=engine.max_num_seqs,
                plan=engine.plan,
            )
        else:
            return None
        if blocks > _MOST_BLOCKS:
            too_many = KvtoolError(
                f"a cache of {blocks - 1:,} blocks is more than kvtool supports ({_MOST_BLOCKS:,})",
                hint="omit the capacity: the cache is then unlimited",
            )
            raise self._option_error(name, too_many)
        return blocks

    def _capacity_blocks(self, capacity: Capacity, geometry: Geometry, block_size: int, kv_dtype: str) -> int:
        """Return the blocks with the null block; KvtoolError if there are none."""
        if self.served is None or self.served.plan is None:
            return _blocks(capacity, block_size, block_bytes(geometry, block_size, kv_dtype)) + 1
        if capacity.unit == "tokens":
            return self.served.blocks_of_tokens(capacity.number)
        return _blocks(capacity, block_size, self.served.bytes_per_block) + 1

    def _option_error(self, name: str, error: KvtoolError) -> KvtoolError:
        """Return the error of an engine's option, with the flag or the place that sets the option."""
        flag = getattr(self.options.serving, name) is not None
        message = f"--{name.replace('_', '-')}: {error.message}" if flag else error.message
        return KvtoolError(message, hint=error.hint, place=self._place_of(name) or error.place)

    def _place_of(self, name: str) -> Place | None:
        """Return the place in the workload or the configuration file that sets an engine's option; None if a flag sets it."""
        if of_engine(self.options).get(name) is not None:
            return None
        if not isinstance(self._source, LogSource) and getattr(self._source.engine, name) is not None:
            return self._source.document.place(("engine", name))
        file = self.options.fallback_file
        return file.place("engine", name) if file is not None else None

    def native_engine(self) -> EngineConfig | None:
        """Return the engine with a KV cache in the model's own dtype in the same memory; None if that is the same or impossible."""
        if self.plan.engine.num_blocks is None:
            return None
        try:
            blocks = self._num_blocks(self.plan.engine, self.plan.latency, AUTO)
        except (KvtoolError, EngineError):  # only the smaller type fits
            return None
        if blocks is None or blocks == self.plan.engine.num_blocks:
            return None
        return replace(self.plan.engine, num_blocks=blocks)

    def measure_options(self) -> MeasureOptions | None:
        """Return the measurements to make; None: none."""
        options = self.options
        if options.measuring.seconds <= 0 or self.plan.cache is not None:  # one engine measures none of those
            return None
        return MeasureOptions(
            budget=options.measuring.seconds,
            model=self.run_model.given if self.loads_model else None,
            load_format=options.measuring.load_format,
            dtype=options.measuring.dtype,
            kv_cache_dtype=options.serving.kv_cache_dtype or self.asked.kv_cache_dtype or AUTO,
            device=options.measuring.device,
            decode_attention=self.plan.decode_attention,
            audit=options.measuring.audit,
            asked=options.measuring.asked or (options.predicting.model is not None and self.loads_model),
        )

    @property
    def measured_model(self) -> str:
        """The model of the measured run."""
        return str(self.run_model.given) if self.loads_model else "embedded"

    @property
    def loads_model(self) -> bool:
        """Return whether the measured run uses the named model, not the embedded one.

        A folder whose model has no forward pass gives only the cache, unless a real run is requested, which is refused.
        """
        given = self.run_model.given
        if self.run_model.of_server:
            return False
        if given is None or self.options.measuring.load_format == "dummy":
            return given is not None
        return model_path(given).is_dir() and (self.options.measuring.asked or is_runnable(given))


def _trace_block_size(turn: Turn | None) -> int | None:
    """Return tokens in a block of a trace of hashes; None where the workload begins with anything else."""
    return turn.hashed.block_size if turn is not None and turn.hashed is not None else None


def _first_turns(source: LogSource) -> list[Turn]:
    """Return the first request of each of the first conversations."""
    from kvtool.profiler.reported.hosted_log import LOOKED_AT

    found = (conversation.next_turn(None) for conversation in islice(source.conversations(), LOOKED_AT))
    return [turn for turn in found if turn is not None]


def _first_turn(source: YamlSource | LogSource, turns: Sequence[Turn]) -> Turn | None:
    """Return the first request; `turns` are the first ones of a log."""
    if isinstance(source, LogSource):
        return turns[0] if turns else None
    conversation = next(source.conversations(), None)
    return conversation.next_turn(None) if conversation is not None else None


def _blocks(capacity: Capacity, block_size: int, bytes_per_block: int) -> int:
    """Return the usable blocks of a capacity; KvtoolError if there are none."""
    match capacity.unit:
        case "blocks":
            blocks = capacity.number
        case "tokens":
            blocks = capacity.number // block_size
        case "bytes":
            blocks = capacity.number // bytes_per_block
    if blocks < 1:
        raise KvtoolError(
            f"a capacity of {capacity.number} {capacity.unit} is less than one block of {block_size} tokens",
            hint=f"one block needs {size(bytes_per_block)}",
        )
    return blocks
