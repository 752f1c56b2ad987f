"""The model whose sizes and times a run reports: the user's, else the log's, else the default."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kvtool.accounting.logged_models import LoggedModels
from kvtool.accounting.plan import ModelSource, Plan
from kvtool.config.command_line import flags
from kvtool.engine.config import DEFAULT_MODEL
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.served_model import ServedModel
from kvtool.errors import KvtoolError
from kvtool.profiler.run.run_books import ModelSums
from kvtool.text.terminal.numbers import plural, size
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.workload.logs.logs import LogSource
    from kvtool.workload.yaml.yaml_source import YamlSource

_MOST_SHOWN = 60
"""Characters of a name that messages show."""
_MOST_NAMED = 6
"""Models of a log that a message names."""
_NAMELESS = "no model named"
_HINT = "give --model NAME or config.json"


@dataclass(frozen=True)
class RunModel:
    """The user's model or a server's (`given`), and the names in a log's first requests, which `models` finds."""

    given: str | None
    names: tuple[str, ...]
    models: LoggedModels
    of_server: bool = False

    @classmethod
    def of(cls, given: str | None, server: str | None, turns: Sequence[Turn], folder: str | None) -> RunModel:
        """Read the models of a log's first requests; `folder` is the tokenizer that is given."""
        names = dict.fromkeys(turn.call.model for turn in turns if turn.call.model)
        return cls(given or server, tuple(names), LoggedModels(folder), of_server=given is None and server is not None)

    @cached_property
    def source(self) -> ModelSource:
        """Return who names the model."""
        if self.given is not None:
            return "server" if self.of_server else "given"
        if not self.names:
            return "assumed"
        return "unknown" if self.logged is None else "log"

    @cached_property
    def logged(self) -> ServedModel | None:
        """Return the one model that the log names; None where there are several, or it is unknown."""
        keys = {self.models.key(name) for name in self.names}
        return self.models.find(self.names[0]) if len(keys) == 1 else None

    @property
    def name(self) -> str | None:
        """Return the name of the model; None where nobody names one that is known."""
        return self.given or (None if self.source != "log" or self.logged is None else self.logged.name)

    def served(self) -> ServedModel:
        """Return the model that is named."""
        from kvtool.engine.model.configs.find_served import find_served

        if self.given is not None:
            return find_served(self.given)
        assert self.logged is not None
        return self.logged

    @property
    def geometry(self) -> Geometry:
        """Return its geometry; of an unknown one that of the default, for a clock that needs one."""
        if self.given is None and self.source == "log":
            return self.served().geometry
        return find_geometry(self.given or DEFAULT_MODEL)

    def notes(self, *, with_tokens: bool) -> list[str]:
        """Say that the log's model is unknown, or another than the user's, how its weights are stored and, `with_tokens`, which
        tokenizer counts as it does.
        """
        if self.source == "unknown":
            unknown = [f"{self.why_unknown}: {self.hint} for memory and TTFT"] if len(self.names) == 1 else []
            if not with_tokens or self.models.folder is not None:
                return unknown
            tokens = "tokens" if len(self.names) == 1 else "all models' tokens"
            return [*unknown, f"{tokens} are counted by the built-in tokenizer; -t sets another"]
        if self.source == "given" and (others := self._contradicting()):
            return [f"{shown_names([str(self.given)])} is used, as given; the log names {shown_names(others)}"]
        if self.source != "log" or self.logged is None:
            return []
        name, counted = self.logged.name, self.logged.geometry.counted
        stored = [] if counted is None or counted.note is None else [f"{name}: {counted.note}; TTFT is for 16 bits"]
        if not with_tokens or self.models.folder is not None:
            return stored
        return [*stored, f"Tokens: built-in tokenizer. For exact counts of {name}, add -t {self.logged.source}"]

    @property
    def hint(self) -> str:
        """Return what gives the model."""
        own = self.models.own_folder
        return _HINT if own is None else f"give --model {own}"

    @property
    def why_unknown(self) -> str:
        """Return why sizes and times are unknown, without a full stop."""
        if len(self.names) > 1:
            return f"the log names {plural(len(self.names), 'model')} ({shown_names(self.names)})"
        return f"model {shown_names(self.names)} is unknown"

    def scope_of(self, turn: Turn) -> str | None:
        """Return the cache of a request that names another model than the log's first: models share no KV."""
        name = turn.call.model
        if not name or self.models.key(name) == self.models.key(self.names[0]):
            return None
        return f"model {self.models.key(name)}"

    def check_known(self, what: str, source: YamlSource | LogSource) -> None:
        """Raise KvtoolError where `what` needs the size of a model and it is unknown. `source` has the requests."""
        if self.source == "unknown":
            from kvtool.workload.logs.groups.grouping import name_of_value
            from kvtool.workload.logs.groups.model_field import model_field
            from kvtool.workload.logs.logs import LogSource

            known = next((name for name in self.names if self.models.find(name) is not None), None)
            field = model_field(source) if known is not None and isinstance(source, LogSource) else None
            hint = self.hint + (", or profile the requests of one model" if len(self.names) > 1 else "")
            if known is not None and field is not None:
                hint = f"add {shlex.join(flags(group_by=field, groups=[name_of_value(known)]))}, or {self.hint}"
            raise KvtoolError(f"{what} needs a model's size; {self.why_unknown}", hint=hint)

    def _contradicting(self) -> list[str]:
        found = {name: self.models.find(name) for name in self.names}
        own = self.geometry
        return [name for name, model in found.items() if model is not None and _shape(model.geometry) != _shape(own)]


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """Memory of the KV cache by the models that the requests of a run name.

    `one`: all requests have the plan's model. `reused_bytes` is None where the size of any model is unknown.
    """

    one: bool
    reused_bytes: int | None
    notes: list[str]

    @classmethod
    def of(cls, sums: Mapping[str | None, ModelSums], plan: Plan) -> ModelSizes:
        """Add up the requests of a run by the model that they name."""
        models = plan.models
        own = plan.model_name
        by_key: dict[str, ModelSums] = {}
        sizes: dict[str, float | None] = {}
        for name, sum_ in sums.items():
            key = (own or _NAMELESS) if name is None or models is None else models.key(name)
            total = by_key.setdefault(key, ModelSums())
            total.requests += sum_.requests
            total.hit_tokens += sum_.hit_tokens
            sizes[key] = plan.token_bytes_of(name)
        reused = [None if sizes[key] is None else sum_.hit_tokens * (sizes[key] or 0) for key, sum_ in by_key.items()]
        known = [each for each in reused if each is not None]
        several = len(by_key) > 1
        return cls(
            one=plan.sized and not several,
            reused_bytes=int(sum(known)) if len(known) == len(reused) else None,
            notes=[_models_note(by_key, sizes)] if several and models is not None else [],
        )


def _models_note(sums: Mapping[str, ModelSums], sizes: Mapping[str, float | None]) -> str:
    """Say which models answer how many requests, and what a token of each takes."""
    ordered = sorted(sums, key=lambda key: (-sums[key].requests, key))
    shown = []
    for key in ordered[:_MOST_NAMED]:
        bytes_ = sizes[key]
        told = "size unknown" if bytes_ is None else f"{size(bytes_)} of KV a token"
        shown.append(f"{key[:_MOST_SHOWN]} {plural(sums[key].requests, 'request')} ({told})")
    rest = [f"{len(ordered) - _MOST_NAMED} more"] if len(ordered) > _MOST_NAMED else []
    return f"models: {', '.join([*shown, *rest])}"


def shown_names(names: Sequence[str]) -> str:
    """Return some names for a message."""
    rest = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return ", ".join([*(name[:_MOST_SHOWN] for name in names[:_MOST_NAMED]), *rest])


def _shape(geometry: Geometry) -> tuple[int, ...]:
    """Return the sizes that quantization leaves as they are."""
    return geometry.num_layers, geometry.hidden_size, geometry.num_kv_heads, geometry.head_dim, geometry.vocab_size
