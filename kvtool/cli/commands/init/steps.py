"""Steps of `kvtool init`."""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kvtool.cli.commands.init.compose import FoundTemplates, files_of, left_out
from kvtool.cli.commands.init.compose_config import gated_groups, rate_comment
from kvtool.cli.commands.init.detect import FoundPrompts
from kvtool.cli.commands.init.init_options import InitOptions
from kvtool.config.asked_run import RunOptions
from kvtool.config.find import NAME, PYPROJECT, has_table
from kvtool.config.loading import ConfigFile, load_config
from kvtool.errors import EXIT_NOT_AVAILABLE, KvtoolError, Place, ProblemsError
from kvtool.profiler.opening import open_workload
from kvtool.profiler.profiler import ReportOptions
from kvtool.report.views.facts import too_short
from kvtool.results.gate_words import gate_percent
from kvtool.results.worst_loss import loss_sentence, reached_sentence
from kvtool.text.files.atomic_file import AtomicFile
from kvtool.text.files.root_folder import RootFolder
from kvtool.text.files.text_files import Overlay, read_text
from kvtool.text.terminal.console import ascii_only, put, sanitize, say
from kvtool.text.terminal.numbers import capitalized, plural
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.yaml.made_up_values import MADE_UP
from kvtool.workload.yaml.schema import EngineOptions

_MOST_CALLS = 4
"""Places named on one screen."""


@dataclass(slots=True)
class MeasuredInputs:
    """Hit rates of workloads and of groups, and of each workload the line that loses most; `partial` where it was interrupted.

    `too_short` says of a workload that all of its prompts are below the provider's minimum; `hosted`: a provider's rules ran one.
    """

    rates: dict[str, float] = field(default_factory=dict)
    groups: dict[str, float] = field(default_factory=dict)
    losses: dict[str, str] = field(default_factory=dict)
    too_short: dict[str, str] = field(default_factory=dict)
    providers: set[str] = field(default_factory=set)
    partial: bool = False
    hosted: bool = False


def target_file(command: InitOptions, folder: Path) -> Path:
    """Return the file to write; KvtoolError where one is in the way."""
    own, project = folder / NAME, folder / PYPROJECT
    configured = _line_of_table(project)
    if command.pyproject:
        if own.exists():
            raise KvtoolError(f"`{own}` goes before {PYPROJECT}", hint="delete it, or leave --pyproject out")
        if not project.exists():
            raise KvtoolError(f"there is no `{project}`", hint=f"leave --pyproject out: {NAME} needs none")
        if configured is not None:
            raise KvtoolError(
                "it has a table [tool.kvtool] already", hint="edit it, or delete it first", place=configured
            )
        return project
    if not command.force and not command.dry_run:
        if own.exists():
            raise KvtoolError(
                f"`{own}` is there already", hint="--force overwrites it; --dry-run shows what it would be"
            )
        if configured is not None:
            raise KvtoolError(
                f"{project} has a table [tool.kvtool], and {NAME} would go before it",
                hint="edit it, or --force",
                place=configured,
            )
    return own


def _line_of_table(project: Path) -> Place | None:
    """Return the place of the table in pyproject.toml; None without one."""
    if not project.is_file():
        return None
    try:
        return load_config(str(project)).place()
    except KvtoolError as error:
        if not has_table(str(project)) or "no table [tool.kvtool]" in error.message:
            return None
        place = error.errors[0].place if isinstance(error, ProblemsError) else error.place
        return place or Place(str(project))


def overwritten_config(target: Path) -> ConfigFile | None:
    """Return the configuration that is about to be overwritten; None without one, or where it cannot be read."""
    if target.name != NAME or not target.is_file():
        return None
    try:
        return load_config(str(target))
    except KvtoolError:
        return None


def report_nothing_found(folder: str, found: FoundPrompts) -> KvtoolError:
    hint = "kvtool finds templates (.j2), texts in a folder `prompts`, Python, TypeScript, YAML, logs (.jsonl) and workload files"
    if found.code:
        hint += f"; {_code(folder, found)}"
    if found.notes:
        hint += "; " + "; ".join(found.notes)
    return KvtoolError(f"nothing to profile was found in `{folder}`", hint=hint)


def _code(folder: str, found: FoundPrompts, copied: Collection[str] = ()) -> str:
    """Return notes on calls in code that make or send prompts; the command in them works where the user is.

    Files whose prompts were `copied` are left out; empty where no other is left.
    """
    files = [name for name in found.code if name not in copied]
    if not files:
        return ""
    calls = [call for call in found.calls if call.name and call.path in files]
    named = [str(call) for call in calls[:_MOST_CALLS]]
    named += [name for name in files if not any(call.path == name for call in calls)][:_MOST_CALLS]
    more = len(calls) - _MOST_CALLS
    which = ", ".join(named[:_MOST_CALLS]) + (f" and {plural(more, 'more call')}" if more > 0 else "")
    first = shlex.quote(os.path.normpath(Path(folder, files[0])))
    probe = "`kvtool probe MODULE:FUNCTION` runs a function. " if any(map(_is_python, files)) else ""
    return (
        f"prompts in code: {which}. `kvtool lint {first}` reads this code. {probe}"
        "A log of your service shows which prompts are really sent."
    )


def _is_python(name: str) -> bool:
    return name.endswith(".py")


def in_no_workload(folder: Path, prompts: FoundTemplates, read: Collection[str]) -> list[str]:
    """Return a note on the templates that no workload sends; `read` are the files that workloads read."""
    files = dict.fromkeys(file for prompt in prompts.prompts for file in files_of(prompt))
    missing = [file for file in files if os.path.realpath(folder / file) not in read]
    if not missing:
        return []
    more = f" and {plural(len(missing) - _MOST_CALLS, 'more file')}" if len(missing) > _MOST_CALLS else ""
    names = ", ".join(missing[:_MOST_CALLS])
    return [f"in no workload: {names}{more}. Their hit rate is not checked. Add a group for them to a workload file."]


def text_of(folder: Path, name: str, files: Mapping[str, str]) -> str:
    """Return the text of a file of the folder, or of one that is to be written there."""
    return files[name] if name in files else read_text(folder / name, shown=name)


def measured_inputs(
    command: InitOptions,
    folder: Path,
    names: list[str],
    files: Mapping[str, str],
    notes: list[str],
    places: Mapping[str, str],
    provider: str,
) -> MeasuredInputs:
    """Run each input as a profile does with the `provider` in the configuration, and measure nothing.

    What cannot be run is noted and left out; a tokenizer that cannot be had is an error.
    """
    overlay: Overlay = {os.path.realpath(folder / name): text for name, text in files.items()}
    measured, load = MeasuredInputs(), Tokenizers(offline=command.showing.offline)
    with command.showing.progress() as progress:
        for name in names:
            inputs = [os.path.normpath(folder / name)]
            engine = EngineOptions(provider=provider) if provider else None
            options = RunOptions(inputs=inputs, rendering=command.rendering, serving=command.serving, fallback=engine)
            try:
                opened = open_workload(options, load, overlay=overlay)
                profile = opened.accounted(opened.profiler(ReportOptions(edits="none"), progress))
            except KvtoolError as error:
                if error.exit_code == EXIT_NOT_AVAILABLE:
                    raise
                notes.append(left_out(name, error))
                continue
            if profile.partial:
                measured.partial = True
                break
            measured.rates[name] = profile.totals.hit_rate
            measured.hosted |= profile.hosted
            measured.providers.add(str(profile.config.get("provider") or ""))
            if profile.below_minimum:
                measured.too_short[name] = too_short(profile)
            elif (loss := loss_sentence(profile, places if name in files else {})) is not None:
                measured.losses[name] = loss + reached_sentence(profile)
            for group in profile.groups:
                measured.groups[group.name] = min(group.hit_rate, measured.groups.get(group.name, 1.0))
    return measured


def engine_settings(command: InitOptions, folder: Path) -> dict[str, str | int]:
    """Return the options of the run that are no defaults; files as paths from the folder of the configuration."""
    found: dict[str, str | int] = {}
    for name, value in (("tokenizer", command.rendering.tokenizer), ("chat_template", command.rendering.chat_template)):
        if value is not None:
            is_file = os.path.exists(value)  # noqa: PTH110 - else it is an id
            found[name] = Path(os.path.relpath(value, folder)).as_posix() if is_file else value
    if command.serving.block_size is not None:
        found["block_size"] = command.serving.block_size
    return found


def names_outside(folder: Path, settings: Mapping[str, str | int]) -> bool:
    """Return whether the configuration names a file that a command reads only with --allow-outside."""
    root = RootFolder.of(str(folder / NAME))
    return any(not root.holds(folder / value) for value in settings.values() if isinstance(value, str))


def appended(project: Path, text: str) -> str:
    """pyproject.toml with the table at its end; KvtoolError where that is no TOML."""
    before = read_text(project, shown=str(project))
    crlf = "\r\n" in before
    whole = before.rstrip("\r\n") + ("\r\n\r\n" if crlf else "\n\n") + (text.replace("\n", "\r\n") if crlf else text)
    try:
        tomllib.loads(whole)
    except ValueError as error:
        raise KvtoolError(f"nothing can be added to `{project}`: {error}") from error
    return whole


def write_all(folder: Path, files: Mapping[str, str]) -> None:
    """Write all files, or none, as far as that can be known before the first is in its place."""
    with ExitStack() as stack:
        opened = [(stack.enter_context(AtomicFile(folder / name)), text) for name, text in files.items()]
        for file, text in opened:
            file.write(text.encode())


def report_written(
    command: InitOptions,
    found: FoundPrompts,
    prompts: FoundTemplates | None,
    measured: MeasuredInputs,
    files: Mapping[str, str],
    config: str,
    *,
    made_up: Collection[str],
    copied: Collection[str],
    outside: bool,
    lowered: Sequence[str],
    rules: str,
) -> None:
    """Print the files that were found and written, or would be, and the next command."""
    console = command.showing.console()
    plain = ascii_only(console)
    folder = command.folder
    templates = len(prompts.prompts) if prompts is not None else 0
    counts = ((len(found.workloads), "workload file"), (templates, "prompt"), (len(found.logs), "log"))
    parts = [plural(count, noun) for count, noun in counts if count]
    say(console, f"Found in {sanitize(folder, ascii_only=plain)}: {', '.join(parts)}", indent=0)
    for name, rate in measured.rates.items():
        shown = rate_comment(rate, made_up=name in made_up)
        say(console, f"{sanitize(name, ascii_only=plain)}: {shown}{measured.too_short.get(name, '')}")
        if name in measured.losses:
            say(console, sanitize(measured.losses[name], ascii_only=plain), indent=4, hang=2)
    if not gate_percent(min(measured.rates.values())):
        gate = f"{_gates_that_are_on(measured)} {_to_switch_on(measured, made_up)}"
        say(console, sanitize(gate, ascii_only=plain), hang=2, style="yellow")
    if rules:
        say(console, sanitize(capitalized(rules), ascii_only=plain), hang=2)
    if made_up:
        say(console, f'Values marked "{MADE_UP}" are guesses. Replace them.')
    for note in found.notes:
        say(console, f"note: {sanitize(note, ascii_only=plain)}", hang=2, style="yellow")
    if code := _code(folder, found, copied if prompts is not None else ()):
        say(console, f"note: {sanitize(code, ascii_only=plain)}", hang=2, style="yellow")
    put(console)
    for name in files:
        path = sanitize(os.path.normpath(os.path.join(folder, name)), ascii_only=plain)  # noqa: PTH118
        if not command.dry_run:
            say(console, f"Written: {path}", indent=0)
            continue
        put(console, f"--- {path}" + (" (added at the end)" if name == PYPROJECT else ""), "bold")
        for line in (config if name == PYPROJECT else files[name]).splitlines():
            put(console, sanitize(line, ascii_only=plain))
        put(console)
    for limit in lowered:
        say(console, f"note: this lowers the limit of the {sanitize(limit, ascii_only=plain)}", hang=2, style="yellow")
    if command.dry_run:
        say(console, "Nothing was written. Run it without --dry-run to write these files.", indent=0)
        return
    flag = " --allow-outside" if outside else ""
    into = "" if os.path.normpath(folder) == "." else f"cd {sanitize(shlex.quote(folder), ascii_only=plain)} && "
    lossy = min((name for name in measured.losses), key=lambda name: measured.rates[name], default=None)
    if lossy is not None:
        path = sanitize(shlex.quote(os.path.normpath(lossy)), ascii_only=plain)
        put(console, "Next: see each line that loses reuse, and its fix:")
        put(console, f"  {into}kvtool profile {path}{flag}")
    put(console, f"{'Then' if lossy is not None else 'Next'}: check the hit rate, here and in CI:")
    put(console, f"  {into}kvtool check{flag}")


def _gates_that_are_on(measured: MeasuredInputs) -> str:
    """Return which groups have a gate, and which have none, where one of all workloads could not fail."""
    gated, zero = gated_groups(measured.rates, measured.groups)
    if not gated:
        return "The gate is off: it cannot fail at 0%."
    more = f" and {len(zero) - _MOST_CALLS:,} more" if len(zero) > _MOST_CALLS else ""
    names = ", ".join(zero[:_MOST_CALLS]) + more
    on = f"Gates are on for {plural(len(gated), 'group')}."
    return f"{on} They are off for {names}, which reuse nothing today." if zero else on


def _to_switch_on(measured: MeasuredInputs, made_up: Collection[str]) -> str:
    """Return what to do where the gate cannot fail."""
    name = min(measured.rates, key=lambda name: (name in measured.too_short, measured.rates[name]))
    todo = "Fix the prompts"
    if name in measured.losses:
        todo = f"Fix what loses most in {name}"
    elif name in measured.too_short and name in made_up:
        todo = f"Set values of real length in {name}"
    return f"{todo}, then run `kvtool check --tighten`."
