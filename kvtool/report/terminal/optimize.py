"""An optimization in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from kvtool.fixes.edits.patch import unified_patch
from kvtool.fixes.fix import SAFE_TIERS
from kvtool.profiler.optimize.edited_files import edit_notes
from kvtool.profiler.optimize.optimizer import is_left_to_people
from kvtool.profiler.optimize.outcome import OptimizeOutcome
from kvtool.profiler.optimize.write_edits import undo_command
from kvtool.report.terminal.edits import place_of, put_notes, put_sentence, put_undo, put_warnings, what_of
from kvtool.report.terminal.hidden_text import put_prompt_patch
from kvtool.report.terminal.lines import put_head, put_next, shown_path
from kvtool.report.terminal.profile_blocks.breakpoints import print_breakpoints
from kvtool.results.documents.optimize import DoneStep, EditedLog, GroupRates, OptimizeDocument
from kvtool.results.finding import gain_basis
from kvtool.results.money import marks_in_words, tier_of_marks
from kvtool.text.terminal.console import ascii_only, put, put_field, sanitize, say
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

    from kvtool.results.show_text import ShowText

_COLUMNS = (
    Column("Step", "<"),
    Column("tier", "<"),
    Column("code", "<"),
    Column("group", "<"),
    Column("before", keep=2),
    Column("expected"),
    Column("after"),
    Column("alone", keep=1),
)
_GROUP_COLUMNS = (Column("Group", "<"), Column("requests", keep=1), Column("before"), Column("after"), Column("points"))


def print_optimize(
    console: Console,
    outcome: OptimizeOutcome,
    *,
    show_diff: bool,
    next_command: Sequence[str],
    show_text: ShowText = "full",
) -> None:
    """Print rates, steps in the order of their gain, what needs consent, the diff, and the next command."""
    plain = ascii_only(console)
    document = outcome.document
    _head(console, outcome, plain)
    _steps(console, outcome, plain)
    _forbidden(console, document, plain)
    if document.first_change:
        put(console)
        put_sentence(console, f"Change first: {sanitize(document.first_change, ascii_only=plain)}.", "bold")
    if document.settings:
        put(console)
    for each in document.settings:
        put_sentence(console, f"Request setting [P0]: {each.what}.", "bold")
        for warning in each.warnings:
            put_sentence(console, f"   look: {warning}", "yellow")
    if document.marks:
        put(console)
        told = marks_in_words(document.marks)
        put_sentence(
            console, f"Cache breakpoints [{tier_of_marks(document.marks)}]: {sanitize(told, ascii_only=plain)}.", "bold"
        )
    _named_caches(console, document, plain)
    if document.breakpoints is not None:
        print_breakpoints(console, document.breakpoints, plain=plain)
    patch = unified_patch(outcome.files)
    if show_diff and patch:
        put(console)
        put_prompt_patch(console, patch, plain=plain, show_text=show_text)
    if show_diff:
        _request(console, outcome, plain, show_text)
    put(console)
    _end(console, outcome, plain)
    if next_command:
        put(console)
        put_next(console, _todo(document), next_command)


def _named_caches(console: Console, document: OptimizeDocument, plain: bool) -> None:
    """Print which prefixes cost less in an explicit cache, and the code that makes it."""
    if not document.named_caches:
        return
    from kvtool.accounting.prices.bill import shown_money
    from kvtool.accounting.prices.explicit_caches import shown_ttl
    from kvtool.profiler.optimize.sdk_snippet import named_cache_snippet

    for each in document.named_caches:
        put(console)
        paid, cost, storage = (
            shown_money(Decimal(amount), each.currency) for amount in (each.paid, each.cost, each.storage)
        )
        end, model = (sanitize(text, ascii_only=plain) for text in (each.end, each.model))
        caches = "a cache" if each.kept == 1 else f"{each.kept} caches, one for each different prefix,"
        what = f"keep {model}'s prompts up to {end} ({each.tokens:,} tokens) in {caches} with a ttl of {shown_ttl(each.ttl)}"
        put_sentence(console, f"Explicit cache [P0]: {what}. Renew it with each use.", "bold")
        costs = f"{paid} paid, {cost} with it ({storage} for storage)"
        basis = "Estimate by the published prices, not run again."
        put_sentence(console, f"   {plural(each.requests, 'prompt')}: {costs}. {basis}")
        often = f"It pays from {each.uses_per_hour:,.1f} requests an hour, compared with no cache at all."
        put_sentence(console, f"   {often}")
        if document.output is not None:
            put_sentence(console, "   The written log does not use it: only a request to the provider makes a cache.")
    first = document.named_caches[0]
    put(console)
    put(console, "  Make it like this (google-genai):", "bold")
    for line in named_cache_snippet(first.end, first.ttl).split("\n"):
        put(console, f"  {line}")


def _request(console: Console, outcome: OptimizeOutcome, plain: bool, show_text: ShowText) -> None:
    """Print one edited request of a log as a diff, and the code that sends it, or one of a workload with a new cache breakpoint."""
    edited, example = outcome.document.edited_log, outcome.example
    if example is None:
        return
    from kvtool.profiler.optimize.request_diff import request_diff
    from kvtool.profiler.optimize.sdk_snippet import snippet

    put(console)
    group = sanitize(example.turn.group, ascii_only=plain) if len(outcome.document.groups) > 1 else ""
    where = f" (in {group})" if group else ""
    if edited is not None:
        put(console, f"  One of {plural(edited.requests, 'edited request')}{where}, before and after:", "bold")
        put_prompt_patch(console, request_diff(example), plain=plain, show_text=show_text)
        put(console)
    if outcome.sdk is not None:
        what = "it" if edited is not None else f"requests of {group}" if group else "requests"
        put(console, f"  Send {what} like this ({outcome.sdk}):", "bold")
        for line in snippet(example, outcome.sdk).split("\n"):
            put(console, f"  {sanitize(line, ascii_only=plain)}")
    if edited is None:
        return
    for reason, count in edited.left_as_they_are.items():
        put_sentence(
            console, f"{plural(count, 'request')} left as logged: {sanitize(reason, ascii_only=plain)}.", "yellow"
        )


def _todo(document: OptimizeDocument) -> str:
    """Return what the next command does."""
    edited = document.edited_log
    if edited is not None and edited.allowed:
        return "write the log with these edits" if document.output is None else "profile the log with these edits"
    if document.undo is not None:
        return "profile the edited prompts"
    if document.files:
        return "apply the edits"
    return "preview the edits that need your consent" if document.needs_consent else "write the log in this order"


def _head(console: Console, outcome: OptimizeOutcome, plain: bool) -> None:
    document = outcome.document
    parts = [
        "kvtool optimize",
        document.input,
        plural(document.requests, "request"),
        "providers' rules" if outcome.hosted else f"block {document.block_size}",
        f"tiers {', '.join(document.tiers)}",
    ]
    put_head(console, parts)
    for note in document.notes:
        say(console, sanitize(note, ascii_only=plain), hang=2, style="dim")
    put(console)
    edited, reported = document.edited_log, document.reported
    now = "now"
    if reported is not None:
        from kvtool.accounting.prices.bill import shown_money

        now = "by the published rules"
        paid = "" if reported.paid is None else f", paid {shown_money(Decimal(reported.paid), reported.currency)}"
        said = "reported by the provider"
        if reported.requests != document.requests:
            now += f" for {plural(document.requests, 'request')}"
            said = f"reported for {plural(reported.requests, 'request')}"
        said += paid
        put_field(console, "Hit rate", f"{percent(reported.hit_rate):>6}", said, size=11, hang=2, style="bold")
        if not reported.predictable:
            return
    for each in () if edited is None or len(document.groups) == 1 else edited.estimate:
        of = f" in {sanitize(each.group, ascii_only=plain)}"
        said = f"by the provider{of}; its published rules predict {percent(each.predicted)}"
        put_field(console, "Reported", f"{percent(each.reported):>6}", said, size=11, hang=2, style="bold")
    if edited is not None and edited.cost is not None:
        from kvtool.accounting.prices.bill import shown_money

        before, after = (Decimal(amount) for amount in (edited.cost.before, edited.cost.after))
        amounts = [shown_money(amount, edited.cost.currency) for amount in (before, after)]
        basis = now if reported is None else f"predicted {now}"
        said = f"{basis}, {amounts[1]} with these edits"
        put_field(console, "Cost", f"{amounts[0]:>6}", said, size=11, hang=2, style="bold" if edited.allowed else None)
    rates: list[tuple[str, float, str, str | None]] = [
        ("Hit rate" if reported is None else "Predicted", document.hit_rate.before, now, None)
    ]
    if edited is not None:
        rates.append(("Optimized", edited.hit_rate.after, _with(edited), "bold" if edited.allowed else None))
    if document.files:
        rates.append(("Optimized", document.hit_rate.after, "with the edits (verified by re-running)", "bold"))
    if (order := document.request_order) is not None:
        rates.append(
            ("Reordered", order.hit_rate.after, "with the log in another order (verified by re-running)", None)
        )
    for label, rate, text, style in rates:
        put_field(console, label, f"{percent(rate):>6}", text, size=11, hang=2, style=style)
    if document.files and len(document.groups) > 1:
        put(console)
        put_table(console, _GROUP_COLUMNS, [_group_row(group, plain) for group in document.groups])


def _with(edited: EditedLog) -> str:
    """Say with what a log was run again."""
    edits = "with the edits" if edited.allowed else "with the edits that need consent"
    return f"{edits} ({'estimate by the published rules' if edited.estimate else 'verified by re-running'})"


def _group_row(group: GroupRates, plain: bool) -> tuple[str, ...]:
    before, after = group.hit_rate.before, group.hit_rate.after
    rates = (percent(before), percent(after), f"{100 * (after - before):+.1f}")
    return (sanitize(group.name, ascii_only=plain), f"{group.requests:,}", *rates)


def _steps(console: Console, outcome: OptimizeOutcome, plain: bool) -> None:
    done, order = outcome.document.steps, outcome.order
    if not done and order is None:
        return
    put(console)
    are_edited = outcome.document.edited_log is None
    rows = [_row(number, each, plain, is_made=not (each.reason and are_edited)) for number, each in enumerate(done, 1)]
    if order is not None:
        rates = (percent(order.hit_rate.before), "-", *[percent(order.hit_rate.after)] * 2)
        rows.append((str(len(rows) + 1), order.fix.tier, order.fix.code, "all", *rates))
    put_table(console, _COLUMNS, rows)
    if outcome.document.reported is not None:
        put_sentence(console, "The rates of steps count kvtool tokens, those above the provider's.", "dim")
    put(console)
    same: dict[tuple[object, ...], list[int]] = {}
    for number, each in enumerate(done, 1):
        same.setdefault((what_of(each, plain), each.copied_from, *each.warnings), []).append(number)
    for (what, *_), numbers in same.items():
        put_sentence(console, f"{', '.join(map(str, numbers))}. {what}")
        put_warnings(console, done[numbers[0] - 1], plain, indent="   ")
    if order is not None:
        put_sentence(console, f"{len(rows)}. {order.fix.what}")
        if outcome.document.output is None:
            put_sentence(console, "   Not edited. -o FILE writes the log in this order.")
    if outcome.document.edited_log is None:
        _refused(console, done, plain)


def _refused(console: Console, done: Sequence[DoneStep], plain: bool) -> None:
    """Print each reason for which steps were not made once, with their numbers and places; and what is left to do by hand."""
    reasons: dict[str, list[tuple[int, DoneStep]]] = {}
    for number, each in enumerate(done, 1):
        if each.reason:
            reasons.setdefault(each.reason, []).append((number, each))
    if reasons:
        put(console)
    by_hand: dict[object, list[int]] = {}  # later steps at one place are other ways to do the first
    for reason, steps in reasons.items():
        numbers = [number for number, _ in steps]
        places = dict.fromkeys(place for _, step in steps if (place := place_of(step, plain)))
        where = f" ({', '.join(places)})" if places else ""
        put_sentence(
            console, f"Not made, {_steps_in_words(numbers)}{where}: {sanitize(reason, ascii_only=plain)}.", "yellow"
        )
        for number, step in steps if is_left_to_people(reason) else ():
            at = (step.path, step.line, step.column) if step.path is not None else number
            by_hand.setdefault(at, []).append(number)
    if by_hand:
        ways = sorted(map(sorted, by_hand.values()))
        put_sentence(console, f"Make {_steps_in_words([first for first, *_ in ways])} by hand, as described above.")
        for first, *others in ways:
            for other in others:
                same = "the same change as" if done[other - 1].fix == done[first - 1].fix else "an alternative to"
                put_sentence(console, f"Step {other} is {same} step {first}.")
        put_sentence(console, "Then profile again.")


def _steps_in_words(numbers: Sequence[int]) -> str:
    return f"step{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _row(number: int, step: DoneStep, plain: bool, *, is_made: bool) -> tuple[str, ...]:
    group = sanitize(step.group, ascii_only=plain)
    before, after = percent(step.files_hit_rate.before), percent(step.files_hit_rate.after)
    rates = (before, percent(step.hit_rate.after), after if is_made else "not made", percent(step.hit_rate.alone))
    return (str(number), step.tier, step.code, group, *rates)


def _forbidden(console: Console, document: OptimizeDocument, plain: bool) -> None:
    if not document.needs_consent:
        return
    put(console)
    given = {tier for tier in document.tiers if tier not in SAFE_TIERS}
    needed = ",".join(sorted({step.tier for step in document.needs_consent} | given))
    put(console, f"  Needs consent: --allow {needed}", "bold")
    edited = document.edited_log
    for step in document.needs_consent:
        basis = gain_basis(step.warnings, estimate=edited is not None and bool(edited.estimate))
        group = sanitize(step.group, ascii_only=plain)
        rates = f"{percent(step.hit_rate.before)} -> {percent(step.hit_rate.after)} ({basis})"
        put_sentence(console, f"{step.tier} {step.code} {group}: {what_of(step, plain)}: {rates}")
        put_warnings(console, step, plain, indent="   ")


def _end(console: Console, outcome: OptimizeOutcome, plain: bool) -> None:
    """Print what was written, or that nothing was."""
    document, files = outcome.document, outcome.files
    put_notes(console, edit_notes(document.input, files, [step for step in document.steps if step.edited]))
    if document.output is not None:
        how = "in the new order" if document.edited_log is None else "with the edits"
        instead = ", in place of an existing file" if outcome.replaced else ""
        say(console, f"Written {how}{instead}: {shown_path(document.output, plain)}", indent=0)
    if document.undo is not None:
        say(console, f"Wrote {plural(len(files), 'file')}. Undo with:", indent=0)
        put_undo(console, undo_command(files, document.undo))
    elif files:
        say(console, f"Nothing was written. {plural(len(files), 'file')} would change.", indent=0)
    elif document.edited_log is not None and document.edited_log.allowed:
        if document.output is None:
            say(console, "Nothing was written. A log is a record: change the code that sends these requests.", indent=0)
    elif document.steps:
        say(console, "Nothing was written: kvtool made no step.", indent=0)
    elif document.request_order is not None:
        say(console, "The prompts need no change.", indent=0)
    elif document.needs_consent:
        done = f"Nothing to change in the tiers {', '.join(document.tiers)}."
        say(
            console,
            done if document.edited_log is None else "Nothing was written: these edits need your consent.",
            indent=0,
        )
    else:
        if document.reported is not None and not document.reported.predictable:
            say(console, "No edit was tried: the log does not contain what predictions need.", indent=0)
            return
        if document.calibration is not None and not document.calibration.advises:
            from kvtool.report.views.misses import agreement_in_words

            say(console, agreement_in_words(document.calibration), indent=0)
            return
        say(
            console,
            "kvtool found no edit that raises the hit rate. kvtool profile shows what is still not reused, and why.",
            indent=0,
        )
