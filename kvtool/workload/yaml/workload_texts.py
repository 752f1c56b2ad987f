"""The text of a message, segment or prompt: literal or template, from the workload, a file or one of many files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path as FilePath

from kvtool.errors import KvtoolError
from kvtool.text.files.file_patterns import is_pattern, literal_start, matching
from kvtool.text.files.text_files import check_file, read_text
from kvtool.text.files.yaml_document import Path, YamlDocument
from kvtool.text.templates.application import Application, Find, IncludedSource, find_included
from kvtool.text.templates.template import TracedTemplate, compile_template
from kvtool.text.traced import Mark, Origin, Traced
from kvtool.workload.yaml.fields import Pick
from kvtool.workload.yaml.load_state import MOST_ENTRIES, Key, Loading, Picker
from kvtool.workload.yaml.schema import TextSource

_UNDEFINED_HINT = "define it under `vars` of the workload or the group; `kvtool init --force` makes up a value"
_SYNTAX_HINT = "set `raw: true` to keep the text unchanged"


@dataclass(frozen=True, slots=True)
class Template:
    """One text; rendering a text without expressions gives the same object each time."""

    document: YamlDocument
    compiled: TracedTemplate | Traced

    @property
    def variables(self) -> frozenset[str]:
        return frozenset() if isinstance(self.compiled, Traced) else self.compiled.variables

    @property
    def any_variable(self) -> bool:
        """Return whether only a rendering knows which variables it uses."""
        return not isinstance(self.compiled, Traced) and self.compiled.any_variable

    def render(self, values: Mapping[str, object]) -> Traced:
        if isinstance(self.compiled, Traced):
            return self.compiled
        try:
            return self.compiled.render(values)
        except KvtoolError as error:
            hint = _UNDEFINED_HINT if "undefined variable" in error.message else None
            raise _relocated(error, self.document, hint) from error


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts that a part of a prompt is chosen from: one, or one for each file of a glob."""

    choices: list[Template]
    picker: Picker | None

    @property
    def variables(self) -> frozenset[str]:
        return frozenset().union(*(choice.variables for choice in self.choices))

    def render(self, values: Mapping[str, object], number: int) -> Traced:
        """Return the text for request (or session) `number`."""
        return self.choices[self.picker.index(number) if self.picker else 0].render(values)


def load_texts(
    source: TextSource, loading: Loading, at: Path, part: str, key: tuple[Key, ...], *, stable: bool | None = None
) -> Texts:
    """Return the texts of a `text | file | glob`; their origins name `part` and what the author asserts of it. `key` is what picks
    from a glob depend on: no position in the workload, so that a rewritten workload picks the same.
    """

    def template(text: Traced) -> Template:
        return load_template(_named(text, part, stable), loading, raw=source.raw, part=part, stable=stable)

    if source.text is not None:
        return Texts([template(source.text)], None)
    if source.file is not None:
        shown, text = loading.read(source.file, (*at, "file"))
        return Texts([template(Traced.of(text, Origin(shown, text=text)))], None)
    assert source.glob is not None
    choices: list[Template] = []
    names = find_files(source.glob, loading, (*at, "glob"))
    for name in names:
        with loading.guard():
            shown, text = loading.read(Traced(name), (*at, "glob"))
            choices.append(template(Traced.of(text, Origin(shown, text=text, one_of_many=len(names) > 1))))
    pick = source.pick or Pick("cycle")
    if pick.how == "zipf" and len(choices) > MOST_ENTRIES:
        raise loading.error(f"zipf picks from at most {MOST_ENTRIES:,} files", (*at, "pick"))
    return Texts(choices, Picker(len(choices), pick, *key))


def load_template(
    text: Traced, loading: Loading, *, raw: bool = False, part: str = "", stable: bool | None = None
) -> Template:
    """Return a text of the workload as a template; `raw` ones are taken as they are. What it includes belongs to its part."""
    if raw or not any(mark in text for mark in ("{{", "{%", "{#")):
        return Template(loading.document, text)
    origin = text.marks[0].origin if text.marks else None
    main = origin.path if origin is not None else loading.document.path

    def read(name: str, includer: str | None) -> IncludedSource | None:
        path = find_included(name, includer or main, loading.root, loading.overlay)
        if path is None:
            return None
        content = read_text(FilePath(path), shown=path, overlay=loading.overlay, may_be_empty=True)
        return IncludedSource(path, Traced.of(content, Origin(path, text=content, part=part, stable=stable)))

    known = _compiled_before(str.__str__(text), text.marks, loading.filters, loading.tests, (part, stable))
    found = next((each for each in known if each.is_same(read)), None)
    if found is not None:
        return Template(loading.document, found.template)
    included: dict[Asked, IncludedSource | None] = {}

    def find(name: str, includer: str | None) -> IncludedSource | None:
        included[name, includer] = content = read(name, includer)
        return content

    try:
        application = Application(find, loading.filters, loading.tests)
        compiled = compile_template(text, chat=False, application=application)
    except KvtoolError as error:
        raise _relocated(error, loading.document, _SYNTAX_HINT) from error
    if not compiled.any_variable:
        known[:] = [*known[1 - _MOST_VERSIONS :], CompiledBefore(compiled, dict(included))]
    return Template(loading.document, compiled)


Asked = tuple[str, str | None]
"""The name of a template in the tag that includes it, and the template with that tag."""
_MOST_VERSIONS = 4
"""Of one template that are kept: those of what it includes differ."""


@dataclass(frozen=True, slots=True)
class CompiledBefore:
    """A compiled template, and the templates that it includes, as they were."""

    template: TracedTemplate
    included: Mapping[Asked, IncludedSource | None]

    def is_same(self, read: Find) -> bool:
        """Return whether all that it includes is still the same."""
        with suppress(KvtoolError):
            return all(read(*asked) == content for asked, content in self.included.items())
        return False


@lru_cache(maxsize=256)
def _compiled_before(*_text: object) -> list[CompiledBefore]:
    """Return the list of what was compiled of a text: edits are tried by reading the whole workload again and again."""
    return []


def find_files(pattern: Traced, loading: Loading, at: Path) -> list[str]:
    """Return the file of that name or the files that match, sorted, as paths from the workload's folder; none is an error."""
    written = str.__str__(pattern)
    folder = FilePath(loading.document.path).parent
    if not is_pattern(written) or ("\0" not in written and (folder / written).is_file()):
        shown = loading.resolve(written)
        loading.check(shown, at)
        check_file(FilePath(shown), shown=shown, place=loading.place(at))
        return [written]
    loading.check(loading.resolve(literal_start(written)), at, shown=loading.resolve(written))
    try:
        found = matching(written, folder, loading.root)
    except (OSError, ValueError) as error:
        raise loading.error(f"`{written}` is not a pattern of file names", at) from error
    except KvtoolError as error:
        raise loading.error(error.message, at, error.hint) from None
    files = [name for name in found if not (folder / name).is_dir()]
    for name in files:
        loading.check(loading.resolve(name), at)
    if not files:
        hint = "write paths relative to the folder of the workload file"
        raise loading.error(f"no file matches `{loading.resolve(written)}`", at, hint)
    return files


def _named(text: Traced, part: str, stable: bool | None) -> Traced:
    marks = [
        Mark(length, origin and replace(origin, part=part, stable=stable), offset)
        for length, origin, offset in text.marks
    ]
    return Traced(text, marks)


def _relocated(error: KvtoolError, document: YamlDocument, hint: str | None) -> KvtoolError:
    """Return the error with the whole line of the workload file as its excerpt (a template knows only its own text), and a hint."""
    place = error.place
    if place is not None and place.path == document.path and place.line is not None:
        place = replace(place, excerpt=document.line(place.line))
    return KvtoolError(error.message, hint=error.hint or hint, place=place)
