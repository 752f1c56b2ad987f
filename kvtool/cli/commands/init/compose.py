"""The text of a first workload file."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from kvtool.accounting.caches.providers import find_provider
from kvtool.cli.commands.init.called_rules import CalledRules
from kvtool.cli.commands.init.compose_config import quoted
from kvtool.cli.commands.init.detect import first_of
from kvtool.cli.commands.init.made_up import generator, names_line, tools_lines, variable_lines
from kvtool.errors import KvtoolError, ProblemsError
from kvtool.gate.config_text import one_line
from kvtool.lint.prompt_copies import Constant, CopiedPrompt, PassedList, TemplateCalls, ValueKind, copy_text, is_copied
from kvtool.lint.skeleton import style_of
from kvtool.text.files.root_folder import RootFolder
from kvtool.text.files.text_files import read_text
from kvtool.text.templates.application import Find, IncludedSource, find_included
from kvtool.text.templates.variable_uses import VariableUses
from kvtool.text.terminal.numbers import in_words
from kvtool.text.traced import Traced
from kvtool.workload.yaml.made_up_values import MADE_UP, copied_comment, sent_comment
from kvtool.workload.yaml.yaml_source import load_yaml_workload

WORKLOAD = "kvtool-workload.yaml"
_REQUESTS = 240
"""Requests of all groups together, where each gets a number between these:"""
_FEWEST, _MOST = 12, 40
_MESSAGE = "user_message"
_NO_MARKS = ["    # The code sets no cache_control, so the provider caches nothing.", "    cache_control: none"]
_UNKNOWN_MARKS = [
    f"    # {MADE_UP}: a cache breakpoint at the last block, as no cache_control of this prompt was found"
]
_VARIABLE = re.compile(r"\{\{ \w+ \}\}")
_JINJA = (".j2", ".jinja", ".jinja2")


@dataclass(frozen=True, slots=True)
class FoundPrompt:
    """A template: its path, the uses of its variables, and whether it is taken as it is.

    `own`: another prompt uses a variable of the same name in another way, so its group has variables of its own.
    """

    path: str
    uses: VariableUses = field(default_factory=VariableUses)
    raw: bool = False
    own: bool = False
    copied: CopiedPrompt | None = None
    """The copy of a prompt that is no file of its own."""
    calls: TemplateCalls = field(default_factory=TemplateCalls)
    """What the code says that renders it."""

    @property
    def stem(self) -> str:
        return os.path.basename(self.path).partition(".")[0]  # noqa: PTH119


@dataclass(frozen=True, slots=True)
class FoundTemplates:
    """Prompts that a workload can render, and the uses of the variables that they share."""

    prompts: list[FoundPrompt]
    shared: VariableUses
    calls: Mapping[str, TemplateCalls] = field(default_factory=dict)
    """What code says that renders templates, by the name that it gives them."""

    @property
    def passed(self) -> TemplateCalls:
        """Return what code passes to the variables that the prompts share."""
        return _together(prompt.calls for prompt in self.prompts if not prompt.own)


def read_prompts(
    folder: Path,
    names: Sequence[str],
    notes: list[str],
    copies: Sequence[CopiedPrompt] = (),
    calls: Mapping[str, TemplateCalls] | None = None,
) -> FoundTemplates:
    """Return the templates that a workload can render; `notes` get a line for each of the others.

    `calls`: what code says that renders templates, by the name that it gives them.

    What each variable must be is inferred from its uses. All prompts share one variable of a name, where one value suits all.
    A template that another one includes is no prompt by itself.
    """
    calls = calls or {}
    files = [file for copy in copies if not copy.messages for file in copy.files if file]
    copies = [copy for copy in copies if copy.messages or not any(copy.files)]
    texts = {name: read_text(folder / name, shown=name) for name in (*names, *files)}
    texts = {name: text for name, text in texts.items() if not is_copied(text, copies)}
    uses_of = {name: variable_uses(folder, [(name, text)]) for name, text in texts.items()}
    real = {name: os.path.realpath(folder / name) for name in texts}
    parts = {
        path for name, uses in uses_of.items() for path in map(os.path.realpath, uses.included) if path != real[name]
    }
    whole = [name for name in texts if real[name] not in parts]
    kept: list[FoundPrompt] = []
    for name in first_of(whole, "prompt", notes):
        text = texts[name]
        plain = not name.lower().endswith(_JINJA)
        if plain and (filled := copy_text(folder, name, text)) is not None:
            copies = [*copies, filled]
            continue
        prompt = FoundPrompt(name, uses_of[name])
        error = _error(folder, prompt, prompt.uses)
        if error is None:
            kept.append(prompt)
        elif plain:
            kept.append(FoundPrompt(name, raw=True))
        else:
            notes.append(left_out(name, error))
        if plain and error is None and not prompt.uses.variables and style_of(text) not in ("", "jinja"):
            notes.append(f"{name} has placeholders that are not Jinja. They are sent as written.")
    for copy in copies:
        uses = variable_uses(folder, _texts_of(folder, copy))
        prompt = FoundPrompt(copy.path, uses, copied=copy, calls=TemplateCalls(kinds=copy.kinds))
        if (error := _error(folder, prompt, prompt.uses)) is None:
            kept.append(prompt)
        else:
            notes.append(left_out(copy.path, error))
    parts = {os.path.realpath(path) for prompt in kept if prompt.copied for path in prompt.uses.included}
    kept = [prompt for prompt in kept if prompt.copied or real[prompt.path] not in parts]
    for name, said in calls.items():
        named = {
            at: os.path.realpath(folder / file)
            for at, one in enumerate(kept)
            for file in (*files_of(one), *(one.uses.included if one.copied else ()))
            if f"/{file}".endswith(f"/{name}")
        }
        if len(set(named.values())) == 1:
            for at in named:
                kept[at] = replace(kept[at], calls=_together((said, kept[at].calls)))
    templates = [prompt for prompt in kept if not prompt.raw]
    if len(templates) == 1:
        return FoundTemplates(kept, templates[0].uses, calls)

    def read(prompts: Sequence[FoundPrompt]) -> VariableUses:
        each = (_texts_of(folder, one.copied) if one.copied else [(one.path, texts[one.path])] for one in prompts)
        return variable_uses(folder, list(chain.from_iterable(each)))

    shared = read(templates)
    differ = _differing(templates)
    kept = [
        replace(
            prompt,
            own=not prompt.raw
            and (
                not differ.isdisjoint((*prompt.calls.constants, *prompt.calls.kinds))
                or _error(folder, prompt, shared) is not None
            ),
        )
        for prompt in kept
    ]
    if any(prompt.own for prompt in kept):
        shared = read([prompt for prompt in kept if not prompt.raw and not prompt.own])
    return FoundTemplates(kept, shared, calls)


def _differing(prompts: Iterable[FoundPrompt]) -> set[str]:
    """Return the paths of values that are other constants, or of another kind, in one prompt than in another."""
    seen: dict[str, list[Sequence[Constant] | ValueKind | PassedList | None]] = {}
    for prompt in prompts:
        for path, passed in {**prompt.calls.constants, **prompt.calls.kinds, **prompt.calls.lists}.items():
            if passed not in seen.setdefault(path, []):
                seen[path].append(passed)
    return {path for path, values in seen.items() if len(values) > 1}


def _together(calls: Iterable[TemplateCalls]) -> TemplateCalls:
    """Return what all these calls say; of one value the last."""
    together = TemplateCalls()
    for each in calls:
        together.constants |= each.constants
        together.roles |= each.roles
        together.kinds |= each.kinds
        together.lists |= each.lists
        together.files |= each.files
    return together


def left_out(name: str, error: KvtoolError) -> str:
    """Return a note on a file that cannot be rendered: what is wrong, where, and what to do."""
    first = error.errors[0] if isinstance(error, ProblemsError) else error
    place = f" ({first.place})" if first.place is not None else ""
    hint = f"; {first.hint}" if first.hint else ""
    return f"{name} was left out: {first.message}{place}{hint}"


def variable_uses(folder: Path, templates: Sequence[tuple[str, str]]) -> VariableUses:
    """Return the uses of variables in templates, each a path and a text."""
    uses = VariableUses()
    for name, text in templates:
        uses.read(text, _finder(folder, name))
    return uses


def files_of(prompt: FoundPrompt) -> list[str]:
    """Return the template files that are all of a message of a prompt."""
    return [prompt.path] if prompt.copied is None else [file for file in prompt.copied.files if file]


def _texts_of(folder: Path, copy: CopiedPrompt) -> list[tuple[str, str]]:
    """Return the texts of a copy, each with its path: a message that is all of a file is read as that."""
    if not any(copy.files):
        return [(copy.path, copy.text)]
    return [
        (file, read_text(folder / file, shown=file)) if file else (copy.path, text)
        for file, (_, text) in zip(copy.files, copy.messages, strict=True)
    ]


def _finder(folder: Path, name: str) -> Find:
    root = RootFolder.of(str(folder / WORKLOAD))

    def find(wanted: str, includer: str | None) -> IncludedSource | None:
        path = find_included(wanted, includer or str(folder / name), root)
        if path is None:
            return None
        return IncludedSource(path, Traced(read_text(Path(path), shown=path, may_be_empty=True)))

    return find


def _error(folder: Path, prompt: FoundPrompt, uses: VariableUses) -> KvtoolError | None:
    """Return why a workload cannot render a prompt with the made-up values; None where it can."""
    workload = compose_workload(FoundTemplates([prompt], uses))
    path = folder / WORKLOAD
    try:
        source = load_yaml_workload(str(path), overlay={os.path.realpath(path): workload})
        for conversation in source.conversations():
            conversation.next_turn(None)
    except KvtoolError as error:
        return error
    return None


def compose_workloads(
    folder: Path, found: FoundTemplates, rules: CalledRules, marking: Collection[str]
) -> dict[str, str]:
    """Return a workload for the prompts of each provider, by its name; `rules` are those of the calls in the code.

    `marking` are the files of the code that may set cache breakpoints.
    """
    parts: dict[str, list[FoundPrompt]] = {}
    for prompt in found.prompts:
        parts.setdefault(_provider_of(prompt, rules), []).append(prompt)
    marked = {each: marking if each and find_provider(each).needs_mark else None for each in parts}
    if len(parts) < 2:
        return {provider: compose_workload(found, marking=marked[provider]) for provider in parts}
    texts: dict[str, str] = {}
    names: set[str] = set()  # a gate goes by the name of a group alone
    for provider, prompts in sorted(parts.items()):
        part = read_prompts(
            folder,
            [prompt.path for prompt in prompts if prompt.copied is None],
            [],
            [prompt.copied for prompt in prompts if prompt.copied is not None],
            found.calls,
        )
        texts[provider] = compose_workload(part, provider, marking=marked[provider], taken=names)
    return texts


def unmarked_sentence(providers: Iterable[str], marking: Collection[str]) -> str:
    """Return a sentence on providers that cache nothing, as the code sets no breakpoints; empty where none needs them."""
    unmarked = [each for each in providers if each and find_provider(each).needs_mark and not marking]
    return f" The code sets no cache_control, so {in_words(unmarked)} caches nothing." if unmarked else ""


def workload_name(provider: str) -> str:
    """Return the name of the workload of a provider's prompts; of those of none that is known, the one of all."""
    return f"{WORKLOAD.removesuffix('.yaml')}-{provider}.yaml" if provider else WORKLOAD


def _provider_of(prompt: FoundPrompt, rules: CalledRules) -> str:
    """Return the provider of the call that sends a prompt; of several possible calls that of all of them."""
    copied = prompt.copied
    if copied is not None and copied.api_call in rules.providers:
        return rules.providers[copied.api_call]
    found = rules.of_files(prompt.calls.files if copied is None else [copied.path])
    return rules.provider if found is None else found


def compose_workload(
    found: FoundTemplates,
    provider: str = "",
    *,
    marking: Collection[str] | None = None,
    taken: set[str] | None = None,
) -> str:
    """A workload file with a group for each prompt: as the system message before a question, or what its name says it is.

    `marking` are the files that may set the cache breakpoints that the provider needs; None: it needs none. `taken` are names of
    groups of other workloads, and gets those of this one.
    """
    pairs = _paired(found.prompts)
    shapes = dict(found.shared.variables)
    values = [line for name in sorted(shapes) for line in variable_lines(name, shapes[name], found.passed)]
    if any(user is None and not _asks(system) for system, user in pairs) and _MESSAGE not in shapes:
        value, why = generator(_MESSAGE)
        values.append(f"  {_MESSAGE}: {value}  # {MADE_UP}: {why}")
    each = [found.shared, *(prompt.uses for prompt in found.prompts if prompt.own)]
    declared = names_line("filters", set().union(*(uses.filters for uses in each)))
    declared += names_line("tests", set().union(*(uses.tests for uses in each)))
    lines = ["# The requests of your service: the prompts of this folder."]
    if values or declared:
        lines += [
            f'# Values marked "{MADE_UP}" are guesses. Replace them.',
            "# Or profile real requests: kvtool profile prod.jsonl",
        ]
    lines += ["# Set `requests` to what you send. Schema for editors: kvtool schema workload", "version: 1", *declared]
    lines += [f"engine: {{provider: {provider}}}"] if provider else []
    lines += ["vars:", *values] if values else []
    lines.append("groups:")
    names = set() if taken is None else taken
    requests = min(max(_REQUESTS // max(len(pairs), 1), _FEWEST), _MOST)
    for system, user in pairs:
        name = _free(found.prompts, system or user, names)
        lines += [f"  - name: {quoted(name)}", f"    requests: {requests}"]
        own = [prompt.uses for prompt in (system, user) if prompt is not None and prompt.own]
        if own:
            lines.append("    vars:")
            own_shapes = {name: shape for uses in own for name, shape in uses.variables.items()}
            passed = _together(prompt.calls for prompt in (system, user) if prompt is not None and prompt.own)
            for variable in sorted(own_shapes):
                lines += [f"    {line}" for line in variable_lines(variable, own_shapes[variable], passed)]
        sent = system.copied.tools if system is not None and system.copied is not None else None
        lines += tools_lines(sent, system.path) if sent is not None and system is not None else []
        copied = None if system is None else system.copied
        senders = _senders(system, user)
        if copied is not None and copied.automatic:
            lines.append("    cache_control: automatic")
        elif marking is not None and not (copied is not None and copied.is_marked):
            known = not marking or (senders and senders.isdisjoint(marking))
            lines += _NO_MARKS if known else _UNKNOWN_MARKS
        lines.append("    messages:")
        if system is not None:
            lines.append(_message("system", system))
        if user is not None:
            lines.append(_message("user", user))
        elif not _asks(system):
            lines.append(f'      - {{role: user, text: "{{{{ {_MESSAGE} }}}}"}}')
    return "\n".join(lines) + "\n"


def _senders(*prompts: FoundPrompt | None) -> set[str]:
    """Return the files of code that send or render these prompts, as far as they are known."""
    found = [prompt for prompt in prompts if prompt is not None]
    copies = [prompt.copied for prompt in found if prompt.copied is not None]
    files = {file for prompt in found for file in prompt.calls.files}
    return files | {file for copied in copies for file in (copied.path, copied.api_call[0]) if file}


def _asks(prompt: FoundPrompt | None) -> bool:
    """Return whether a copied chat has a message of the user."""
    return (
        prompt is not None and prompt.copied is not None and any(role == "user" for role, _ in prompt.copied.messages)
    )


def copied_places(prompts: Sequence[FoundPrompt]) -> dict[str, str]:
    """Return where the variables of copied prompts are written."""
    return {name: place for prompt in prompts if prompt.copied for name, place in prompt.copied.places.items()}


def _paired(prompts: Sequence[FoundPrompt]) -> list[tuple[FoundPrompt | None, FoundPrompt | None]]:
    """System and user prompts that belong together by their names, the others alone."""
    by_path = {prompt.path: prompt for prompt in prompts if prompt.copied is None}
    users: dict[str, FoundPrompt] = {}
    for prompt in by_path.values():
        if "system" in prompt.path and (user := by_path.get(prompt.path.replace("system", "user"))) is not None:
            users[prompt.path] = user
    taken = {user.path for user in users.values()}
    pairs: list[tuple[FoundPrompt | None, FoundPrompt | None]] = []
    for prompt in prompts:
        if prompt.copied is not None:
            pairs.append((prompt, None))
            continue
        if prompt.path in taken:
            continue
        roles = prompt.calls.roles
        alone_user = prompt.path not in users and (roles == {"user"} or (not roles and "user" in prompt.stem.lower()))
        pairs.append((None, prompt) if alone_user else (prompt, users.get(prompt.path)))
    return pairs


def _free(prompts: Sequence[FoundPrompt], prompt: FoundPrompt | None, taken: set[str]) -> str:
    """Return a name for a group: the file's, with as much of its folders as makes it the only one.

    Of several prompts of one file it is what the code calls each of them.
    """
    assert prompt is not None
    file = next(filter(None, prompt.copied.files), "") if prompt.copied is not None else ""
    prompt = FoundPrompt(file) if file else prompt
    parts = [*prompt.path.split("/")[:-1], prompt.stem or "prompt"]
    called = prompt.copied.name if prompt.copied is not None else ""
    alike = [one for one in prompts if one.path == prompt.path]
    if called and len(alike) > 1:
        parts.append(called)
    candidates = ["-".join(parts[-length:]).strip() or "prompt" for length in range(1, len(parts) + 1)]
    numbered = [f"{candidates[0]}-{number}" for number in range(2, len(prompts) + 2)]
    twice = sum(1 for one in alike if one.copied is not None and one.copied.name == called) > 1
    candidates[1:] = [*numbered, *candidates[1:]] if twice else [*candidates[1:], *numbered]
    name = next(candidate for candidate in candidates if candidate not in taken)
    taken.add(name)
    return name


def _message(role: str, prompt: FoundPrompt) -> str:
    if prompt.copied is not None:
        copied = prompt.copied
        lines: list[str] = []
        for number, (each, text) in enumerate(copied.messages or ((role, copied.text),)):
            mark = f", cache_control: {ttl}" if copied.messages and (ttl := copied.marks[number]) else ""
            if copied.messages and copied.files[number]:
                called = f"{prompt.path}:{copied.line}" if copied.line else prompt.path
                lines.append(f"      {sent_comment(one_line(called))}")
                lines.append(_file_message(each, copied.files[number], more=mark))
                continue
            if _VARIABLE.fullmatch(text) is None:  # else nothing of it is written there
                place = copied.message_places[number] if copied.message_places else prompt.path
                sender = "" if place.partition(":")[0] == prompt.path else one_line(prompt.path)
                lines.append(f"      {copied_comment(one_line(place), sender)}")
            lines.append(f"      - {{role: {each}, text: {quoted(text)}{mark}}}")
        return "\n".join(lines)
    return _file_message(role, prompt.path, raw=prompt.raw)


def _file_message(role: str, path: str, *, raw: bool = False, more: str = "") -> str:
    return f"      - {{role: {role}, file: {quoted(path)}{', raw: true' if raw else ''}{more}}}"
