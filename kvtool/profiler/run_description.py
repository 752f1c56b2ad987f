"""What a report says of its run: notes on the order of requests and the cache, and the settings that its figures depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.config.engine_rules import described_engine, engine_notes
from kvtool.config.options.cache_options import described_rules, rule_note
from kvtool.engine.config import UNLIMITED_LEN
from kvtool.engine.engine_error import EngineError
from kvtool.engine.kv_dtype import AUTO, find_kv_dtype
from kvtool.errors import KvtoolError
from kvtool.profiler.engines.left_out_layers import knows_kinds, left_out_of
from kvtool.profiler.layer_group_notes import described_groups, group_notes, plain_note, single_group_notes
from kvtool.text.terminal.numbers import size
from kvtool.version import __version__
from kvtool.workload.render import Renderer

if TYPE_CHECKING:
    from kvtool.profiler.planned_run import PlannedRun

_DEFAULTS = ("one request at a time", "unlimited cache")


def run_notes(run: PlannedRun) -> list[str]:
    """Return notes on the order of requests and the cache, for the head of the report."""
    plan, engine = run.plan, run.plan.engine
    if plan.cache is not None and plan.cache.engine is not None:
        choice = plan.cache.engine
        kinds_known = knows_kinds(choice.options)
        lack = None if run.model is None else left_out_of(run.run_model.served(), kinds_known=kinds_known)
        notes = [*engine_notes(choice), *run.run_model.notes(with_tokens=True)]
        notes += [run.assumed_note] if run.rules == "llamacpp" and run.model is None else []
        return notes if lack is None else [*notes, f"{lack}: kvtool assumes full attention in every layer"]
    if plan.cache is not None:
        how = rule_note(plan.cache)
    elif not plan.by_engine:
        how = "block-lru accounting, one request at a time"
    elif plan.use_arrivals:
        how = "requests at their arrival times" + (f", at most {plan.concurrency} at once" if plan.concurrency else "")
    elif plan.concurrency is not None:
        how = f"{plan.concurrency} requests at once"
    else:
        how = "one request at a time"
    if engine.num_blocks is None:
        cache = "unlimited cache"
    else:
        cache = f"cache of {engine.num_blocks - 1:,} blocks"
        if plan.bytes_per_block is not None:
            assumed = ", assumed" if plan.model_from == "assumed" else ""
            held = size((engine.num_blocks - 1) * plan.bytes_per_block)
            cache += f" ({held} for {plan.model_name}{assumed})"
    if plan.kv_cache_dtype != find_kv_dtype(AUTO).name:
        cache += f" in {plan.kv_cache_dtype}"
    if not engine.enable_prefix_caching:
        cache += ", prefix caching off"
    if engine.async_scheduling and plan.by_engine:
        how += ", asynchronous scheduling"
    change = " (change with --concurrency, --gpu-memory)" if (how, cache) == _DEFAULTS else ""
    notes = [f"{how}, {cache}{change}." if plan.cache is not None else f"Simulated: {how}, {cache}{change}."]
    notes += step_notes(run) if plan.by_engine else []
    if run.served is not None and run.served.plan is not None and plan.by_engine:
        notes += group_notes(run.served, engine.prefix_cache_retention_interval)
    notes += _plain_notes(run)
    notes += [] if plan.hosted else _model_notes(run)
    if run.untimed and plan.use_arrivals and plan.by_engine:
        notes.append(f"no arrival times, so all requests start at second 0: {', '.join(run.untimed)}")
    return notes


def step_notes(run: PlannedRun) -> list[str]:
    """Say how large a step is, where nobody gave it: memory is reserved for it."""
    engine = run.plan.engine
    step = f"{engine.max_num_batched_tokens:,} tokens and {engine.max_num_seqs:,} requests"
    return [f"Largest step: {step} (defaults of {run.limits_source})."] if run.limits_source is not None else []


def _model_notes(run: PlannedRun) -> list[str]:
    """Say what is known of the log's model, and whose times a clock assumes where it is unknown."""
    plan, notes = run.plan, run.run_model.notes(with_tokens=not run.plan.traced)
    if plan.sized or plan.one_at_a_time:
        return notes
    latency = plan.latency
    return [*notes, f"the clock assumes step times of {latency.geometry.name} on {latency.accelerator.name}"]


def _plain_notes(run: PlannedRun) -> list[str]:
    """Explain that one group with full attention replaces a model's several groups."""
    plan = run.plan
    if run.served is not None:
        return single_group_notes(run.served)
    if run.model is None or plan.hosted:
        return []
    from kvtool.accounting.served_cache import ServedCache
    from kvtool.engine.groups.model_plan import ServeOptions

    try:
        served = ServedCache.of(run.run_model.served(), ServeOptions())
    except (EngineError, KvtoolError):  # vLLM would not start with this, so it is not checked here
        return []
    if served.plan is None:
        return []
    what = "kvtool simulates whole requests"
    return [plain_note(served, "kvtool simulates a trace of block hashes" if plan.traced else what)]


def run_config(
    run: PlannedRun, name: str, renderer: Renderer, *, device: str | None = None
) -> dict[str, str | int | float | bool | None]:
    """Return everything on which the numbers depend; `device` computed the measured ones."""
    engine, calibration = run.plan.engine, run.calibration
    tokenizer = renderer.tokenizer if renderer.loaded("tokenizer") else None
    return {
        "version": __version__,
        "input": name,
        "rules": run.plan.rules,
        **({"vllm_release": engine.release} if run.plan.by_engine and run.plan.cache is None else {}),
        "tokenizer": tokenizer.name if tokenizer is not None else None,
        "tokenizer_fingerprint": tokenizer.fingerprint if tokenizer is not None else None,
        "chat_template": renderer.chat_template.name if renderer.loaded("chat_template") else None,
        "block_size": engine.block_size,
        "capacity_blocks": None if engine.num_blocks is None else engine.num_blocks - 1,
        "enable_prefix_caching": engine.enable_prefix_caching,
        "max_model_len": engine.max_model_len if engine.max_model_len < UNLIMITED_LEN else None,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "max_num_seqs": engine.max_num_seqs,
        **({"batch_limits_of": run.limits_source} if run.limits_source is not None else {}),
        "concurrency": run.plan.concurrency,
        "use_arrivals": run.plan.use_arrivals,
        **described_rules(run.plan.cache),
        **described_engine(run.plan.cache),
        "seed": run.plan.seed,
        "model": run.plan.model_name,
        "model_from": run.plan.model_from if run.plan.sized else None,
        "accelerator": run.plan.latency.accelerator.name,
        "calibration": run.options.predicting.calibration,
        "calibration_model": None if calibration is None else calibration.geometry.name,
        "calibration_dtype": None if calibration is None else calibration.dtype,
        "predicted_dtype": find_kv_dtype(AUTO).torch_name,
        "kv_cache_dtype": run.plan.kv_cache_dtype,
        "tensor_parallel": run.plan.latency.tensor_parallel,
        **described_groups(run.served, engine.prefix_cache_retention_interval),
        "async_scheduling": engine.async_scheduling,
        "hash_algo": engine.hash_algo,
        "hash_seed": engine.hash_seed if engine.hash_algo != "native" else None,
        "measured_model": run.measured_model,
        "load_format": run.options.measuring.load_format,
        "dtype": run.options.measuring.dtype,
        "device": device,
        "decode_attention": run.plan.decode_attention,
        "decode_batch": run.plan.decode_batch,
        "measure_budget": run.options.measuring.seconds,
        **({} if run.options.group_by is None else {"group_by": run.options.group_by}),
    }
