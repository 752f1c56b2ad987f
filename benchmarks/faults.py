"""Faults put into servers, and what `kvtool why` names first; healthy runs, of which it must blame none.

    python -m benchmarks.faults [--seeds 0 1 2] [--only NAME] [--verbose]

Each fault is a server of kvtool's own engine with the configuration, the traffic or the accident that the fault is, and random
prompts of the seed. What the user would have is written down or served over HTTP: counters alone (M), KV events (E), a log (L).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvtool.cli.app import run
from kvtool.engine.groups.kv_group import CachePlan, KVGroup
from tests.measure.servers.engine_server import Answered, Clock, EngineServer, log_row, tokens_of, write_log
from tests.measure.servers.metrics_server import pages, serving

Rng = random.Random
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass
class Case:
    """The surroundings of one run: its chance, its folder, what ends with it, and its clock."""

    rng: Rng
    folder: Path
    stack: ExitStack
    clock: Clock = field(default_factory=Clock)
    made: int = 0

    def server(self, **how: Any) -> EngineServer:
        """A server."""
        return EngineServer(self.clock, **how)

    def url(self, server: EngineServer, text: str | None = None, **config: str) -> str:
        """Its URL, while the run lasts."""
        found = server.pages(**config)
        if text is not None:
            found["/metrics"] = text
        return self.stack.enter_context(serving(pages(found))).url

    def hidden(self) -> str:
        """The URL of a gateway that shows nothing."""
        return self.stack.enter_context(serving(pages({}))).url

    def recorded(self, server: EngineServer, before: str | None = None, *, events: bool = True) -> list[str]:
        """The arguments for its recording."""
        self.made += 1
        return ["--recorded", str(server.write(self.folder / f"server{self.made}", before, events=events))]

    def log(self, rows: Sequence[dict[str, Any]]) -> str:
        """The path of a log."""
        return str(write_log(self.folder / "log.jsonl", rows))

    def words(self, low: int, high: int) -> str:
        """Words that nobody said before."""
        count = self.rng.randint(low, high)
        return " ".join("".join(self.rng.choices(_LETTERS, k=self.rng.randint(3, 9))) for _ in range(count))

    def chats(self, system: str, sessions: int = 6, turns: int = 5) -> list[str]:
        """Turns of several conversations, one after the other in turn."""
        told = [f"{system}\n" for _ in range(sessions)]
        texts = []
        for _ in range(turns):
            for at in range(sessions):
                told[at] += f"User: {self.words(20, 60)}\n"
                texts.append(told[at])
        return texts


Make = Callable[[Case], list[str]]


@dataclass(frozen=True)
class Fault:
    """What is wrong, the names under which it may be found, what the user has, and the arguments of `kvtool why`."""

    name: str
    expected: frozenset[str]
    has: str
    make: Make


FAULTS: list[Fault] = []
HEALTHY: list[Fault] = []


def fault(name: str, expected: str, has: str) -> Callable[[Make], Make]:
    """Declare a fault; `expected` names causes, with commas between them."""

    def declare(make: Make) -> Make:
        FAULTS.append(Fault(name, frozenset(expected.split(",")), has, make))
        return make

    return declare


def healthy(name: str, has: str) -> Callable[[Make], Make]:
    """Declare a healthy run."""

    def declare(make: Make) -> Make:
        HEALTHY.append(Fault(name, frozenset(), has, make))
        return make

    return declare


def served(server: EngineServer, texts: Sequence[str], **how: Any) -> list[Answered]:
    """Every prompt, one after the other."""
    return [server.serve(ids, **how) for ids in tokens_of(texts)]


def rows_of(texts: Sequence[str], answers: Sequence[Answered], **fields: object) -> list[dict[str, Any]]:
    """The log of what was answered."""
    return [log_row(text, answer, **fields) for text, answer in zip(texts, answers, strict=True)]


@fault("prefix caching off", "caching off", "M")
def _(case: Case) -> list[str]:
    server = case.server(caching=False)
    served(server, case.chats(case.words(200, 400)))
    return [case.url(server)]


@fault("prefix caching off behind a gateway", "caching off", "L")
def _(case: Case) -> list[str]:
    server = case.server(caching=False)
    texts = case.chats(case.words(200, 400))
    return [case.hidden(), case.log(rows_of(texts, served(server, texts)))]


@fault("prompts shorter than a block", "short prompts", "M")
def _(case: Case) -> list[str]:
    server = case.server(block_size=1024)
    served(server, [case.words(20, 60) for _ in range(30)])
    return [case.url(server)]


@fault("shared prefix shorter than a block", "short prompts", "L")
def _(case: Case) -> list[str]:
    server = case.server(block_size=case.rng.choice([512, 784, 1056]))
    system = case.words(60, 90)
    texts = [f"{system} {case.words(5, 20)}" for _ in range(30)]
    return [case.url(server), case.log(rows_of(texts, served(server, texts)))]


@fault("shared prefix shorter than a block of states, model unknown", "short prompts", "L")
def _(case: Case) -> list[str]:
    size = case.rng.choice([528, 784, 1056])
    server = case.server(plan=_state_plan(size), blocks=4000)
    system = case.words(60, 90)
    texts = [f"{system} {case.words(20, 120)}" for _ in range(40)]
    rows = rows_of(texts, served(server, texts))
    return [case.url(server, mamba_block_size=str(size), prefix_cache_retention_interval="0"), case.log(rows)]


@fault("states kept only at the ends of prompts, model unknown", "model groups", "L")
def _(case: Case) -> list[str]:
    size = 528
    server = case.server(plan=_state_plan(size), blocks=9000)
    systems = [case.words(500, 600) for _ in range(8)]
    # What the shared text has beyond whole blocks is lost for sure: of long prompts it is the smaller part.
    texts = [f"{system} {case.words(700, 900)}" for system in systems for _ in range(2)]
    rows = rows_of(texts, served(server, texts))
    return [case.url(server, mamba_block_size=str(size), prefix_cache_retention_interval="0"), case.log(rows)]


def _window_plan(rng: Rng) -> CachePlan:
    size, window = 16, rng.choice([64, 128])
    groups = (
        *(KVGroup(kind="sliding", block_size=size, window=window, spec_id=0) for _ in range(rng.randint(1, 3))),
        KVGroup(kind="full", block_size=size, spec_id=1),
    )
    return CachePlan(
        groups=groups, bytes_per_block=1, scheduler_block_size=size, hash_block_size=size, hit_alignment=size
    )


def _state_plan(size: int = 64) -> CachePlan:
    groups = (KVGroup(kind="mamba", block_size=size, spec_id=0), KVGroup(kind="full", block_size=size, spec_id=1))
    return CachePlan(
        groups=groups, bytes_per_block=1, scheduler_block_size=size, hash_block_size=size, hit_alignment=size
    )


@fault("window layers keep only the end of a prompt", "model groups", "E")
def _(case: Case) -> list[str]:
    server = case.server(plan=_window_plan(case.rng), blocks=4000)
    for _ in range(12):
        system = case.words(100, 200)
        served(server, [f"{system} {case.words(20, 40)}" for _ in range(2)])
    return case.recorded(server)


@fault("layers with states keep only the end of a prompt", "model groups", "E")
def _(case: Case) -> list[str]:
    server = case.server(plan=_state_plan(), blocks=4000)
    system = case.words(200, 400)
    branches = [f"{system} {case.words(40, 90)}" for _ in range(10)]
    served(server, [f"{each} {case.words(5, 30)}" for each in branches for _ in range(2)])
    return case.recorded(server)


@fault("cache too small", "capacity", "E")
def _(case: Case) -> list[str]:
    server = case.server(blocks=case.rng.randint(150, 260))
    served(server, case.chats(case.words(100, 200), sessions=case.rng.randint(8, 12)))
    return case.recorded(server)


@fault("cache too small", "capacity", "L")
def _(case: Case) -> list[str]:
    server = case.server(blocks=case.rng.randint(150, 260))
    texts = case.chats(case.words(100, 200), sessions=case.rng.randint(8, 12))
    return [case.url(server), case.log(rows_of(texts, served(server, texts)))]


@fault("requests preempted", "capacity", "M")
def _(case: Case) -> list[str]:
    server = case.server(blocks=120)
    for _ in range(4):
        server.serve_all(list(tokens_of([case.words(60, 80) for _ in range(8)])), answer=80)
    return [case.url(server)]


def _round_robin(servers: Sequence[EngineServer], texts: Sequence[str], rng: Rng) -> list[Answered]:
    return [rng.choice(servers).serve(ids) for ids in tokens_of(texts)]


@fault("two replicas, no affinity", "routing", "E")
def _(case: Case) -> list[str]:
    servers = [case.server(blocks=4000) for _ in range(2)]
    _round_robin(servers, case.chats(case.words(100, 200)), case.rng)
    return [each for server in servers for each in case.recorded(server)]


@fault("two replicas, no affinity", "routing", "L")
def _(case: Case) -> list[str]:
    servers = [case.server(blocks=4000) for _ in range(2)]
    texts = case.chats(case.words(100, 200))
    answers = _round_robin(servers, texts, case.rng)
    return [*(case.url(server) for server in servers), case.log(rows_of(texts, answers))]


@fault("four engines behind one URL", "routing", "M")
def _(case: Case) -> list[str]:
    servers = [case.server(blocks=4000, engine_label=str(number)) for number in range(4)]
    _round_robin(servers, case.chats(case.words(100, 200)), case.rng)
    return [case.url(servers[0], _together([server.metrics() for server in servers]))]


def _together(texts: Sequence[str]) -> str:
    lines = [line for text in texts for line in text.splitlines() if line]
    return "\n".join([*dict.fromkeys(line for line in lines if line.startswith("#")), *_samples(lines), ""])


def _samples(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if not line.startswith("#")]


@fault("a salt for each request", "salts", "E")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    for text in case.chats(case.words(100, 200)):
        served(server, [text], salt=case.words(1, 1))
    return case.recorded(server)


@fault("a salt for each request", "salts", "L")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    rows = []
    for text in case.chats(case.words(100, 200)):
        salt = case.words(1, 1)
        rows += rows_of([text], served(server, [text], salt=salt), cache_salt=salt)
    return [case.url(server), case.log(rows)]


@fault("adapters in turn", "adapters", "E")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    system = case.words(200, 300)
    for number in range(30):
        served(server, [f"{system} {case.words(5, 20)}"], lora=f"adapter-{number}")
    return case.recorded(server)


@fault("the server's template has another beginning", "other tokens", "L")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    texts = case.chats(case.words(100, 200))
    answers = served(server, [f"{case.words(4, 8)} {text}" for text in texts])
    return [case.url(server), case.log(rows_of(texts, answers))]


@fault("a second tier with other chunks", "chunk size", "M")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    served(server, case.chats(case.words(100, 200)))
    server.external = server.prompt - server.hits
    return [case.url(server)]


@fault("a router with other blocks", "chunk size", "M")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    served(server, case.chats(case.words(100, 200)))
    return [case.url(server), "--router-block-size", str(case.rng.choice([32, 64, 256]))]


@fault("log probabilities of prompts", "request fields", "M")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    texts = case.chats(case.words(100, 200))
    served(server, texts[::4])
    served(server, texts, logprobs=True)
    return [case.url(server)]


@fault("log probabilities of prompts", "request fields", "L")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    texts = case.chats(case.words(100, 200))
    answers = served(server, texts, logprobs=True)
    return [case.url(server), case.log(rows_of(texts, answers, prompt_logprobs=1))]


@fault("others fill the cache", "other traffic", "L")
def _(case: Case) -> list[str]:
    server = case.server(blocks=case.rng.randint(300, 400))
    texts = case.chats(case.words(100, 200), sessions=3, turns=8)
    answers: list[Answered] = []
    for at, ids in enumerate(tokens_of(texts)):
        answers.append(server.serve(ids))
        if at % 3 == 2:
            served(server, [case.words(300, 400) for _ in range(4)])
    return [case.url(server), case.log(rows_of(texts, answers))]


@fault("restarted in between", "restart", "M")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    texts = case.chats(case.words(100, 200))
    served(server, texts[:15])
    before = server.metrics()
    server.start()
    served(server, texts[15:])
    return case.recorded(server, before, events=False)


@fault("restarted again and again", "restart", "E")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    for at, text in enumerate(case.chats(case.words(200, 300))):
        if at % 5 == 4:
            server.start()
        served(server, [text])
    return case.recorded(server)


@fault("cache cleared again and again", "cache reset", "E")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    for at, text in enumerate(case.chats(case.words(200, 300))):
        if at % 4 == 3:
            server.clear()
        served(server, [text])
    return case.recorded(server)


def _stamped(case: Case) -> list[str]:
    system = case.words(200, 300)
    return [
        f"It is 2026-11-{case.rng.randint(1, 28):02} {case.rng.randint(0, 23):02}:{case.rng.randint(0, 59):02}. {system} "
        f"{case.words(5, 20)}"
        for _ in range(30)
    ]


@fault("the time at the front", "prompts", "E")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    served(server, _stamped(case))
    return case.recorded(server)


@fault("the time at the front", "prompts", "L")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    texts = _stamped(case)
    return [case.url(server), case.log(rows_of(texts, served(server, texts)))]


@fault("two versions behind one URL", "several servers", "M")
def _(case: Case) -> list[str]:
    servers = [case.server(blocks=blocks) for blocks in (400, 500)]
    _round_robin(servers, case.chats(case.words(100, 200)), case.rng)
    texts = [server.metrics() for server in servers]
    turns = iter(range(1000))

    def answer(path: str, _before: int) -> Any:
        at = next(turns) % 2
        return pages({**servers[at].pages(), "/metrics": texts[at]})(path, 0)

    return [case.stack.enter_context(serving(answer)).url]


@healthy("chats that hit", "M")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    served(server, case.chats(case.words(200, 400)))
    return [case.url(server)]


@healthy("chats that hit", "E")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    served(server, case.chats(case.words(200, 400)))
    return case.recorded(server)


@healthy("chats that hit", "L")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    texts = case.chats(case.words(200, 400))
    return [case.url(server), case.log(rows_of(texts, served(server, texts)))]


@healthy("prompts that share nothing", "E")
def _(case: Case) -> list[str]:
    server = case.server(blocks=600)
    served(server, [case.words(60, 200) for _ in range(40)])
    return case.recorded(server)


@healthy("prompts that share nothing", "L")
def _(case: Case) -> list[str]:
    server = case.server(blocks=600)
    texts = [case.words(60, 200) for _ in range(40)]
    return [case.url(server), case.log(rows_of(texts, served(server, texts)))]


@healthy("evictions of what nobody needs again", "E")
def _(case: Case) -> list[str]:
    server = case.server(blocks=400)
    for _ in range(6):
        served(server, case.chats(case.words(100, 150), sessions=1, turns=5))
    return case.recorded(server)


@healthy("replicas with affinity", "E")
def _(case: Case) -> list[str]:
    servers = [case.server(blocks=4000) for _ in range(2)]
    for server in servers:
        served(server, case.chats(case.words(100, 200)))
    return [each for server in servers for each in case.recorded(server)]


@healthy("tenants with prompts of their own", "E")
def _(case: Case) -> list[str]:
    server = case.server(blocks=4000)
    for _ in range(3):
        served(server, case.chats(case.words(100, 200), sessions=3), salt=case.words(1, 1))
    return case.recorded(server)


@healthy("an idle server", "M")
def _(case: Case) -> list[str]:
    return [case.url(case.server())]


@healthy("a log that is a part of the traffic", "L")
def _(case: Case) -> list[str]:
    server = case.server(blocks=8000)
    texts = case.chats(case.words(200, 400))
    answers = served(server, texts)
    served(server, case.chats(case.words(200, 400)))
    return [case.url(server), case.log(rows_of(texts, answers))]


@contextmanager
def made_case(name: str, seed: int) -> Iterator[Case]:
    """The surroundings of a run, until the block ends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield Case(random.Random(f"{name} {seed}"), folder, stack)


def verdict(each: Fault, seed: int) -> dict[str, Any]:
    """What `kvtool why` says of a fault or of a healthy run."""
    with made_case(f"{each.name} {each.has}", seed) as case:
        arguments = each.make(case)
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            code = run(["why", *arguments, "--json", "-q"])
    assert code == 0, (each.name, err.getvalue())
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def named_first(found: dict[str, Any]) -> str | None:
    """The first cause, whatever it rests on."""
    return found["causes"][0]["cause"] if found["causes"] else None


def blamed(found: dict[str, Any]) -> str | None:
    """The cause that a healthy run is blamed for; None where it is not."""
    return named_first(found) if found["verdict"] == "cause" else None


def main() -> None:
    """Run all seeds, and print what was named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    for title, cases in (("faults", FAULTS), ("healthy runs", HEALTHY)):
        chosen = [each for each in cases if given.only is None or given.only in each.name]
        right = 0
        for each in chosen:
            results = [verdict(each, seed) for seed in given.seeds]
            if cases is FAULTS:
                good = [named_first(found) in each.expected for found in results]
            else:
                good = [blamed(found) is None for found in results]
            right += all(good)
            firsts = ", ".join(sorted({str(named_first(found)) for found in results}))
            print(f"{'ok  ' if all(good) else 'MISS'} {each.has} {each.name}: {firsts} [{results[0]['verdict']}]")
            if given.verbose:
                print(json.dumps(results[0], indent=1))
        print(f"{title}: {right} of {len(chosen)}, {len(given.seeds)} seeds each")


if __name__ == "__main__":
    main()
