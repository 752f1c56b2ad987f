"""Find a served model: by the name of a preset, its repository, a folder or a config.json."""

from __future__ import annotations

from difflib import get_close_matches

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.model_config import CONFIG_FILE
from kvtool.engine.model.configs.presets import PRESETS, config_file, plain_preset, preset_key
from kvtool.engine.model.configs.served_model import ServedModel, plain_model

# The reader of config.json is imported on demand, so that commands with a plain preset start fast.


def preset_sources() -> dict[str, str]:
    """Return every preset with the repository that has its figures."""
    from kvtool.engine.model.configs.served_presets import SERVED_PRESETS

    own = {name: config.source for name, config in PRESETS.items()}
    return own | {_preset_name(repository): repository for repository in SERVED_PRESETS}


def _preset_name(repository: str) -> str:
    from kvtool.engine.model.configs.served_presets import PRESET_NAMES

    return PRESET_NAMES.get(repository, preset_key(repository))


def find_served(name: str) -> ServedModel:
    """Return a model by its folder or config.json, by the name of a preset, or by the id of its repository."""
    if (file := config_file(name)) is not None:
        from kvtool.engine.model.configs.served_config import read_served_model

        return read_served_model(file, file.absolute().parent.name)
    if (plain := plain_preset(name)) is not None:
        return plain_model(Geometry.of(plain), plain.source)
    return _served_preset(name)


def _served_preset(name: str) -> ServedModel:
    """Find a preset by its name, its repository, or the beginning of its name that no other preset has (`qwen3-235b`)."""
    from kvtool.engine.model.configs.served_config import served_of
    from kvtool.engine.model.configs.served_presets import ALIASES, SERVED_PRESETS

    key = preset_key(name)
    known = preset_sources()
    begun = [preset for preset in known if preset.startswith(f"{key}-")] if "-" in key else []
    if len(begun) == 1 and key not in known:
        return find_served(begun[0])
    key = ALIASES.get(key, key)
    for repository, config in SERVED_PRESETS.items():
        if key in (_preset_name(repository), preset_key(repository)):
            return served_of(config, _preset_name(repository), repository)
    close = begun or get_close_matches(key, [*known, *ALIASES], n=1)
    raise EngineError(
        f"unknown model `{ascii(name[:80])[1:-1]}`" + (f"; did you mean {' or '.join(close)}?" if close else ""),
        hint=f"one of {', '.join(known)}, or a folder with a {CONFIG_FILE}",
    )
