"""Which requests of a log a server can have had, by the models that they name."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvtool.accounting.hosted_models import is_hosted
from kvtool.accounting.logged_models import LoggedModels
from kvtool.workload.turn import Turn


@dataclass(frozen=True, slots=True)
class ServedModels:
    """The `names` under which servers have their models."""

    names: frozenset[str]
    _models: LoggedModels = field(default_factory=LoggedModels)

    def may_serve(self, turn: Turn) -> bool:
        """Return whether a request can have been for one of these: it does not name an API's model, nor weights that are known to
        be others. A name that nobody knows may be an alias or an adapter."""
        name = turn.call.model
        if name is None or any(name == own or name.endswith(f"/{own}") for own in self.names):
            return True
        if is_hosted(turn.call):
            return False
        weights = self._models.find(name)
        served = [self._models.find(own) for own in self.names]
        return weights is None or any(each is None or each.name == weights.name for each in served)
