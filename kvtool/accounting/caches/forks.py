"""Find settings of a request that select another cache of a provider, though the text is the same."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from kvtool.accounting.caches.breakpoints import ContentBlocks
from kvtool.accounting.prefix_tree import Ids
from kvtool.workload.call import CallSettings

if TYPE_CHECKING:
    from kvtool.accounting.caches.providers import Provider

_PLAIN = CallSettings()


@dataclass(frozen=True, slots=True)
class Forks:
    """Places in a prompt at which its settings part it from the same text with others: rising, with a value at each."""

    places: tuple[int, ...] = ()
    values: tuple[int, ...] = ()

    def parted(self, ids: Ids) -> Ids:
        """Return the tokens with each value in its place."""
        if not self.places:
            return ids
        return np.insert(ids, self.places, np.asarray(self.values, np.int32))

    def there(self, length: int) -> int:
        """Return the length among the forked tokens of a beginning of the prompt."""
        return length + bisect_left(self.places, length)

    def back(self, length: int) -> int:
        """Return the length in the prompt of a beginning of the forked tokens."""
        return length - sum(place + number < length for number, place in enumerate(self.places))


def find_forks(settings: CallSettings, provider: Provider, blocks: ContentBlocks) -> Forks:
    """Return the places where settings fork a prompt: after its tools, after its system text, or both."""
    if settings is _PLAIN or not (provider.fork_system or provider.fork_messages):
        return Forks()
    found = []
    for place, names in ((blocks.tools_end, provider.fork_system), (blocks.lead_end, provider.fork_messages)):
        value = settings_digest(settings, names)
        if value:
            found.append((place, -1 - value))
    return Forks(tuple(place for place, _ in found), tuple(value for _, value in found))


def settings_digest(settings: CallSettings, names: tuple[str, ...]) -> int:
    """Return 30 bits that identify these settings; 0 without any."""
    said = [(name, value) for name in names if (value := setting_of(settings, name))]
    if not said:
        return 0
    return xxhash.xxh32_intdigest(repr(said).encode(errors="surrogatepass")) >> 3 or 1


def setting_of(settings: CallSettings, name: str) -> object:
    """Return what two requests must have in common of a setting: not how many images they send, but whether they send any."""
    value: object = getattr(settings, name)
    return bool(value) if name == "images" else value
