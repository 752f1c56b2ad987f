"""Mutated inputs by hand, as many as one likes: python -m tests.fuzz --budget SECONDS --seed N, in the root of the repository.

Every input goes through the command line in a forked child with limits of memory and CPU time. What is wrong is printed with its
kind and number; `--kind KIND --number N` runs one input again and shows all of it, `--keep FOLDER` writes the files of those that
are wrong. `--and` begins the options of one more session, which needs no second start. The exit code is 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from tests.fuzz.forked import Job, Ran, run_jobs
from tests.fuzz.judge import faults
from tests.fuzz.kinds import NUMBERED, Kind, job, with_numbers
from tests.fuzz.session import Tally, begin, cpu_seconds, run_session, until
from tests.tokenizers_made import byte_tokenizer_json


def main() -> int:
    """Parse, run, tell; the options of several sessions are parted by `--and`."""
    parser = _parser()
    sessions: list[list[str]] = [[]]
    for word in sys.argv[1:]:
        if word == "--and":
            sessions.append([])
        else:
            sessions[-1].append(word)
    all_asked = [parser.parse_args(each) for each in sessions]
    samples = all_asked[0].samples
    kinds, common = begin(byte_tokenizer_json(), samples and samples.resolve())
    return max([_session(parser, asked, kinds, common) for asked in all_asked])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--budget", type=float, default=60.0, help="seconds by the clock [60]")
    parser.add_argument("--seed", type=int, default=0, help="of everything random [0]")
    parser.add_argument("--most", type=int, default=1 << 62, help="inputs, where that is less")
    parser.add_argument("--kind", action="append", help="only this kind; repeatable")
    parser.add_argument("--number", type=int, help="with --kind: this input alone, shown as a whole")
    parser.add_argument("--keep", type=Path, help="write the files of wrong inputs below this folder")
    parser.add_argument("--samples", type=Path, help="also mutate the logs below this folder")
    parser.add_argument(
        "--unchanged", action="store_true", help="mutate nothing: all must be taken, but for wild options"
    )
    parser.add_argument("--numbers", action="store_true", help="only put hostile numbers where JSON has numbers")
    return parser


def _session(
    parser: argparse.ArgumentParser, asked: argparse.Namespace, kinds: list[Kind], common: dict[str, bytes]
) -> int:
    known = {kind.name: kind for kind in kinds}
    if unknown := set(asked.kind or ()) - known.keys():
        parser.error(f"there is no kind {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [known[name] for name in asked.kind or known]
    if asked.unchanged:
        chosen = [replace(kind, mutate=lambda _, data: data) for kind in chosen if kind.lines]
    if asked.numbers:
        chosen = [with_numbers(kind) for kind in chosen if kind.name in NUMBERED]
    if asked.number is not None:
        return _show(job(chosen[0], asked.seed, asked.number, common), asked.keep)

    def told(ran: Ran, reasons: list[str]) -> None:
        print(f"{ran.job.kind} {ran.job.number}: {'; '.join(reasons)[:300]}\n    {_line(ran.job)}", flush=True)
        for line in ran.err.splitlines()[:2]:
            print(f"    {ascii(line)[:200]}", flush=True)
        if asked.keep is not None:
            _write(ran.job, asked.keep)

    tally = run_session(chosen, common, seed=asked.seed, most=asked.most, more=until(asked.budget), told=told)
    _summarize(tally, asked.seed)
    if asked.unchanged:
        return _all_taken(tally)
    return 1 if tally.wrong else 0


def _all_taken(tally: Tally) -> int:
    """Each kind must be read by nearly all of its command lines: a few do not go with some of its inputs."""
    poor = [
        name for name, count in tally.runs.items() if count * 3 > 4 * sum(tally.codes[name, code] for code in (0, 1))
    ]
    print(f"refused too often: {', '.join(poor) or 'none'}")
    return 1 if poor or tally.wrong else 0


def _summarize(tally: Tally, seed: int) -> None:
    print(f"\n{sum(tally.runs.values())} inputs, seed {seed}: {len(tally.wrong)} wrong")
    for name, count in sorted(tally.runs.items()):
        codes = {code: number for (kind, code), number in tally.codes.items() if kind == name}
        print(
            f"  {name:<12} {count:6}, exit codes "
            + ", ".join(f"{code}: {codes[code]}" for code in sorted(codes, key=str))
        )
    print(
        f"  {cpu_seconds():.0f} s of CPU, {tally.seconds:.0f} of it in commands; most memory {tally.peak_bytes >> 20} MB"
    )
    print("  slowest " + ", ".join(f"{kind} {number} {seconds:.1f} s" for seconds, kind, number in tally.slowest[::-1]))
    print(f"  {sum(tally.unplaced.values())} errors without a line, such as")
    for (kind, line), count in tally.unplaced.most_common(40):
        print(f"    {count:5} {kind}: {line!a}")


def _show(one: Job, keep: Path | None) -> int:
    if keep is not None:
        _write(one, keep)
    ran = next(run_jobs([one]))
    for name in one.mutated:
        print(f"--- {name}")
        print(ascii(one.files[name].decode("utf-8", "backslashreplace")).replace("\\n", "\n"))
    reasons = list(faults(ran))
    print(f"--- {_line(one)}\ncode {ran.code}, signal {ran.signal}, {ran.seconds:.2f} s, {ran.peak_bytes >> 20} MB")
    print("\n".join(map(ascii, ran.err.splitlines())))
    print("wrong: " + "; ".join(reasons) if reasons else "right")
    return 1 if reasons else 0


def _line(one: Job) -> str:
    return f"{one.program} {' '.join(map(ascii, one.arguments))}"


def _write(one: Job, folder: Path) -> None:
    for name, data in one.files.items():
        path = folder / f"{one.kind}-{one.number}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / f"{one.kind}-{one.number}" / "COMMAND").write_text(
        _line(one) + "\n", encoding="utf-8", errors="backslashreplace"
    )


if __name__ == "__main__":
    sys.exit(main())
