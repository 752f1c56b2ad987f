"""The scheduler of a vLLM server as /server_info shows it: what the engine follows, and what is only named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvtool.measure.servers.server_values import number_at, share_at, text_at, truth_at, value_at

SCHEDULER_FACTS = (
    *("policy", "watermark", "long_prefill_token_threshold", "long_prefill_token_threshold_adaptive"),
    *("max_num_active_seqs", "scheduler_reserve_full_isl", "prefill_schedule_interval"),
)
"""Settings that no flag gives; the names are those of the engine's configuration."""
_POLICIES = ("fcfs", "priority")


def scheduler_facts(scheduler: Mapping[str, object]) -> dict[str, int | str | bool | float | None]:
    """Return the settings that the engine follows by their names; None for one that is missing."""
    policy = text_at(scheduler, "policy")
    numbers = (
        *("max_num_batched_tokens", "max_num_seqs", "long_prefill_token_threshold", "max_num_active_seqs"),
        "prefill_schedule_interval",
    )
    truths = (
        *("async_scheduling", "enable_chunked_prefill", "long_prefill_token_threshold_adaptive"),
        "scheduler_reserve_full_isl",
    )
    return {
        **{name: number_at(scheduler, name) for name in numbers},
        **{name: truth_at(scheduler, name) for name in truths},
        "policy": policy if policy in _POLICIES else None,
        "watermark": share_at(scheduler, "watermark"),
    }


def scheduler_notes(info: object) -> Iterator[str]:
    """Yield what the scheduler does in a way that the engine does not follow."""
    scheduler, parallel = (value_at(info, "vllm_config", part) for part in ("scheduler_config", "parallel_config"))
    policy = text_at(scheduler, "policy")
    if policy not in (None, *_POLICIES):
        yield f"kvtool does not know the scheduling policy {policy}; it uses the order of arrival"
    if (own := text_at(scheduler, "scheduler_cls")) is not None:
        yield f"the server has its own scheduler, {own}; kvtool follows vLLM's"
    limit = number_at(scheduler, "max_num_scheduled_tokens")
    if limit not in (None, number_at(scheduler, "max_num_batched_tokens")):
        yield f"`max_num_scheduled_tokens` is {limit:,}, which kvtool ignores"
    if (stages := number_at(parallel, "pipeline_parallel_size") or 1) > 1:
        yield f"the server has {stages} pipeline stages with a batch each; kvtool schedules one batch at a time"
