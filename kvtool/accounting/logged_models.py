"""The models that requests of a log name: their sizes and their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from kvtool.accounting.served_cache import ServedCache
from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.model_plan import ServeOptions
from kvtool.engine.model.configs.find_served import find_preset, find_served
from kvtool.engine.model.configs.model_config import CONFIG_FILE
from kvtool.engine.model.configs.presets import model_path, read_name
from kvtool.engine.model.configs.served_model import ServedModel
from kvtool.engine.prediction.latency import LatencyModel

_MOST_FOLDERS = 200
"""Folders beside a tokenizer that are read: one with models has a few."""


@dataclass(slots=True)
class LoggedModels:
    """Finds models by the names that a log writes: a config.json in a folder of that name, else a preset.

    A name of a log is never used as a path. `folder` is the user's tokenizer: a folder, a file or the id of a repository.
    """

    folder: str | None = None
    _found: dict[str, ServedModel | None] = field(default_factory=dict, repr=False)

    def find(self, name: str) -> ServedModel | None:
        """Return the model of a name; None where it is unknown."""
        if name not in self._found:
            self._found[name] = self._in_folder(name) or find_preset(name)
        return self._found[name]

    def key(self, name: str) -> str:
        """Return one name for all names of a model."""
        found = self.find(name)
        return name if found is None else found.name

    def latency(self, name: str, usual: LatencyModel, kv_cache_dtype: str) -> LatencyModel | None:
        """Return the times of a model on the machine of `usual`; None where they are unknown."""
        found, size = self.find(name), self.token_bytes(name, kv_cache_dtype, usual.tensor_parallel)
        if found is None or size is None:
            return None
        if found.geometry == usual.geometry:
            return usual
        try:
            return replace(usual, geometry=found.geometry, kv_token_bytes=size)
        except EngineError:  # it cannot be cut for so many accelerators
            return None

    def token_bytes(self, name: str, kv_cache_dtype: str, tensor_parallel: int = 1) -> int | None:
        """Return keys and values of a token in all layers; None where they are unknown."""
        found = self.find(name)
        if found is None:
            return None
        options = ServeOptions(kv_cache_dtype=kv_cache_dtype, tensor_parallel=tensor_parallel)
        try:
            return ServedCache.of(found, options).token_bytes
        except EngineError:  # vLLM would not start so
            return None

    @property
    def own_folder(self) -> str | None:
        """Return the user's tokenizer where a model's config.json is beside it."""
        path = model_path(self.folder or "")
        return self.folder if self.folder and (path / CONFIG_FILE).is_file() else None

    def _in_folder(self, name: str) -> ServedModel | None:
        wanted = read_name(name)
        for folder in self._folders():
            if read_name(str(folder)) == wanted and wanted.words:
                try:
                    return find_served(str(folder))
                except EngineError:
                    continue
        return None

    def _folders(self) -> Iterator[Path]:
        """Return the folders with a config.json: that of the tokenizer, and those in it."""
        if self.folder is None:
            return
        path = model_path(self.folder)
        try:
            path = (path.parent if path.is_file() else path).absolute()
            inner = sorted(path.iterdir())[:_MOST_FOLDERS] if path.is_dir() else []
            yield from (each for each in (path, *inner) if (each / CONFIG_FILE).is_file())
        except OSError:
            return
