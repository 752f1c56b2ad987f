"""Reads what a group refers to (files, templates, tools, logs) and tries each of its templates once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kvtool.errors import KvtoolError, Place
from kvtool.results.choices import OnBadLine
from kvtool.text.files.json_file import json_of
from kvtool.text.files.yaml_document import Path
from kvtool.text.traced import Origin, Traced
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.yaml.draws import Key
from kvtool.workload.yaml.fields import Tools
from kvtool.workload.yaml.groups import (
    Common,
    Content,
    GenerateGroup,
    GroupSource,
    ImportGroup,
    PromptGroup,
    SessionGroup,
)
from kvtool.workload.yaml.load_state import Loading
from kvtool.workload.yaml.schema import GroupSpec, Import, TextSource, Workload
from kvtool.workload.yaml.variables import Drawn, Moment, VariableValues, load_variables
from kvtool.workload.yaml.workload_texts import Template, Texts, find_files, load_template, load_texts


class GroupLoader:
    """Makes the sources of a workload's groups; mistakes are noted in `loading`."""

    def __init__(
        self,
        loading: Loading,
        spec: Workload,
        shared: Mapping[str, Drawn],
        *,
        untimed: float | None,
        on_bad_line: OnBadLine = "error",
    ) -> None:
        """`on_bad_line` is for imported logs of which the workload does not say it."""
        self._loading = loading
        self._on_bad_line = on_bad_line
        self._shared = shared
        self._untimed = untimed
        self._tools = self._load_tools(spec.tools, ("tools",))

    def load(self, spec: GroupSpec, number: int, first: Moment) -> GroupSource:
        """The source of a group whose first request and session have the numbers in `first`."""
        at: Path = ("groups", number)
        loading = self._loading
        own = load_variables(spec.vars, loading, (*at, "vars"), spec.name)
        values = VariableValues({**self._shared, **own})
        tenant = load_template(spec.tenant, loading) if spec.tenant is not None else None
        output = load_template(spec.output, loading, raw=spec.raw) if spec.output is not None else None
        content = self._content(spec, at)
        tools = self._load_tools(spec.tools, (*at, "tools")) if spec.tools is not None else self._tools
        used = self._try(content, [template for template in (tenant, output) if template], values, first)
        place = loading.place(at)
        written = (place.path, place.line, place.column)
        common = Common(spec, loading.seed, values.only(used), tenant, first, self._untimed, written)
        if spec.generate is not None:
            return GenerateGroup(common, spec.generate)
        if spec.import_ is not None:
            return ImportGroup(common, self._logs(spec.import_, (*at, "import"), spec.name))
        if spec.sessions is not None:
            place = loading.place((*at, "sessions"), key=True)
            origin = Origin(place.path, place.line or 1, place.column or 1)
            return SessionGroup(common, content, spec.sessions, tools, output, origin)
        count = spec.requests or (len(content.texts()[0].choices) if spec.glob is not None and content.texts() else 1)
        return PromptGroup(common, content, count, tools if content.messages is not None else None, output)

    def _content(self, spec: GroupSpec, at: Path) -> Content:
        loading = self._loading
        seen: Counter[str] = Counter()

        def texts(source: TextSource, where: Path, part: str, stable: bool | None) -> Texts:
            pattern = "" if source.glob is None else str.__str__(source.glob)
            key: tuple[Key, ...] = (loading.seed, "pick", spec.name, pattern, seen[pattern])
            seen[pattern] += 1
            with loading.guard():
                return load_texts(source, loading, where, part, key, stable=stable)
            return Texts([Template(loading.document, Traced(""))], None)

        if spec.messages is not None:
            return Content(
                messages=[
                    (part, texts(part, (*at, "messages", index), f"messages[{index}] ({part.role})", part.asserted))
                    for index, part in enumerate(spec.messages)
                ]
            )
        if spec.segments is not None:
            segments = [
                texts(part, (*at, "segments", index), part.id or f"segments[{index}]", part.asserted)
                for index, part in enumerate(spec.segments)
            ]
            return Content(segments=segments, join=spec.join)
        if spec.generate is not None or spec.import_ is not None:
            return Content()
        return Content(segments=[texts(spec, at, "prompt", None)])

    def _try(self, content: Content, others: list[Template], values: VariableValues, first: Moment) -> frozenset[str]:
        """Render every template once, so that a mistake in it is said before any work; the variables that they use."""
        templates = [choice for texts in content.texts() for choice in texts.choices] + others
        known: dict[str, object] = {}
        with self._loading.guard():
            known = values.at(first)
        for template in templates:
            with self._loading.guard():
                template.render(known)
        return frozenset[str]().union(*(template.variables for template in templates))

    def _load_tools(self, tools: Tools | None, at: Path) -> list[object] | None:
        if tools is None or tools.file is None:
            return None if tools is None else tools.schemas
        with self._loading.guard():
            shown, text = self._loading.read(tools.file, (*at, "file"))
            return _tools_of(text, shown)
        return None

    def _logs(self, spec: Import, at: Path, group: str) -> LogSource:
        kind, pattern = next(
            (kind, pattern)
            for kind, pattern in (
                ("jsonl", spec.jsonl),
                ("json", spec.json_),
                ("txt", spec.txt),
                ("mooncake", spec.mooncake),
            )
            if pattern is not None
        )
        paths = [self._loading.resolve(name) for name in find_files(pattern, self._loading, (*at, kind))]
        options = LogOptions(
            on_bad_line=spec.on_bad_line or self._on_bad_line,
            trace_block_size=spec.block_size or LogOptions.trace_block_size,
            limit=spec.limit,
            format=spec.format or {"txt": "text", "mooncake": "mooncake"}.get(kind),
        )
        try:
            return LogSource(paths, options, lambda _: group)
        except KvtoolError as error:
            place = self._loading.place((*at, "format" if spec.format else kind))
            raise KvtoolError(error.message, hint=error.hint, place=error.place or place) from error


def _tools_of(text: str, shown: str) -> list[object]:
    data = json_of(text, shown=shown)
    if isinstance(data, dict) and isinstance(data.get("tools"), list):
        data = data["tools"]
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise KvtoolError("expected a list of function schemas", place=Place(shown, 1, 1))
    return data
