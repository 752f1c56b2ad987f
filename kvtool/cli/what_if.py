"""The command `kvtool what-if`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, get_args

from kvtool.cli.command import Command
from kvtool.config import bounds
from kvtool.config.option import Argument, Option, check_values, only
from kvtool.config.run_options import Reading, Rendering, Serving, Tracing
from kvtool.config.shown_options import Configured, Showing
from kvtool.config.spread_options import Spreading
from kvtool.errors import KvtoolError
from kvtool.results.choices import Axis, Policy
from kvtool.text.terminal.streams import check_piped

if TYPE_CHECKING:
    from kvtool.profiler.what_if.sweeps import AskedSweep
    from kvtool.results.documents.what_if import WhatIfDocument

_MOST = 10**12


@dataclass(frozen=True, kw_only=True)
class WhatIfCommand(Command):
    """What the same requests would hit with another cache: every size in one pass, other policies, lifetimes, block sizes.

    Nothing is run but the accounting of blocks; each row is counted on the requests themselves.
    """

    inputs: Annotated[tuple[str, ...], Argument("Logs, traces, workload.yaml, folders or patterns; or -.", "INPUT")]
    sweep: Annotated[Axis, Option("What is changed.")] = "capacity"
    capacities: Annotated[str | None, Option("Blocks to try. [default: spread over what there is]", "N,...")] = None
    policies: Annotated[
        str | None, Option("lru, fifo, lfu, sieve, s3fifo, arc, and opt, the bound. [default: all]", "NAME,...")
    ] = None
    ttls: Annotated[str | None, Option("Times to live to try: 30s,5m,1h.", "TIME,...")] = None
    block_sizes: Annotated[str | None, Option("Multiples of the block to try.", "N,...")] = None
    sample: Annotated[
        float, Option("Part of the blocks that the capacity curve is counted with.", "X", check=bounds.fraction)
    ] = 1.0
    rendering: Rendering
    serving: Annotated[Serving, only("block_size")]
    tracing: Annotated[Tracing, only("rules", "trace_block_size")]
    reading: Annotated[
        Reading,
        only("on_bad_line", "log_format", "log_map", "tenant", "requests", "groups", "seed", "allow_outside", "jobs"),
    ]
    spreading: Spreading
    configured: Configured
    showing: Annotated[Showing, only("json", "offline", "quiet", "color", "plain", "width")]

    def run(self) -> int:
        """Count and print; KvtoolError for what cannot be read or does not go together."""
        check_values(self)
        check_piped("what-if", self.inputs)
        from kvtool.text.terminal.streams import printing

        document = self._document()
        with printing():
            if self.showing.json:
                sys.stdout.write(document.to_json())
            else:
                from kvtool.report.terminal.what_if import print_what_if

                print_what_if(self.showing.console(), document)
        return 0

    def _document(self) -> WhatIfDocument:
        from kvtool.config.asked_run import RunOptions
        from kvtool.config.loading import read_config
        from kvtool.profiler.opening import open_workload
        from kvtool.profiler.what_if.planning_pass import block_trace
        from kvtool.profiler.what_if.sweep_tasks import swept
        from kvtool.results.documents.what_if import WhatIfDocument
        from kvtool.text.tokens.tokenizer import Tokenizers

        rules = self.tracing.rules or "vllm"
        if rules not in ("vllm", "block-lru"):
            raise KvtoolError(
                f"sweeps follow vllm or block-lru, not {rules}", hint="kvtool profile --rules all compares engines"
            )
        tasks = self.spreading.tasks(self.reading.jobs)
        asked = self._asked(whole=rules == "block-lru")
        options = RunOptions(
            inputs=self.inputs,
            rendering=self.rendering,
            serving=self.serving,
            tracing=self.tracing,
            reading=self.reading,
        ).over(read_config(self.configured, allow_outside=self.reading.allow_outside))
        options.check()
        opened = open_workload(options, Tokenizers(offline=self.showing.offline))
        with self.showing.progress() as progress:
            trace, notes = block_trace(opened, progress)
            rows, lost = swept(trace, asked, tasks, progress)
        blocks = asked.blocks(trace)
        reachable = blocks.reachable
        return WhatIfDocument(
            schema="kvtool.what-if/1",
            input=opened.name,
            rules=rules,
            block_size=trace.block_size,
            requests=len(trace),
            references=blocks.references,
            distinct_blocks=trace.distinct,
            reachable_blocks=reachable,
            reachable_hit_rate=reachable / blocks.references if blocks.references else 0.0,
            sampled=self.sample if self.sweep == "capacity" else 1.0,
            notes=[*notes, *lost],
            rows=rows,
        )

    def _asked(self, *, whole: bool) -> AskedSweep:
        from kvtool.profiler.what_if.sweeps import AskedSweep
        from kvtool.text.quantities import parse_duration

        self._check_together()
        policies: list[Policy] = []
        for name in _listed(self.policies):
            found = next((each for each in get_args(Policy) if each == name.replace("-", "")), None)
            if found is None:
                raise KvtoolError(
                    f"--policies: no policy {name[:40]!a} is known", hint=f"one of {', '.join(get_args(Policy))}"
                )
            policies.append(found)
        try:
            ttls = [parse_duration(text) for text in _listed(self.ttls)]
        except ValueError as error:
            raise KvtoolError(f"--ttls: {error}") from error
        return AskedSweep(
            self.sweep,
            whole,
            policies=policies,
            capacities=_numbers("--capacities", self.capacities, 0),
            ttls=ttls,
            block_sizes=_numbers("--block-sizes", self.block_sizes, 1),
            sample=self.sample,
        )

    def _check_together(self) -> None:
        """Which lists belong to which axis."""
        of: dict[str, tuple[Axis, ...]] = {
            "policies": ("policy",),
            "ttls": ("ttl",),
            "block_sizes": ("block-size",),
            "capacities": ("capacity", "policy", "block-size"),
        }
        for name, axes in of.items():
            if getattr(self, name) is not None and self.sweep not in axes:
                flag = f"--{name.replace('_', '-')}"
                raise KvtoolError(
                    f"{flag} is for --sweep {' or '.join(axes)}, not {self.sweep}", hint=f"leave {flag} out"
                )
        if self.sample < 1 and self.sweep != "capacity":
            raise KvtoolError("--sample is for --sweep capacity", hint="leave --sample out")


def _listed(text: str | None) -> list[str]:
    return [] if text is None else [part for each in text.split(",") if (part := each.strip().lower())]


def _numbers(flag: str, text: str | None, least: int) -> list[int]:
    found = []
    for part in _listed(text):
        digits = part.replace("_", "")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 13 and least <= int(digits) <= _MOST):
            raise KvtoolError(f"{flag}: {part[:40]!a} is not a number of at least {least}", hint=f"{flag} 1000,10000")
        found.append(int(digits))
    return found
