"""Make weights from a seed: for a model in memory only, and for a geometry without weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch

from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.parameter_shapes import parameter_shapes

_POOL = 4_194_301
"""Numbers in the pool, a prime, so that the rows of a larger weight do not repeat."""


class RandomWeights(Mapping[str, torch.Tensor]):
    """A state dict that makes tensors on demand, equal for a seed on every device.

    All are cut from one pool of normal numbers, which is many times as fast as drawing each. Projections keep the scale of their
    input, and embeddings are small beside them: with tied embeddings a model would otherwise repeat its last token for ever.
    """

    def __init__(
        self,
        config: ModelConfig,
        seed: int = 0,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._shapes = parameter_shapes(config)
        random = torch.Generator().manual_seed(seed)
        self._pool = torch.empty(_POOL).normal_(generator=random).to(device)
        self._dtype = dtype
        self._centred_norms = config.traits.centred_norms
        self._scaled: dict[float, torch.Tensor] = {}  # the pool for each standard deviation, of which there are few
        starts = torch.randint(_POOL, (len(self._shapes),), generator=random).tolist()
        self._start = dict(zip(self._shapes, starts, strict=True))

    def __len__(self) -> int:
        return len(self._shapes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __getitem__(self, name: str) -> torch.Tensor:
        shape = self._shapes[name]
        if name.endswith("norm.weight"):
            return self._pool.new_full(shape, 0.0 if self._centred_norms else 1.0, dtype=self._dtype)
        small = len(shape) == 1 or name == "model.embed_tokens.weight"
        pool = self._normal(0.02 if small else shape[1] ** -0.5)
        start, count = self._start[name], math.prod(shape)
        if start + count > _POOL:  # around its end, as often as needed
            pool = pool.repeat(-(-(start + count) // _POOL))
        return pool[start : start + count].view(shape)

    def _normal(self, std: float) -> torch.Tensor:
        if std not in self._scaled:
            self._scaled[std] = (self._pool * std).to(self._dtype)
        return self._scaled[std]
