"""Record of a run for a baseline: its sums, and all settings that make runs comparable."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvtool.gate.baseline import ACCOUNTING, RecordedSums, Value, WorkloadSums
from kvtool.gate.facts import Facts, Scope
from kvtool.gate.opened import in_order
from kvtool.text.terminal.streams import STDIN

_ALWAYS = (
    *("rules", "tokenizer", "tokenizer_fingerprint", "chat_template", "block_size", "capacity_blocks", "seed"),
    *("max_model_len", "concurrency", "use_arrivals", "replicas", "routing", "ttl_seconds"),
    *("provider", "provider_as_of"),
)
_TIMED = (
    *("model", "accelerator", "calibration", "tensor_parallel", "kv_cache_dtype", "async_scheduling"),
    *("max_num_batched_tokens", "max_num_seqs"),
)
"""Settings that decide hits only where requests run at the same time."""
_NAMED_PATHS = 3
"""Paths named in one line."""

Config = Mapping[str, str | int | float | bool | None]


def entry_of(
    facts: Facts,
    paths: Sequence[str],
    config: Config,
    baseline: str,
    *,
    groups: Sequence[str] = (),
    with_findings: bool = True,
) -> tuple[str, WorkloadSums]:
    """Return the name of a run of these paths in the baseline at that path, and its entry; `groups` are the chosen ones."""
    folder = str(Path(baseline).parent)
    names = [path if path == STDIN else portable_path(path, folder) for path in in_order(paths)]
    name = " + ".join(names[:_NAMED_PATHS])
    if len(names) > _NAMED_PATHS:
        name += f" + {len(names) - _NAMED_PATHS:,} more"
    key = key_of(config, folder=folder, limit=facts.limit, groups=groups)
    return name, sums_of(facts, key, with_findings=with_findings)


def key_of(config: Config, *, folder: str, limit: int | None, groups: Sequence[str]) -> dict[str, Value]:
    """Return the settings that decide the figures of a run: of `config` (`PlannedRun.describe`), the requests and the groups.

    What is not said, off or one engine is left out. Paths are from `folder`, that of the baseline.
    """
    timed = config.get("use_arrivals") or config.get("concurrency") or config.get("ttl_seconds") is not None
    names = (*_ALWAYS, *_TIMED) if timed else _ALWAYS
    key: dict[str, Value] = {"accounting": ACCOUNTING}
    for name in names:
        value = config.get(name)
        if value is None or value is False or (name == "replicas" and value == 1):
            continue
        key[name] = _portable(value, folder) if isinstance(value, str) else value
    if not config.get("enable_prefix_caching", True):
        key["enable_prefix_caching"] = False
    if config.get("chat_template") == f"{config.get('tokenizer')} chat template":
        key["chat_template"] = "the tokenizer's own"
    if limit is not None:
        key["requests"] = limit
    if groups:
        key["groups"] = ", ".join(sorted(set(groups)))
    return key


def _portable(value: str, folder: str) -> str:
    """Return a file as it is found from the baseline's folder; anything else as it is."""
    try:
        known = bool(value) and Path(value).exists()
    except (OSError, ValueError):
        return value
    return portable_path(value, folder) if known else value


def portable_path(path: str, folder: str) -> str:
    """Return a path from `folder`, with `/` on any system."""
    return Path(os.path.relpath(path, folder or ".")).as_posix()


def sums_of(facts: Facts, key: Mapping[str, Value], *, with_findings: bool) -> WorkloadSums:
    """Return the entry that a baseline has of this run."""
    by_group: dict[str, Counter[str]] = {name: Counter() for name in facts.groups}
    codes: Counter[str] = Counter()
    for found in facts.findings:
        codes[found.code] += 1
        if found.group in by_group:
            by_group[found.group][found.code] += 1
    groups = {
        name: RecordedSums.of(**_tokens(scope), findings=by_group[name] if with_findings else None)
        for name, scope in facts.groups.items()
    }
    total = RecordedSums.of(**_tokens(facts.total), findings=codes if with_findings else None)
    return WorkloadSums(**total.model_dump(), key=dict(key), groups=groups)


def _tokens(scope: Scope) -> dict[str, Any]:
    return {
        "requests": scope.requests,
        "prompt_tokens": scope.prompt_tokens,
        "hit_tokens": scope.hit_tokens,
        "reachable_tokens": scope.reachable_tokens,
        "reported": scope.reported,
    }
