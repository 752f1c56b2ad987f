"""Workload files as sources of conversations: read, validated and tried once, then rendered as requests are asked for."""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path as FilePath

from kvtool.errors import KvtoolError, Place
from kvtool.results.choices import OnBadLine
from kvtool.text.files.json_file import json_of
from kvtool.text.files.text_files import Overlay
from kvtool.text.files.yaml_document import Path, YamlDocument, load_yaml
from kvtool.text.traced import Origin, Traced
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.turn import Conversation
from kvtool.workload.yaml.fields import KnownCodes, Tools
from kvtool.workload.yaml.groups import (
    Common,
    Content,
    GenerateGroup,
    GroupSource,
    ImportGroup,
    OrderedTools,
    PromptGroup,
    SessionGroup,
)
from kvtool.workload.yaml.load_state import Key, Loading
from kvtool.workload.yaml.schema import EngineOptions, GroupSpec, Import, TextSource, Workload
from kvtool.workload.yaml.validate import did_you_mean, raise_problems, validate
from kvtool.workload.yaml.variables import Drawn, Moment, VariableValues, load_variables
from kvtool.workload.yaml.workload_texts import Template, Texts, find_files, load_template, load_texts

_FILES_OF_THE_WORKLOAD = ("tokenizer", "chat_template", "model")


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
        """Return the source of a group whose first request and session have the numbers in `first`."""
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
        return PromptGroup(common, content, count, tools if content.messages is not None else OrderedTools(), output)

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
        if any(template.any_variable for template in templates):
            return frozenset(known)
        return frozenset[str]().union(*(template.variables for template in templates))

    def _load_tools(self, tools: Tools | None, at: Path) -> OrderedTools:
        if tools is None:
            return OrderedTools()
        schemas: list[object] | None = tools.schemas
        if tools.file is not None:
            with self._loading.guard():
                shown, text = self._loading.read(tools.file, (*at, "file"))
                schemas = _tools_of(text, shown)
        return OrderedTools(schemas, tools.orders, self._loading.seed)

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


@dataclass(frozen=True, slots=True, eq=False)
class YamlSource:
    """A workload file. `engine` is what it asks of the engine; `spec` the whole of it; `document` its YAML with places; `overlay`
    has the texts that were read in place of files; `allow_outside` says that it may name files anywhere."""

    path: str
    spec: Workload
    engine: EngineOptions
    seed: int
    document: YamlDocument
    groups: tuple[GroupSource, ...]
    overlay: Overlay | None = None
    allow_outside: bool = False

    @property
    def requests(self) -> int | None:
        """Return how many requests there are; None where a log has to be read to know."""
        total = 0
        for group in self.groups:
            if group.requests is None:
                return None
            total += group.requests
        return total

    @property
    def skipped(self) -> int:
        """Return the number of bad lines of imported logs that the last pass left out."""
        return sum(group.skipped for group in self.groups if isinstance(group, ImportGroup))

    @property
    def timed(self) -> bool:
        """Return whether requests have arrival times of their own (not those that a log may bring)."""
        return _timed(self.spec)

    @property
    def untimed(self) -> list[str]:
        """Return the groups without arrival times in a workload where others have some."""
        if not self.timed:
            return []
        named = {group.name for group in self.groups}
        return [
            group.name
            for group in self.spec.groups
            if group.name in named and group.arrival is None and group.import_ is None
        ]

    def select(self, names: Sequence[str]) -> YamlSource:
        """Return the same workload with only these groups; KvtoolError for one that it does not have."""
        known = [group.name for group in self.groups]
        for name in names:
            if name not in known:
                raise KvtoolError(f"{self.path} has no group `{name}`", hint=did_you_mean(name, known))
        return replace(self, groups=tuple(group for group in self.groups if group.name in names))

    def conversations(self) -> Iterator[Conversation]:
        """Yield the conversations in the order of the file or, where requests have arrival times, in that of their first turns;
        each pass the same."""
        streams = [group.timed() for group in self.groups]
        if self.timed:
            return (conversation for _, conversation in heapq.merge(*streams, key=itemgetter(0)))
        return (conversation for stream in streams for _, conversation in stream)


def load_yaml_workload(
    path: str,
    *,
    seed: int | None = None,
    default_seed: int | None = None,
    on_bad_line: OnBadLine = "error",
    overlay: Overlay | None = None,
    codes: KnownCodes | None = None,
    allow_outside: bool = False,
) -> YamlSource:
    """Read a workload file; KvtoolError or, for several mistakes, ProblemsError.

    `seed` overrides the file's, `default_seed` is for a file that says none; `on_bad_line` is for imported logs of which the file
    does not say it; `overlay` has changed texts, by the real paths of the files (the workload, prompts, tools, data; not logs) in
    whose place they are read; `codes` are those that gates may name (None: any of that shape). What it names must lie in
    its repository or, without one, its folder, unless `allow_outside`.
    """
    document = load_yaml(path, overlay)
    spec = validate(document, codes)
    if seed is None:
        seed = spec.seed if default_seed is None or "seed" in spec.model_fields_set else default_seed
    loading = Loading(
        document,
        seed,
        overlay=overlay,
        allow_outside=allow_outside,
        filters=frozenset(spec.filters),
        tests=frozenset(spec.tests),
    )
    shared = load_variables(spec.vars, loading, ("vars",))
    loader = GroupLoader(loading, spec, shared, untimed=0.0 if _timed(spec) else None, on_bad_line=on_bad_line)
    groups: list[GroupSource] = []
    first = Moment(0, 0, 0, 0)
    for number, group in enumerate(spec.groups):
        with loading.guard():
            loaded = loader.load(group, number, first)
            groups.append(loaded)
            sessions = group.sessions.count if group.sessions else loaded.requests or 0
            first = Moment(first.request + (loaded.requests or 0), first.session + sessions, 0, 0)
    raise_problems(loading.problems)
    engine = _with_local_files(spec.engine, loading)
    changed = overlay and dict(overlay)
    return YamlSource(path, spec, engine, loading.seed, document, tuple(groups), changed, allow_outside)


def _timed(spec: Workload) -> bool:
    return any(group.arrival or (group.sessions and group.sessions.think is not None) for group in spec.groups)


def _with_local_files(engine: EngineOptions, loading: Loading) -> EngineOptions:
    """Return a tokenizer, template or model that is a file or folder beside the workload, as a path that holds from here."""
    changes: dict[str, str] = {}
    for name in _FILES_OF_THE_WORKLOAD:
        value = getattr(engine, name)
        if not isinstance(value, str) or "\0" in value:
            continue
        path = loading.resolve(value)
        if FilePath(path).exists():
            changes[name] = path
        else:
            path = os.path.expanduser(value)  # noqa: PTH111 - Path refuses the home of nobody; this is what opens it, from here
        if os.path.exists(path):  # noqa: PTH110 - else it is a preset or an id
            loading.root.check_model(path, shown=path, place=loading.place(("engine", name)))
    return engine.model_copy(update=changes)
