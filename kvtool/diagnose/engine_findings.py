"""What a run by another engine's rules explains: in that engine's words, and with the settings that it has against it."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.codes.entry import CodeEntry
from kvtool.diagnose.codes.layout.kv203 import KV203
from kvtool.diagnose.codes.layout.kv204 import KV204
from kvtool.diagnose.codes.run.kv301 import KV301
from kvtool.diagnose.codes.run.kv303 import KV303
from kvtool.diagnose.codes.run.kv331 import KV331
from kvtool.diagnose.codes.run.kv332 import KV332
from kvtool.diagnose.codes.run.kv333 import KV333
from kvtool.diagnose.codes.run.kv334 import KV334
from kvtool.diagnose.codes.run.kv335 import KV335
from kvtool.diagnose.fate_finding import fate_finding
from kvtool.engine.rules.rule_set import RuleChoice
from kvtool.results.finding import Finding

_MESSAGES = {
    "evicted": "evicted before reuse: {engine} had no room for it",
    "slot_lost": "its slot took another prompt, and nothing that was saved could stand in for it",
    "host_list_full": "saved in host memory, and thrown away for what was saved later",
    "window": "layers with a sliding window no longer had what the prefix needs",
    "taken_over": "another prompt took over the last block in which it stood",
    "partial_block": "shared prefixes end inside of pages of {unit:,} tokens",
}
_CODES: dict[str, CodeEntry] = {fate: code for code in (KV301, KV303, KV331, KV332, KV333, KV334) for fate in code.wins}


def code_of(fate: str, group: GroupTotals) -> CodeEntry | None:
    """Which code tells of a fate under another engine's rules; of parts of pages that depends on whether any hit at all."""
    if fate == "partial_block":
        return KV204 if group.hit_tokens else KV203
    return _CODES.get(fate)


def engine_findings(groups: Iterable[GroupTotals], choice: RuleChoice, *, path: str, tenants: int) -> list[Finding]:
    """What each group lost to the engine's rules; `tenants` is how many salts the run had, which some engines leave out."""
    settings = choice.rules.remedies(choice.options)
    found: list[Finding] = []
    name = ""
    for group in groups:
        name = name or group.name
        for fate, message in _MESSAGES.items():
            code = code_of(fate, group)
            if code is None:
                continue
            text = message.format(engine=choice.rules.engine, unit=choice.unit)
            fix = next((each.what for each in settings if each.fate == fate), "no setting of the engine changes that")
            finding = fate_finding(code, group.fates[fate], group, (text, fix), path=path)
            found += [finding] if finding is not None else []
    if tenants > 1 and not choice.rules.scopes:
        text = (
            f"{tenants:,} tenants share one cache: {choice.rules.engine} knows no salts; "
            "who guesses a prompt can tell that it was sent"
        )
        fix = "run a server for each tenant, or an engine that knows salts"
        found.append(Finding.of(KV335.code, "warning", name, path, 0, 0, text, 0, fix))
    return found
