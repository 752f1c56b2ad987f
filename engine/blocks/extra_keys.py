"""Other inputs of block hashes than tokens: adapters, images, salts, embeddings; tagged and in order, as in vLLM."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from kvtool.engine.blocks.block_keys import ExtraKey, ExtraKeys

if TYPE_CHECKING:
    from kvtool.engine.request import Request


def content_keys(request: Request, start: int, stop: int) -> tuple[ExtraKeys, ExtraKeys]:
    """Return the prompt's own keys of the tokens in [start, stop): its images and its embeddings."""
    images = tuple(
        ("mm", image.id, image.offset - start)
        for image in request.images
        if image.offset < stop and start < image.offset + image.length
    )
    if request.prompt_embeds is None:
        return images, ()
    rows = np.ascontiguousarray(request.prompt_embeds[start:stop])
    return images, (("prompt_embeds", hashlib.sha256(rows.tobytes()).digest()),)


def extra_keys(request: Request, start: int, stop: int) -> ExtraKeys:
    """Return all extra keys of a block that begins at token `start`, with a hash of the tokens up to `stop`."""
    lora, salt = request.lora, request.cache_salt
    images, embeds = content_keys(request, start, stop)
    return (
        *([("lora", lora.name, lora.path)] if lora is not None else []),
        *images,
        *([("cache_salt", salt)] if salt and start == 0 else []),
        *embeds,
    )


def untagged(key: ExtraKey) -> object:
    """Return a key as vLLM's events have it: without its tag and an adapter's path; a digest in hexadecimal digits."""
    name, *rest = key[1:]
    if key[0] == "mm":
        return [name, *rest]
    return name.hex() if isinstance(name, bytes) else name
