"""Choice of the grouping that fits a log, from its first requests."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from kvtool.errors import KvtoolError
from kvtool.text.terminal.console import sanitize
from kvtool.workload.logs.field_names import fields_shown
from kvtool.workload.logs.files.log_file import LogEntry
from kvtool.workload.logs.groups.field_paths import FieldPath, fields_of, parse_fields
from kvtool.workload.logs.groups.grouping import BY_FILE, ByFields, ByFile, ByPrompt, Grouping
from kvtool.workload.logs.records.prompt_forms import HEADS, WHOLE, PromptForms, beginning_of

FLAG = "--group-by"
FILE, SYSTEM = "file", "system"
FOLDER = "folder"
"""What is asked for by a word; fields of these names are `$.file` and `$.system`."""
SAMPLE = 1_000
"""Records that are looked at."""
SAMPLE_BYTES = 16 << 20
"""Of records, after which no more are."""
_MOST_VALUES = 50  # of a field that divides requests: more are ids
_MOST_HINTED = 12  # fields that a hint names
_LONGEST = 80  # characters of a value that is a name
_LISTED = 100
"""Records whose fields are known for a hint."""
_SERVICES = (
    *("service", "service_name", "service.name", "serviceName", "app", "app_name", "application", "application_name"),
    *("component", "route", "endpoint", "feature", "use_case", "workflow", "pipeline", "agent", "agent_name"),
)
_TEMPLATES = ("template", "template_name", "template_id", "prompt_name", "prompt_template", "prompt_id")
_MODELS = ("model", "model_name")
_NAMES = frozenset((*_SERVICES, *_TEMPLATES, *_MODELS))
_AROUND: tuple[tuple[str, ...], ...] = (
    *((), ("metadata",), ("labels",), ("tags",), ("attributes",), ("extra",), ("context",)),
    *(("body",), ("request",), ("params",), ("body", "metadata"), ("request", "metadata"), ("params", "metadata")),
)
"""The objects in which such fields are."""


class _Beginning(NamedTuple):
    """How a request begins."""

    path: str
    system: bool
    """Whether that is its system prompt."""
    text: str
    session: str | None


class GroupSample:
    """The first requests of a log, as far as they tell how to group them."""

    def __init__(self, asked: str | None = None) -> None:
        """`asked` is what the user says; KvtoolError for what cannot be read."""
        self._word = asked if asked in (FILE, SYSTEM) else None
        self._asked = () if asked is None or self._word else parse_fields(asked, FLAG)
        self._there = [0] * len(self._asked)
        """Of the paths that are asked for, in how many records each leads to something."""
        self._values: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        self._fields: dict[str, None] = {}
        self._beginnings: list[_Beginning] = []
        self._requests: Counter[str] = Counter()
        """By file."""
        self.records = self._bytes = 0

    @property
    def enough(self) -> bool:
        """Return whether no more are wanted."""
        return self._word == FILE or self.records >= SAMPLE or self._bytes >= SAMPLE_BYTES

    def add(self, entry: LogEntry) -> None:
        self.records += 1
        self._bytes += entry.size
        self._requests[entry.path] += len(entry.turns)
        if self._asked:
            if self.records <= _LISTED:
                self._fields |= dict.fromkeys(fields_of(entry.value))
            for at, path in enumerate(self._asked):
                self._there[at] += path.value(entry.value) is not None
            return
        for around in _AROUND:
            value: object = entry.value
            for step in around:
                value = value.get(step) if isinstance(value, dict) else None
            if not isinstance(value, dict):
                continue
            for name in _NAMES.intersection(value):
                found = value[name]
                if isinstance(found, str | int) and len(str(found)) <= _LONGEST:
                    self._values[(*around, name)][str(found)] += 1
        beginning = beginning_of(entry.first, WHOLE)
        if beginning is not None:
            self._beginnings.append(_Beginning(entry.path, *beginning, entry.first.session))

    def grouping(self, *, files: int, by_file: ByFile = BY_FILE) -> Grouping:
        """Return the grouping that was asked for; else the one that divides these requests: a service, a template, the system
        prompt or the model, in this order; where none does, their `files`, as `by_file` does. KvtoolError where a field that was
        asked for is in none."""
        if self._word == FILE:
            return by_file
        if self._word == SYSTEM:
            system = any(each.system for each in self._beginnings)
            return self._by_beginning(system) or ByPrompt(WHOLE, system)
        if self._asked:
            paths = zip(self._asked, self._there, strict=True)
            return ByFields([path if there or not self.records else self._inner(path) for path, there in paths])
        if files > 1 and all(count == 1 for count in self._requests.values()):
            files, by_file = 1, by_file if by_file.what == FOLDER else ByFile(one_each=True)
        return (
            self._by_field(_SERVICES)
            or self._by_field(_TEMPLATES)
            or self._by_prompt(files, by_file)
            or self._by_field(_MODELS)
            or by_file
        )

    def _inner(self, path: FieldPath) -> FieldPath:
        """Return the one field inside an object that a name means, first in the usual objects; KvtoolError for none or several."""
        fields = [field for field in self._fields if field.endswith(f".{path.text}") and len(field) <= _LONGEST]
        named = [parse_fields(field, FLAG)[0] for field in fields]
        usual = [found for found in named if found.steps[: -len(path.steps)] in _AROUND]
        inner = usual if len(usual) == 1 else named
        if len(inner) != 1:
            raise self._nowhere(path, [found.text for found in inner])
        return inner[0]

    def _nowhere(self, path: FieldPath, several: Sequence[str]) -> KvtoolError:
        known = list(several or self._fields)
        near = get_close_matches(path.text, known, n=1)
        listed = fields_shown("field", known, _MOST_HINTED)
        guess = f"did you mean `{sanitize(near[0])[:_LONGEST]}`? " if near else ""
        records = "the record has" if self.records == 1 else f"none of the first {self.records:,} records has"
        no = "no" if self.records == 1 else "a"
        return KvtoolError(
            f"{FLAG}: {records} {no} field `{sanitize(path.text)}`",
            hint=f"{guess}{listed}" if known else "the records have no fields beside their prompts",
        )

    def _by_field(self, names: Sequence[str]) -> Grouping | None:
        """Return the first field of these names that most records have, with several values, each of them more than once."""
        for name in names:
            for around in _AROUND:
                path = (*around, name)
                values = self._values.get(path)
                if values is None or 2 * (there := values.total()) < self.records:
                    continue
                if self._divides(len(values), there, each=2):
                    return ByFields((FieldPath(".".join(path), path),), found=True)
        return None

    def _by_prompt(self, files: int, by_file: ByFile) -> Grouping | None:
        systems = sum(each.system for each in self._beginnings)
        if 2 * len(self._beginnings) < self.records:
            return None
        found = self._by_beginning(2 * systems >= len(self._beginnings))
        if found is None or files < 2:
            return found
        forms = PromptForms(found.window, found.most)
        of_file: defaultdict[str, set[int | None]] = defaultdict(set)
        for each in self._beginnings:
            of_file[each.path].add(forms.form_of(each.text))
        return by_file if all(len(each) == 1 for each in of_file.values()) else found

    def _by_beginning(self, system: bool) -> ByPrompt | None:
        """Group by forms that come again: of the whole beginning or, where it goes on with what differs, of a shorter one."""
        found = [each for each in self._beginnings if each.system or not system]
        conversations = _conversations(found, system=system)
        for window in (WHOLE, *HEADS):
            forms = PromptForms(window, _MOST_VALUES + 1)
            for each in found:
                forms.form_of(each.text)
            if len(forms) == 1:  # a shorter window would only see more of what differs at the front
                return None
            if self._divides(len(forms), conversations, each=2 if system else 4):
                return ByPrompt(window, system, found=True)
        return None

    @staticmethod
    def _divides(groups: int, requests: int, *, each: int) -> bool:
        return 2 <= groups <= _MOST_VALUES and groups * each <= requests


def _conversations(found: Sequence[_Beginning], *, system: bool) -> int:
    """Return how many conversations these are the beginnings of: the turns of one repeat its own, which makes that no form of
    others.

    Turns of one session are one. Without sessions, a prompt that an earlier one is the beginning of goes on with it, but for system
    prompts: these are the same in many conversations.
    """
    sessions = {each.session for each in found if each.session is not None}
    alone = [each.text for each in found if each.session is None]
    if system:
        return len(sessions) + len(alone)
    count, before = 0, None
    for text in sorted(alone):
        if before is None or not text.startswith(before):
            count, before = count + 1, text
    return len(sessions) + count
