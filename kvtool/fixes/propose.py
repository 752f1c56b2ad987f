"""The fixes for a cause, the safest tier first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.structure.kv111 import KV111
from kvtool.diagnose.codes.structure.kv112 import KV112
from kvtool.diagnose.codes.structure.kv113 import KV113
from kvtool.diagnose.codes.structure.kv114 import KV114
from kvtool.diagnose.codes.structure.kv115 import KV115
from kvtool.diagnose.codes.structure.kv116 import KV116
from kvtool.diagnose.codes.structure.kv121 import KV121
from kvtool.diagnose.codes.structure.kv122 import KV122
from kvtool.diagnose.codes.structure.kv124 import KV124
from kvtool.diagnose.codes.structure.kv141 import KV141
from kvtool.diagnose.codes.structure.kv142 import KV142
from kvtool.diagnose.codes.structure.kv143 import KV143
from kvtool.diagnose.codes.structure.kv144 import KV144
from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.diagnose.codes.values.kv102 import KV102
from kvtool.diagnose.codes.values.kv103 import KV103
from kvtool.diagnose.codes.values.kv105 import KV105
from kvtool.diagnose.findings import is_declared_stable
from kvtool.diagnose.tool_places import in_tools
from kvtool.diagnose.values.detectors import AGE_KEY, PART
from kvtool.fixes.cause_fixes import advise, fix_cause, untried
from kvtool.fixes.fix import Fix, Tier, Transform
from kvtool.fixes.forms.coarsen import TELL_WHEN, coarsen_times, drop_values, with_fixed_ages
from kvtool.fixes.forms.stable_delimiter import (
    DELIMITER,
    IT_IS_KNOWN,
    ONE_DELIMITER,
    SingleDelimiter,
)
from kvtool.fixes.history_kept import HISTORY_KEPT, KEEP_HISTORY, HistoryKept
from kvtool.fixes.identity_lines import identifies_request
from kvtool.fixes.instructions_kept import (
    FIRST_VALUES,
    INSTRUCTIONS_KEPT,
    INSTRUCTIONS_ROLES,
    KEEP_INSTRUCTIONS,
    InstructionsKept,
    change_in_conversations,
)
from kvtool.fixes.moves.dangling_references import dangling_references, role_changes
from kvtool.fixes.moves.movable_unit import AMONG_RULES, are_other_rules
from kvtool.fixes.moves.move import (
    AFTER_MARK,
    BEFORE_CONTENT,
    destination,
    ends_after_mark,
    move_targets,
    moved_words,
    passes_content,
    stops_at_content,
)
from kvtool.fixes.moves.move_target import MoveTarget, places_at, target_of, value_in, with_value
from kvtool.fixes.moves.parent_prefix import INHERIT, PARENT_PREFIX, WITH_PARENTS, ParentPrefix
from kvtool.fixes.moves.passages_last import PASSAGES, PASSAGES_AFTER, PassagesLast
from kvtool.fixes.moves.question_text import ASKED, BEFORE_IT, is_question
from kvtool.fixes.moves.split_text import cut_values, with_target_at_end
from kvtool.fixes.new_version import COSTS_ONCE, NEW_VERSION, changed_for_good
from kvtool.fixes.orders.block_order import BlockOrder
from kvtool.fixes.orders.permute import PARTS_LAST, parts_last
from kvtool.fixes.proofs import NAMED_ONCE, ROLE_WARNING
from kvtool.fixes.structure_fixes import (
    AN_APPLICATION,
    changed_definition,
    changed_roles,
    changed_tools,
    context_block,
    cut_history,
    json_keys,
    other_form,
    reordered_documents,
    reordered_examples,
    reordered_tools,
)
from kvtool.fixes.turn_texts import INSTRUCTIONS, marks_in, role_of_part, texts_of
from kvtool.results.finding import TRIED_WITHOUT
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

_TIERS: tuple[Tier, ...] = ("P0", "P1", "P2", "P3")
_WORD = re.compile(r"[^\W_]{4,}")
_LOOKED_AT = 8
"""Samples that a fix changes and that are looked through for what it breaks."""
_MIDNIGHT = "prompts contain the full hour or midnight instead of the time"
_WHOLE_HISTORY = "prompts get longer: they contain old messages in whole"
_PICTURE_FIRST = "some models answer better with images first: evaluate before and after"
PAST_CONTENT = "it moves past inserted text, which is the same in all requests of this workload"
COARSEN = "coarsen"
"""The kind of a fix that rounds times."""
_WHOLE_TEXT = "the end of the prompt"
"""Where a move brings text of a request without messages."""
Proposer = Callable[[SlotCause, Sequence[Turn]], list[Fix]]


def propose(
    cause: SlotCause,
    samples: Sequence[Turn],
    *,
    block_size: int,
    hosted: bool = False,
    is_made_up: Callable[[SlotCause], bool] = lambda _: False,
) -> list[Fix]:
    """Return the fixes for a cause, by the code of its kind; `samples` are requests of its group, in order.

    Fixes that change none of the samples are left out; what they make dangle, and roles between which text moves, is warned of.
    Advice that cannot be tried comes last. `hosted`: a provider's rules decide what is reused. A made-up time cannot be tried
    with other digits: how often it repeats then is made up, too.
    """
    if changed_for_good(cause, samples):
        return [advise(cause, NEW_VERSION, "P3", COSTS_ONCE)]
    in_definition = in_tools(cause.slot.part) and not cause.structural
    fixes = changed_definition(cause) if in_definition else _PROPOSERS.get(cause.kind.code, _value)(cause, samples)
    if cause.slot.logged and role_of_part(cause.slot.part) in ("system", "developer") and ParentPrefix.helps(samples):
        shared = "parent"
        fixes = [
            fix_cause(cause, PARENT_PREFIX, "P3", INHERIT, ParentPrefix, WITH_PARENTS, shared=shared, in_order=True)
        ]
    if hosted and cause.kind.code == KV143.code:  # reads are cheap there, and the memory of an engine is not
        shared = "history"
        kept = fix_cause(
            cause, HISTORY_KEPT, "P3", KEEP_HISTORY, HistoryKept, _WHOLE_HISTORY, shared=shared, in_order=True
        )
        fixes.insert(0, kept)
    if hosted:
        fixes += _own_message(cause, samples, fixes)
    if (passages := PassagesLast.learn(cause, samples)) is not None:
        looks = (AN_APPLICATION,) if passages.role == "user" else ()
        others = fixes
        fixes = [fix_cause(cause, PASSAGES, "P2", passages.what, lambda: passages, *looks, shared=passages.role)]
        are_rules = any(fix.kind == NAMED_ONCE for fix in others)
        if not are_rules and (far := passages.after_history(samples)) is not None:
            fixes.append(fix_cause(cause, PASSAGES_AFTER, "P2", far.what, lambda: far, shared=passages.role))
            fixes += others if hosted else ()
    if is_declared_stable(cause):
        fixes.append(advise(cause, "builder", KV103.proof, _BUILDER, code=KV103.code))
    if is_made_up(cause):
        fixes = [untried(fix) if fix.kind == COARSEN else fix for fix in fixes]
    if block_size > 1 and cause.kind.code == KV122.code:
        fixes = [replace(fix, what=f"{fix.what} (block size: {block_size} tokens)") for fix in fixes]
    role = role_of_part(cause.slot.part)
    if cause.slot.logged and role in INSTRUCTIONS_ROLES and change_in_conversations(samples, role):
        first = partial(InstructionsKept, role)
        what = KEEP_INSTRUCTIONS.format(role=role)
        fixes.append(
            fix_cause(cause, INSTRUCTIONS_KEPT, "P3", what, first, FIRST_VALUES, shared=role, in_order=True),
        )
    checked = [each for fix in fixes if (each := _checked(fix, samples)) is not None]
    return sorted(checked, key=lambda fix: (not fix.can_be_tried, _TIERS.index(fix.tier)))


def _checked(fix: Fix, samples: Sequence[Turn]) -> Fix | None:
    """Return the fix with its warnings; None where samples show that it changes nothing."""
    if fix.make is None or not samples:
        return fix
    transform = fix.make()
    warnings: dict[str, None] = dict.fromkeys(fix.warnings)
    changed = 0
    for turn in samples:
        after = transform(turn)
        if after is turn:
            continue
        changed += 1
        if fix.tier == "P2":
            for source, target in role_changes(turn, after):
                warnings[f"{ROLE_WARNING}: from {source or 'no'} to {target or 'no'} message"] = None
            warnings.update(dict.fromkeys(dangling_references(turn, after)))
        if changed == _LOOKED_AT:
            break
    return replace(fix, warnings=tuple(warnings)) if changed else None


def _value(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    """Return a value that varies: after the shared text of its own message, which changes no role, or else of the last one."""
    if cause.kind.key == PART:
        what = "move the text of the message before the image or file, if the wording allows"
        return [fix_cause(cause, PARTS_LAST, "P2", what, lambda: parts_last, _PICTURE_FIRST, shared="parts")]
    target = target_of(cause, samples)
    if is_question(cause, target, samples):
        return [advise(cause, ASKED, "P3", BEFORE_IT)]
    if (delimiter := SingleDelimiter.learn(cause, target, samples)) is not None:
        return [fix_cause(cause, DELIMITER, "P3", ONE_DELIMITER, lambda: delimiter, IT_IS_KNOWN, shared="mark")]
    moved = moved_words(target, samples)
    looked = with_value(samples, target)
    words = {within: partial(_moved_to, cause, target, moved.told, within=within) for within in (True, False)}
    near, far = words[True](looked), words[False](looked)
    is_said = role_of_part(cause.slot.part) == "user" and cause.slot.logged
    looks: tuple[str, ...] = (AN_APPLICATION,) * is_said
    looks += (PAST_CONTENT,) * passes_content(looked, target)
    fixes = [
        fix_cause(cause, "move", "P2", far, lambda: lambda turn: move_targets(turn, [target]), *looks, memo=target.held)
    ]
    if near != far and not far.endswith(_WHOLE_TEXT):
        within = fix_cause(
            cause,
            "move-within",
            "P2",
            near,
            lambda: lambda turn: move_targets(turn, [target], within=True),
            *looks,
            memo=target.held,
        )
        fixes.insert(0, within)
    ends = [partial(with_target_at_end, target=target, ended=ended) for ended in (True, False)]
    last = f"move this {moved.told} to {destination(cause.slot, within=True)}"
    fixes = [replace(fix, lines=moved.lines, words=words[fix.kind == "move-within"]) for fix in fixes]
    if (
        not cause.slot.logged and AFTER_MARK not in near
    ):  # the end of the message is before the mark: nothing is won there
        fixes = [replace(fix, at_end=_at_ends(fix, last, ends)) for fix in fixes]
    end = near.removeprefix(f"move this {moved.told} to ")
    named = [] if moved.refusal is None else [_named_once(cause, target, moved.refusal, end)]
    return [*fixes, *(named or _layouts(cause, samples))]


def _moved_to(cause: SlotCause, target: MoveTarget, noun: str, turns: Iterable[Turn], *, within: bool) -> str:
    """Return what a move does to these turns."""
    where = BEFORE_CONTENT
    turns = with_value(turns, target)
    if not stops_at_content(turns, target):
        after_mark = any(map(marks_in, turns)) and ends_after_mark(
            turns, lambda turn: move_targets(turn, [target], within=within)
        )
        where = destination(cause.slot, within=within, after_mark=after_mark)
    return f"move this {noun} to {where}"


def _at_ends(fix: Fix, what: str, ends: Sequence[Transform]) -> tuple[Fix, ...]:
    """Return the moves to the very end of the message under the key of a fix."""
    return tuple(replace(fix, what=what, words=None, make=partial(lambda end: end, end)) for end in ends)


def _own_message(cause: SlotCause, samples: Sequence[Turn], fixes: Sequence[Fix]) -> list[Fix]:
    """Return the move of a line of instructions into a last message of theirs, for APIs that have those among the messages.

    A provider that marks the last question by itself then stores the prefix without the line.
    """
    if not any(fix.kind == "move" for fix in fixes) or cause.slot.part == "system" or not cause.slot.logged:
        return []
    if role_of_part(cause.slot.part) not in INSTRUCTIONS:
        return []
    target = target_of(cause, samples)
    what = f"move this {moved_words(target, samples).told} to a message of its own after the last one, in the same role"
    change = partial(move_targets, targets=[target], own_message=True)
    return [fix_cause(cause, "move-after", "P2", what, lambda: change, memo=target.held)]


def _named_once(cause: SlotCause, target: MoveTarget, reason: str, end: str) -> Fix:
    """Return advice in words for a value whose unit cannot move, with what it wins: a trial cuts the value."""
    what = f"write the value once, at {end}, and refer to it from here"
    if reason == AMONG_RULES and are_other_rules(cause.values.examples):
        what = "move rules that only some requests have after the rules that all requests have"
    what += f" (kvtool tried no move: {reason})"
    return fix_cause(cause, NAMED_ONCE, "P3", what, lambda: lambda turn: cut_values(turn, target), TRIED_WITHOUT)


def _layouts(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    """Return all blocks of the text that contains the slot in their best order: one move gains little where slots alternate."""
    role = role_of_part(cause.slot.part)
    order = BlockOrder.learn(samples, role) if role in INSTRUCTIONS else None
    if order is None:
        return []
    what = f"order the blocks of the {role or 'prompt'}{' message' if role else ''}: constant blocks first"
    return [fix_cause(cause, "layout", "P2", what, lambda: order, shared=role or "prompt")]


def _time(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    target = target_of(cause, samples)
    if is_question(cause, target, samples):
        return _value(cause, samples)
    if cause.kind.key == AGE_KEY:
        told = fix_cause(cause, "tell-when", "P3", TELL_WHEN, lambda: with_fixed_ages, shared="ages")
        return [*_value(cause, samples), told] if role_of_part(cause.slot.part) in INSTRUCTIONS else [told]
    what = "round the time in its own format: to the day if it has a date, else to the hour"
    coarsen = fix_cause(cause, COARSEN, "P3", what, lambda: lambda turn: coarsen_times(turn, target), _MIDNIGHT)
    return [*_value(cause, samples), coarsen]


def _identifier(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    """Move an identifier after the shared text, or leave it out where its line is but a label that says that it is the request's.

    What a user asked with is not left out. Whatever else a value identifies, the model may need it.
    """
    fixes = _value(cause, samples)
    target = target_of(cause, samples)
    marked = bool(fixes) and fixes[0].kind == DELIMITER
    if marked or role_of_part(cause.slot.part) == "user" or is_question(cause, target, samples):
        return fixes
    looks: tuple[str, ...] = ()
    if _is_elsewhere(target, samples):
        what = "use one value for all requests: other messages contain it too, as a delimiter"
        looks = (TRIED_WITHOUT,)
    elif identifies_request(with_value(samples, target), target):
        what = "remove the value from the prompt (send it in the metadata of the request)"
    else:
        return fixes
    return [*fixes, fix_cause(cause, "drop", "P3", what, lambda: lambda turn: drop_values(turn, target), *looks)]


def _is_elsewhere(target: MoveTarget, samples: Sequence[Turn]) -> bool:
    """Return whether most samples say the value in another of their messages, too: then it has to be there, and both have to
    agree.
    """
    told = found = 0
    for turn in with_value(samples, target):
        texts = [Traced(at.text) for at in texts_of(turn)]
        held = [
            (at, value_in(text, *place, target)) for at, text in enumerate(texts) for place in places_at(text, target)
        ]
        for at, (start, stop) in held[:1]:
            words = {word for word in _WORD.findall(texts[at][start:stop]) if any(map(str.isdigit, word))}
            told += 1
            found += any(word in text for word in words for other, text in enumerate(texts) if other != at)
    return told > 0 and 2 * found > told


_BUILDER = "fix the code that builds this segment, or remove `stable: true`"
_ADVICE = {
    KV103: ("builder", _BUILDER),
    KV122: ("boundary", "end the shared text with a newline or a special token"),
    KV124: ("tokens", "send the generated token ids instead of the text of the answer"),
    KV143: ("cut-at-once", "cut old messages rarely, many at once, or send long outputs short from the start"),
    KV142: (
        "append",
        "append to the history instead of editing it: send a summary or a correction as a new message",
    ),
}


def _only_advice(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    del samples
    return [
        advise(cause, name, entry.proof, what)
        for entry, (name, what) in _ADVICE.items()
        if entry.code == cause.kind.code
    ]


_PROPOSERS: dict[str, Proposer] = {
    KV101.code: _time,
    KV102.code: _identifier,
    KV105.code: _identifier,
    KV111.code: reordered_tools,
    KV112.code: json_keys,
    KV113.code: reordered_documents,
    KV114.code: reordered_examples,
    KV115.code: changed_tools,
    KV116.code: changed_roles,
    KV121.code: other_form,
    KV141.code: cut_history,
    KV144.code: context_block,
    **{entry.code: _only_advice for entry in _ADVICE},
}
