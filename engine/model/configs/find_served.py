"""Find a served model: by the name of a preset, its repository, a folder or a config.json."""

from __future__ import annotations

from dataclasses import replace

from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.json_object import JsonObject
from kvtool.engine.model.configs.presets import (
    PRESETS,
    ServedName,
    config_file,
    name_words,
    nearest,
    plain_preset,
    preset_key,
    read_name,
    unknown_model,
)
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
    found = find_preset(name)
    if found is not None:
        return found
    known, key = preset_sources(), preset_key(name)
    begun = [preset for preset in known if preset.startswith(f"{key}-")] if "-" in key else []
    if len(begun) == 1 and (found := find_preset(begun[0])) is not None:
        return found
    raise unknown_model(name, begun or nearest(name, known))


def find_preset(name: str) -> ServedModel | None:
    """Return the preset of a name as servers and logs write it, with its quantization; None where no single one has it.

    No file is read, whatever the name is. A beginning of a preset's name will do where it has a number of parameters
    (`qwen3-235b`) and no other preset begins so.
    """
    if (plain := plain_preset(name)) is not None:
        return plain_model(Geometry.of(plain), plain.source)
    from kvtool.engine.model.configs.served_presets import ALIASES

    wanted = read_name(name)
    names = {words: preset for preset, source in preset_sources().items() for words in name_words(preset, source)}
    names |= {read_name(alias).words: preset for alias, preset in ALIASES.items()}
    preset = names.get(wanted.words)
    if preset is None and wanted.has_size:
        size = len(wanted.words)
        begun = {other for words, other in names.items() if words[:size] == wanted.words}
        preset = begun.pop() if len(begun) == 1 else None
    return None if preset is None else _quantized(preset, wanted)


def _quantized(preset: str, wanted: ServedName) -> ServedModel:
    """Return a preset with the quantization of its name."""
    from kvtool.engine.model.configs.served_config import served_of
    from kvtool.engine.model.configs.served_presets import SERVED_PRESETS
    from kvtool.engine.model.configs.weight_count import WeightCount, bits_of_weights

    method = wanted.quantization
    name = preset if method is None else f"{preset}-{method}"
    settings: dict[str, object] = {"quant_method": method, "bits": wanted.bits}
    if preset in PRESETS:
        plain, geometry = PRESETS[preset], Geometry.of(PRESETS[preset])
        if method is None:
            return plain_model(geometry, plain.source)
        matrices = geometry.num_layers * geometry.layer_parameters
        bits, expert_bits, note = bits_of_weights(JsonObject(settings))
        counted = WeightCount(
            embeddings=geometry.parameters - matrices - geometry.vector_parameters,
            matrices=matrices,
            experts=0,
            vectors=geometry.vector_parameters,
            active=matrices,
            bits=bits,
            expert_bits=expert_bits,
            note=note,
        )
        return plain_model(replace(geometry, name=name, counted=counted), plain.source)
    repository = preset_sources()[preset]
    config = SERVED_PRESETS[repository]
    published = config.get("quantization_config", {})
    if method is None or method == published.get("quant_method"):
        return served_of(config, preset, repository)
    return served_of({**config, "quantization_config": settings}, name, repository)
