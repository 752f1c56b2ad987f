"""The engine against the plain one for as long as one likes: python -m tests.fuzz.machine --steps 1000000 --seed N."""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass

from tests.fuzz.both_engines import BothEngines, random_config, random_operation

_LENGTH = 300
"""Operations on one pair of engines, before both finish what they have."""


@dataclass
class EarlierPrompt:
    """How much of what makes schedulers differ has happened."""

    operations: int = 0
    steps: int = 0
    admissions: int = 0
    hit_tokens: int = 0
    preemptions: int = 0
    evictions: int = 0


def run(seed: int, most: int, length: int = _LENGTH) -> EarlierPrompt:
    """`most` operations, on one pair of engines after the other, compared after each. An AssertionError is a difference."""
    seen = EarlierPrompt()
    number = 0
    while seen.operations < most:
        rng = random.Random(f"{seed}/{number}")
        both = BothEngines(random_config(rng))
        try:
            for _ in range(min(length, most - seen.operations)):
                random_operation(rng, both)
                both.compare()
                seen.operations += 1
            both.finish()
        except AssertionError as error:
            error.add_note(f"seed {seed}, pair {number}, operation {seen.operations}: {both.config}")
            raise
        scheduler = both.engine
        seen.steps += scheduler.num_steps
        seen.admissions += both.submitted
        seen.hit_tokens += scheduler.stats.hits + scheduler.stats.preempted_hits
        seen.preemptions += scheduler.num_preemptions
        seen.evictions += scheduler.cache.num_evictions
        number += 1
    return seen


def main() -> None:
    """Run, and say how much was done."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.machine", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="operations, each of which is compared [100000]")
    parser.add_argument("--seed", type=int, default=0, help="of everything random [0]")
    asked = parser.parse_args()
    begin = time.process_time()
    seen = run(asked.seed, asked.steps)
    print(
        f"{seen.operations:,} operations, seed {asked.seed}: no difference, {time.process_time() - begin:.0f} s of CPU"
    )
    print(f"  {seen.steps:,} steps of the engine, {seen.admissions:,} requests, {seen.hit_tokens:,} hit tokens")
    print(f"  {seen.preemptions:,} preemptions, {seen.evictions:,} evictions")


if __name__ == "__main__":
    main()
