"""Options of a vLLM server that shape the KV cache of models with windows, states and drafts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

from kvtool.config.asked_run import RunOptions
from kvtool.engine.config import UNLIMITED_LEN, EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.kv_dtype import AUTO
from kvtool.errors import KvtoolError, Place
from kvtool.workload.yaml.schema import EngineOptions

if TYPE_CHECKING:
    from kvtool.engine.groups.model_plan import ServeOptions
    from kvtool.engine.groups.planner import Speculation

GROUP_OPTIONS = (
    "prefix_cache_retention_interval",
    "prefix_match_unit",
    "disable_hybrid_kv_cache_manager",
    "mamba_ssm_cache_dtype",
    "speculative_config",
)
"""Options for models with several KV cache groups or drafts only."""
_FIELDS = {"method", "num_speculative_tokens", "disable_lookahead_block_hashes", "disable_eagle_block_drop", "model"}


class ServedOptions:
    """Flags over options of the workload or the configuration file; `place` returns the place of an option in such a file."""

    def __init__(self, options: RunOptions, asked: EngineOptions, place: Callable[[str], Place | None]) -> None:
        self._flags = options
        self._asked = asked
        self._place = place

    def said(self) -> list[str]:
        """Return the given options of `GROUP_OPTIONS`."""
        return [name for name in GROUP_OPTIONS if self._value(name) is not None]

    def refuse(self, why: str, hint: str, *names: str) -> None:
        """KvtoolError where any of them, or of `names`, is said."""
        for name in self.said():
            if names and name not in names:
                continue
            raise KvtoolError(f"{self._written(name)} has no effect: {why}", hint=hint, place=self._place(name))

    def error(self, problem: EngineError) -> KvtoolError:
        """Return a problem of the model's plan, at the option that it names, if it names one."""
        for name in (*self.said(), "block_size"):
            if name in problem.message or (name == "block_size" and "blocks of" in problem.message):
                return KvtoolError(problem.message, hint=problem.hint, place=self._place(name))
        return KvtoolError(problem.message, hint=problem.hint)

    def retention(self) -> int | None:
        """Tokens on whose multiples boundaries are kept; None: wherever they can be."""
        said = self._value("prefix_cache_retention_interval")
        if said is None:
            return EngineConfig.prefix_cache_retention_interval
        text = str(said).strip().lower()
        return None if text == "none" else int(text)

    def serving(self, engine: EngineConfig, kv_cache_dtype: str, caching: bool | None) -> ServeOptions:
        """Return the input of vLLM's planner; `caching` None: as the model has it."""
        from kvtool.engine.groups.model_plan import ServeOptions

        serving, asked = self._flags.serving, self._asked
        disabled = self._value("disable_hybrid_kv_cache_manager")
        unit, state = self._value("prefix_match_unit"), self._value("mamba_ssm_cache_dtype")
        assert disabled is None or isinstance(disabled, bool)
        assert unit is None or isinstance(unit, int)
        return ServeOptions(
            block_size=serving.block_size or asked.block_size,
            kv_cache_dtype=kv_cache_dtype,
            tensor_parallel=serving.tensor_parallel or asked.tensor_parallel or 1,
            max_model_len=engine.max_model_len if engine.max_model_len < UNLIMITED_LEN else None,
            max_num_batched_tokens=engine.max_num_batched_tokens,
            concurrent_batches=2 if engine.async_scheduling else 1,
            enable_prefix_caching=caching,
            prefix_match_unit=unit,
            disable_hybrid_kv_cache_manager=disabled,
            mamba_ssm_cache_dtype=None if state in (None, AUTO) else str(state),
            speculation=self._speculation(),
            release=engine.release,
        )

    def _speculation(self) -> Speculation | None:
        said = self._value("speculative_config")
        if said is None:
            return None
        from kvtool.engine.groups.planner import DraftMethod, Speculation

        name = "speculative_config"
        where, written = self._place(name), self._written(name)
        try:
            given = json.loads(str(said))
        except (ValueError, RecursionError):
            given = None
        shape = '{"method": "mtp", "num_speculative_tokens": 2}'
        if not isinstance(given, dict):
            raise KvtoolError(f"{written} is a JSON object, like vLLM's", hint=shape, place=where)
        unknown = sorted(given.keys() - _FIELDS)
        if unknown:
            raise KvtoolError(
                f"{written}: {str(unknown[0])[:40]!a} is not followed",
                hint=f"known are {', '.join(sorted(_FIELDS - {'model'}))}",
                place=where,
            )
        method: Any = given.get("method")
        tokens: Any = given.get("num_speculative_tokens")
        if method not in get_args(DraftMethod):
            raise KvtoolError(
                f"{written} names no method that is known",
                hint=f"one of {', '.join(get_args(DraftMethod))}",
                place=where,
            )
        if not isinstance(tokens, int) or isinstance(tokens, bool) or not 1 <= tokens <= 64:
            raise KvtoolError(f"{written}: num_speculative_tokens is a number from 1 to 64", hint=shape, place=where)
        return Speculation(
            method=method,
            tokens=tokens,
            disable_lookahead_block_hashes=given.get("disable_lookahead_block_hashes") is True,
            disable_eagle_block_drop=given.get("disable_eagle_block_drop") is True,
        )

    def _value(self, name: str) -> object:
        flag = getattr(self._flags.rule_flags, name)
        return getattr(self._asked, name) if flag is None else flag

    def _written(self, name: str) -> str:
        return f"--{name.replace('_', '-')}" if self._place(name) is None else f"`{name}`"
