"""Finding a model as it is served: by the name of a preset, its repository, a folder or a config.json."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.geometry import Geometry
from kvtool.engine.model.model_config import CONFIG_FILE
from kvtool.engine.model.presets import PRESETS, model_path, preset_key
from kvtool.engine.model.served_config import read_served_model, served_of
from kvtool.engine.model.served_model import ServedModel, plain_model
from kvtool.engine.model.served_presets import PRESET_NAMES, SERVED_PRESETS, SHORT_NAMES


def preset_sources() -> dict[str, str]:
    """Every preset with the repository that has its figures."""
    own = {name: config.source for name, config in PRESETS.items()}
    return own | {_preset_name(repository): repository for repository in SERVED_PRESETS}


def _preset_name(repository: str) -> str:
    return PRESET_NAMES.get(repository, preset_key(repository))


def find_served(name: str) -> ServedModel:
    """A model by its folder or config.json, by the name of a preset, or by the id of its repository."""
    if (file := config_file(name)) is not None:
        return read_served_model(file, file.absolute().parent.name)
    return find_preset(name)


def find_preset(name: str) -> ServedModel:
    """A preset by its name or repository."""
    key = preset_key(name)
    key = SHORT_NAMES.get(key, key)
    for repository, config in SERVED_PRESETS.items():
        if key in (_preset_name(repository), preset_key(repository)):
            return served_of(config, _preset_name(repository), repository)
    for own, plain in PRESETS.items():
        if key in (own, preset_key(plain.source)):
            return plain_model(Geometry.of(plain), plain.source)
    known = [*preset_sources(), *SHORT_NAMES]
    close = get_close_matches(key, known, n=1)
    raise EngineError(
        f"unknown model `{ascii(name[:80])[1:-1]}`" + (f"; did you mean {close[0]}?" if close else ""),
        hint=f"one of {', '.join(preset_sources())}, or a folder with a {CONFIG_FILE}",
    )


def config_file(name: str) -> Path | None:
    """The config.json that a name is, or that the folder of that name has; None where it is the name of a preset."""
    path = model_path(name)
    if name and path.is_dir():
        if not (path / CONFIG_FILE).is_file():
            raise EngineError(f"{name}: the folder has no {CONFIG_FILE}")
        return path / CONFIG_FILE
    if name and path.suffix == ".json" and path.is_file():
        return path
    if path.suffix == ".json" or name.startswith((".", "/", "~")):
        raise EngineError(f"{name}: no such file or folder")
    return None
