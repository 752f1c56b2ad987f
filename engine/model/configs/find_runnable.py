"""Find a model that has a forward pass; kvtool plans and accounts for many more models."""

from __future__ import annotations

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.find_served import find_served
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.configs.presets import config_file, find_model

_HINT = "use profile --dry-run, which needs no forward pass"


def find_runnable(name: str) -> ModelConfig:
    """Return the model by what `find_model` takes; EngineError where it has no forward pass, even if kvtool can account for it."""
    try:
        return find_model(name)
    except EngineError as error:
        try:
            served = find_served(name)
        except EngineError:
            raise error from None
        if config_file(name) is None:
            raise EngineError(
                f"{served.name} is a preset for accounting only, without a forward pass",
                hint=f"{_HINT}; or pass a folder with the model's config.json",
            ) from error
        raise EngineError(
            f"{error.message}: the model is for accounting only", hint="; ".join(filter(None, [error.hint, _HINT]))
        ) from error


def is_runnable(name: str) -> bool:
    """Return whether `find_runnable` finds the model."""
    try:
        find_runnable(name)
    except EngineError:
        return False
    return True
