"""A workload file as a source of conversations: read, validated and tried once, then rendered as it is asked for."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path as FilePath

from kvtool.errors import KvtoolError
from kvtool.results.choices import OnBadLine
from kvtool.text.files.text_files import Overlay
from kvtool.text.files.yaml_document import YamlDocument, load_yaml
from kvtool.workload.turn import Conversation
from kvtool.workload.yaml.fields import KnownCodes
from kvtool.workload.yaml.group_loading import GroupLoader
from kvtool.workload.yaml.groups import GroupSource, ImportGroup
from kvtool.workload.yaml.load_state import Loading
from kvtool.workload.yaml.schema import EngineOptions, Workload
from kvtool.workload.yaml.validate import did_you_mean, raise_problems, validate
from kvtool.workload.yaml.variables import Moment, load_variables

_FILES_OF_THE_WORKLOAD = ("tokenizer", "chat_template", "model")


@dataclass(frozen=True, slots=True)
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
        """How many requests there are; None where a log has to be read to know."""
        total = 0
        for group in self.groups:
            if group.requests is None:
                return None
            total += group.requests
        return total

    @property
    def skipped(self) -> int:
        """Bad lines of imported logs that the last pass left out."""
        return sum(group.skipped for group in self.groups if isinstance(group, ImportGroup))

    @property
    def timed(self) -> bool:
        """Whether requests have arrival times of their own (not those that a log may bring)."""
        return _timed(self.spec)

    @property
    def untimed(self) -> list[str]:
        """Groups without arrival times in a workload where others have some."""
        if not self.timed:
            return []
        named = {group.name for group in self.groups}
        return [
            group.name
            for group in self.spec.groups
            if group.name in named and group.arrival is None and group.import_ is None
        ]

    def select(self, names: Sequence[str]) -> YamlSource:
        """The same workload with only these groups; KvtoolError for one that it does not have."""
        known = [group.name for group in self.groups]
        for name in names:
            if name not in known:
                raise KvtoolError(f"{self.path} has no group `{name}`", hint=did_you_mean(name, known))
        return replace(self, groups=tuple(group for group in self.groups if group.name in names))

    def conversations(self) -> Iterator[Conversation]:
        """In the order of the file or, where requests have arrival times, in that of their first turns; each pass the same."""
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
    loading = Loading(document, seed, overlay=overlay, allow_outside=allow_outside)
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
    """A tokenizer, template or model that is a file or folder beside the workload, as a path that holds from here."""
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
