"""Finding the geometry of a model without reading what only its server needs."""

from __future__ import annotations

from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.presets import config_file, plain_preset


def find_geometry(name: str) -> Geometry:
    """Return the geometry of a preset, folder or config.json, named as for `find_served`."""
    if config_file(name) is None and (plain := plain_preset(name)) is not None:
        return Geometry.of(plain)
    from kvtool.engine.model.configs.find_served import find_served  # it takes long to import

    return find_served(name).geometry
