"""Findings in one template or Python file, without traffic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePath

from kvtool.config.asked_run import RunOptions
from kvtool.config.layers import merged
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError, Place
from kvtool.lint.code_files import code_prompts
from kvtool.lint.evidence.prompt_evidence import Belief, Evidence, belief, is_prompt_file, is_prompt_name, reads_as
from kvtool.lint.evidence.surrounding_text import with_data, without_late, without_profiles
from kvtool.lint.findings.file_result import JudgedText, loss_key
from kvtool.lint.findings.ignored_findings import read_ignores
from kvtool.lint.findings.line_moves import movable
from kvtool.lint.findings.template_findings import find_losses
from kvtool.lint.formats.jinja_prompts import is_chat_template, jinja_template
from kvtool.lint.formats.mustache import mustache_nodes
from kvtool.lint.formats.prompt_formats import prompt_nodes, read_prompts
from kvtool.lint.formats.text_placeholders import marked_template, placeholder_count, traced_template
from kvtool.lint.front_matter import body_start
from kvtool.lint.lint_inputs import DATA, TextInput
from kvtool.lint.lint_thresholds import THRESHOLDS
from kvtool.lint.passed_values import RenderedFile, with_passed
from kvtool.lint.python.varying_texts import judged
from kvtool.lint.skeleton import Hole, Node, leaves
from kvtool.results.finding import Finding
from kvtool.text.tokens.tekken import built_in_counter
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.text.traced import Origin, Traced
from kvtool.workload.logs.files.plain_text_files import PLAIN_SUFFIXES
from kvtool.workload.yaml.schema import EngineOptions

_PLACEHOLDER_NAME = re.compile(r"\{\{[^{}/]+\}\}")
_TAG = re.compile(r"\{%[-+]?\s*\w|\{\{-?\s*(?:[.$]\w|\$\s|(?:if|else|end|range|with|include|template|define|block)\s)")
"""A tag of Jinja, or of Go's templates, as in charts of Helm."""


def makes_a_file(path: str, error: KvtoolError) -> bool:
    """Return whether a file with this error is such a template: its name or that of a folder holds a placeholder, or the line that
    cannot be read has a tag."""
    excerpt = error.place.excerpt if error.place is not None else None
    return _PLACEHOLDER_NAME.search(path) is not None or _TAG.search(excerpt or "") is not None


_SETTING = re.compile(r"^[ \t]{0,12}[\w.-]{1,60}[ \t]{0,20}=(?:[ \t]|$)", re.MULTILINE)
_SECTION = re.compile(r"^\[{1,2}[\w.\" -]{1,80}\]{1,2}[ \t]*$", re.MULTILINE)
_LEAST_SETTINGS = 3


def template_belief(one: TextInput, prompts: Iterable[Iterable[Node]]) -> Belief:
    """Rate whether a template is a prompt: one that reads like code, markup or settings is none, as most templates make files."""
    if _makes_settings(one.text):
        return Belief.NO
    if one.style == "jinja" and is_chat_template(one.text):
        return Belief.STRONG
    text = "".join(leaf for nodes in prompts for leaf in leaves(nodes) if isinstance(leaf, str))
    name, reads = PurePath(one.path).name.partition(".")[0], reads_as(text) >= 0
    named = is_prompt_file(one.path) or is_prompt_name(name.replace("-", "_"))
    if named and not (reads and one.style == "jinja"):  # a name makes no template a lesser prompt
        return belief(Evidence.NAME, text)
    return Belief.STRONG if reads else Belief.NO


def _makes_settings(text: str) -> bool:
    """Return whether a template makes a file of settings: half of its lines set something, in sections."""
    settings, sections = len(_SETTING.findall(text)), len(_SECTION.findall(text))
    lines = sum(1 for line in text.splitlines() if line.strip() and "{%" not in line)
    return bool(sections) and settings >= _LEAST_SETTINGS and 2 * (settings + sections) >= lines


_NO_HOLES = "nothing to report: it is one prompt without placeholders"


_UNREAD = "partly read: {} took too much work, so prompts from there are not checked"
_MOST_NAMES = 3


class Finder:
    """Finds what can be seen in a template or a Python file; the same for the same file and options, in any process."""

    def __init__(self, options: RunOptions, load: Tokenizers) -> None:
        asked = requested_engine(options)
        self._block_size = asked.block_size or EngineConfig.block_size
        self._code = code_prompts()
        self._count = _Counter(lambda: _counting(asked.tokenizer, load))

    def judge(self, one: TextInput) -> JudgedText:
        """Return the findings of a file, or what is wrong with it."""
        try:
            result = self._judged(one)
            ignores = read_ignores(one.path, one.text) if result.known else []
        except KvtoolError as error:
            parsed = one.is_code or one.style == DATA
            made = one.found and parsed and makes_a_file(one.path, error)
            if one.found and not one.passed and PurePath(one.path).suffix.lower() in PLAIN_SUFFIXES:
                return JudgedText(note=f"not read as Jinja: {error.message.removeprefix('template: ')}", partly=True)
            return JudgedText(known=False) if made else JudgedText(error=error)
        except RecursionError:
            return JudgedText(error=KvtoolError("the file is nested too deeply to read", place=Place(one.path)))
        findings = (
            movable(one.text, result.findings, jinja=one.style == "jinja") if one.is_template else result.findings
        )
        return replace(result, findings=findings, ignores=ignores)

    def __call__(self, one: TextInput) -> list[Finding]:
        """The findings only; KvtoolError where the file cannot be read."""
        return self._judged(one).findings

    def _judged(self, one: TextInput) -> JudgedText:
        files: tuple[str, ...] = ()
        imported: tuple[str, ...] = ()
        rendered: tuple[RenderedFile, ...] = ()
        prompts: list[list[Node]] = []
        note, partly = "", False
        if one.is_code:
            read_code = self._code.of(one.path, one.text)
            prompts, rendered, imported = read_code.prompts, read_code.rendered, read_code.imported
            note = (
                "" if prompts or rendered else "nothing to report: no changing value was found in a prompt of this file"
            )
            note = _UNREAD.format(_listed(read_code.unread)) if read_code.unread else note
            partly = bool(read_code.unread)
        elif one.style == DATA:
            read = read_prompts(one.path, one.text)
            if read is None:
                return JudgedText(known=False)
            files = read.files
            prompts = [prompt_nodes(prompt) for prompt in read.prompts]
            if not any(part.style for prompt in read.prompts for part in prompt):
                note = f"{read.format}: nothing to report, no prompt has placeholders"
        elif one.style == "jinja":
            prompts = _of_jinja(one)
        elif one.style == "mustache":
            prompts = [mustache_nodes(_sent(one))]
        elif one.marks:
            prompts = [marked_template(_sent(one), one.marks)]
        elif one.style and placeholder_count(one.text, one.style):
            prompts = [traced_template(_sent(one), one.style)]
        else:
            note = _NO_HOLES
        if not one.is_code:
            prompts = [without_profiles(without_late(with_data(nodes)), one.text) for nodes in prompts]
        if one.found and not one.is_code and one.style != DATA and prompts:
            how = template_belief(one, prompts)
            if how is Belief.NO:
                return JudgedText(known=False)
            if how is Belief.WEAK:
                prompts = [judged(nodes, weak=True, unnamed=False, late=False) for nodes in prompts]
        size = self._block_size
        least, used, named = (size * blocks for blocks in _least_blocks(one))
        least = max(least, size * THRESHOLDS.walked) if one.found else least
        findings = find_losses(
            one.path, one.text, prompts, self._count, block_size=size, least=least, used=used, named=named
        )
        made = tuple(_made_elsewhere(one.path, prompts, findings))
        return JudgedText(
            findings, note=note, files=files, rendered=rendered, imported=imported, made=made, partly=partly
        )


def _made_elsewhere(path: str, prompts: Iterable[Iterable[Node]], findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the keys of the values of a file's findings that another file makes."""
    told = {(each.line, each.column, each.code) for each in findings}
    for hole in chain.from_iterable(map(leaves, prompts)):
        if not isinstance(hole, Hole) or hole.made is None or hole.made.path == path:
            continue
        if (hole.spot.line, hole.spot.column, hole.kind.code) in told:
            yield loss_key(hole.made.path, hole.made.line, hole.kind.code)


def _least_blocks(one: TextInput) -> tuple[int, int, int]:
    """Return the blocks of constant text after a value that is seen to vary, that varies by its use, and by its name only."""
    if one.is_code:
        return THRESHOLDS.code_seen, THRESHOLDS.code_used, THRESHOLDS.code_named
    return 1, THRESHOLDS.file_used, THRESHOLDS.file_named


def _of_jinja(one: TextInput) -> list[list[Node]]:
    """Return the prompts of a Jinja template: it alone, or with the blocks of each template that extends it."""
    known, included = {each.variable for each in one.passed}, dict(one.included)
    return [
        with_passed(jinja_template(_sent(one), known, included, child), one.passed) for child in one.children or ("",)
    ]


def _sent(one: TextInput) -> Traced:
    """Return the part of a template's file that is sent."""
    return Traced.of(one.text, Origin(one.path, text=one.text))[body_start(one.text) :]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(name if " " in name else f"`{name}()`" for name in names[:_MOST_NAMES]) + more


class _Counter:
    """Counts tokens; what counts is made when the first text is to be counted."""

    def __init__(self, make: Callable[[], Callable[[str], int]]) -> None:
        self._make = make
        self._count: Callable[[str], int] | None = None
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._known:
            if self._count is None:
                self._count = self._make()
            self._known[text] = self._count(text)
        return self._known[text]


def _counting(name: str | None, load: Tokenizers) -> Callable[[str], int]:
    """Return a counter of tokens: for the built-in vocabulary without its tokenizer, which takes seconds to make."""
    if name is None:
        return built_in_counter()
    tokenizer = load(name)
    return lambda text: len(tokenizer.encode_ids(text))


def requested_engine(options: RunOptions) -> EngineOptions:
    """Return the engine options of flags, then of the configuration file, for files that are read without a workload."""
    asked = EngineOptions(
        tokenizer=options.rendering.tokenizer,
        chat_template=options.rendering.chat_template,
        block_size=options.serving.block_size,
    )
    return merged(asked, options.fallback)
