"""Where the placeholders of a template stand in its file."""

from __future__ import annotations

from kvtool.lint.skeleton import TemplatePlace
from kvtool.text.traced import Traced
from kvtool.text.traced_places import TracedPlaces


class TemplatePlaces:
    """The places of a template's parts; all of it stands in a file."""

    def __init__(self, text: Traced) -> None:
        self._places = TracedPlaces(text)

    def at(self, start: int, stop: int) -> TemplatePlace:
        """The place of `text[start:stop]`, as wide as it is on its first line."""
        origin, line, column = self._places.position(start)
        assert origin is not None
        _, last, end = self._places.position(max(stop - 1, start))
        return TemplatePlace(origin.path, line, column, max(end - column + 1, 1) if last == line else stop - start)
