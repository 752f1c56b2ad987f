"""What `gpu.py` found, as tables of at most 100 columns; the most important comes last, where the end of an output is seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Row = dict[str, Any]
Sections = dict[str, dict[str, Any]]

WIDTH = 100
_TYPES = ("fp32", "fp16", "bf16")
_MOST_FAILURES = 8
_GB = 1e9


def report(result: Row) -> str:
    """All tables."""
    sections: Sections = result["sections"]
    parts = [
        _machine(result),
        _notes(sections),
        _writes(_rows(sections, "writes")),
        _slow_peers([*_rows(sections, "flex"), *_rows(sections, "flashinfer")]),
        _prefill(_rows(sections, "prefill")),
        _chunk_attention(_rows(sections, "chunk-attention")),
        _decode(_rows(sections, "decode")),
        _end_to_end(_rows(sections, "end-to-end"), _rows(sections, "transformers")),
        _checks([row for name in sections if name.startswith("check-") for row in _rows(sections, name)]),
    ]
    if not result["smoke"]:
        parts.append(_goals(sections))
    lines = [line.rstrip()[:WIDTH] for part in parts if part for line in [*part, ""]]
    return "\n".join(lines)


def _rows(sections: Sections, name: str) -> list[Row]:
    return list(sections.get(name, {}).get("rows", []))


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The first column to the left, the others to the right."""
    cells = [list(head), *(list(row) for row in rows)]
    if len(cells) == 1:
        return []
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return [title] + [
        "  ".join(
            cell.ljust(w) if not i else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def _us(seconds: float | None) -> str:
    """Microseconds."""
    if seconds is None:
        return "-"
    return f"{seconds * 1e6:,.1f}" if seconds < 1e-4 else f"{seconds * 1e6:,.0f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def _ratio(a: Any, b: Any) -> float | None:
    """Only of numbers: peers may have answered with a sentence."""
    return a / b if isinstance(a, float) and isinstance(b, float) and b > 0 else None


def _count(tokens: int) -> str:
    return f"{tokens >> 10}k" if tokens >= 1024 and not tokens % 1024 else f"{tokens:,}"


def _machine(result: Row) -> list[str]:
    machine = result["machine"]
    names = " ".join(f"{key} {machine[key]}" for key in ("torch", "triton", "cuda", "python") if machine.get(key))
    lines = [f"{machine['device']}, {names}; {result['date']}, {result['seconds']:.0f} s"]
    if result["smoke"]:
        lines.append("a smoke run: tiny sizes, kernels in Triton's interpreter; the times mean nothing")
    return lines + [
        f"ceilings: copy {row['copy_bytes_per_s'] / 1e12:.2f} TB/s, "
        f"bf16 matrix product {row['matmul_flops_per_s'] / 1e12:.0f} TFLOP/s; floors are computed from them"
        for row in _rows(result["sections"], "ceilings")
    ]


def _notes(sections: Sections) -> list[str]:
    """What is missing, and why."""
    lines = []
    for name, state in sections.items():
        if state["status"] not in ("ok", "failed"):
            why = (str(state.get("error", "")).strip().splitlines() or [""])[-1]
            lines.append(f"{name}: {state['status']} {why}")
        lines += [f"{name}: {note}" for note in state["notes"]]
    return lines


def _writes(rows: list[Row]) -> list[str]:
    def cells(row: Row) -> Sequence[str]:
        seconds, (name, other) = row["timing"]["seconds"], next(iter(row["others"].items()), ("", None))
        beside = f"{_times(other['seconds'] / seconds)} {name}" if other else "-"
        return (
            row["kernel"],
            _count(row["tokens"]),
            _us(row["floor"]),
            _us(seconds),
            _percent(row["floor"] / seconds),
            beside,
        )

    head = ("kernel", "tokens", "floor us", "us", "of floor", "faster than")
    return _table("between the matrix products", head, map(cells, rows))


def _slow_peers(rows: list[Row]) -> list[str]:
    def cells(row: Row) -> Sequence[str]:
        point, answer = row["point"], row["answer"]
        what = f"decode {point['batch']} x {_count(point['context'])}" if "batch" in point else _new(point)
        return (row["peer"], what, _us(answer) if isinstance(answer, float) else str(answer)[:60])

    return _table("peers at some points (compare with the tables below)", ("peer", "point", "us"), map(cells, rows))


def _new(point: Row) -> str:
    return f"{_count(point['new'])} new" + (f" on {_count(point['cached'])}" if point["cached"] else "")


def _prefill(rows: list[Row]) -> list[str]:
    def cells(row: Row) -> Sequence[str]:
        seconds, peers = row["seconds"], row["peers"]
        return (
            _new(row),
            _us(row["floor"]),
            _us(seconds),
            f"{row['flops_per_s'] / 1e12:.0f}",
            _percent(row["floor"] / seconds),
            _times(_ratio(peers.get("SDPA flash"), seconds)),
            _times(_ratio(peers.get("SDPA cuDNN"), seconds)),
        )

    head = ("prefill", "floor us", "us", "TFLOP/s", "of floor", "vs flash", "vs cuDNN")
    order = sorted(rows, key=lambda row: (row["cached"] > 0, row["cached"] + row["new"]))
    return _table("causal prefill; vs: their time over ours", head, map(cells, order))


def _chunk_attention(rows: list[Row]) -> list[str]:
    def cells(row: Row) -> Sequence[str]:
        flat, aware = (row["seconds"].get(mode) for mode in ("flat", "prefix-aware"))
        return (
            f"{row['batch']} x ({_count(row['shared_tokens'])} shared + {row['context'] - row['shared_tokens']})",
            _us(row["floor"]),
            _us(flat),
            _us(aware),
            _times(row["speedup"]),
            _times(row["auto_over_best"]),
        )

    head = ("32 K/V heads, fp16", "floor us", "flat us", "aware us", "flat/aware", "auto/best")
    return _table("ChunkAttention's case (its paper: 3.2x to 4.8x)", head, map(cells, rows))


def _decode(rows: list[Row]) -> list[str]:
    def cells(row: Row) -> Sequence[str]:
        flat, aware = (row["seconds"].get(mode) for mode in ("flat", "prefix-aware"))
        best = min((seconds for seconds in (flat, aware) if seconds), default=None)
        return (
            f"{row['batch']} x {_count(row['context'])}, {row['share']:.0%}",
            _us(row["floor"]),
            _us(flat),
            _us(aware),
            _percent(_ratio(row["floor"], best)),
            _times(row["speedup"]),
            _times(row["auto_over_best"]),
            _times(_ratio(row["peers"].get("SDPA flash"), best)),
            _times(_ratio(row["peers"].get("SDPA cuDNN"), best)),
        )

    head = ("batch, shared", "floor", "flat", "aware", "of floor", "flat/aware", "auto/best", "vs flash", "vs cuDNN")
    order = sorted(rows, key=lambda row: (row["context"], row["batch"], row["share"]))
    return _table(
        "decode, microseconds of one layer; of floor and vs: the better of flat and prefix-aware",
        head,
        map(cells, order),
    )


def _end_to_end(rows: list[Row], theirs: list[Row]) -> list[str]:
    lines: list[str] = []
    peer = {row["kind"]: row for row in theirs}
    for row in rows:
        if row["kind"] == "model":
            lines.append(
                f"{row['model']}, random weights, {row['dtype'].removeprefix('torch.')}, {row['kernels']} kernels"
            )
        elif row["kind"] == "ttft":
            lines += _ttft("kvtool", row)
            if other := peer.get("ttft"):
                lines += _ttft("transformers", other)
    decode = [row for row in rows if row["kind"] == "decode"]

    def cells(row: Row) -> Sequence[str]:
        return (
            f"{row['batch']} x {_count(row['context'])}, {_count(row['shared'])} shared, {row['mode']}",
            f"{row['tpot'] * 1e3:.2f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['prefill_seconds']:.2f}",
        )

    head = ("decode of a batch", "TPOT ms", "tokens/s", "prefill s")
    others = [row for row in theirs if row["kind"] == "decode"]
    return lines + _table("end to end" if not lines else "", head, map(cells, [*decode, *others]))


def _ttft(name: str, row: Row) -> Iterator[str]:
    cold, warm = row["cold_median"], row["warm_median"]
    yield (
        f"{name}: TTFT of {row['question']} tokens behind {row['document']:,}: cold {cold * 1e3:.1f} ms, "
        f"warm {warm * 1e3:.1f} ms ({warm / cold:.1%})"
    )


def _checks(rows: list[Row]) -> list[str]:
    """The largest error of each kernel and type, and how many cases there were."""
    kernels: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        kernels.setdefault(row["kernel"], {}).setdefault(row["dtype"], []).append(row)

    def cell(found: list[Row]) -> str:
        if not found:
            return "-"
        wrong = sum(not row["ok"] for row in found)
        if wrong:
            return f"{wrong} of {len(found)} WRONG"
        return f"{max(row['error'] for row in found):.1e} ({len(found)})"

    lines = _table(
        "correctness: largest relative error against float64 (cases)",
        ("kernel", *_TYPES),
        ([kernel, *(cell(found.get(dtype, [])) for dtype in _TYPES)] for kernel, found in sorted(kernels.items())),
    )
    wrong = [row for row in rows if not row["ok"]]
    for row in wrong[:_MOST_FAILURES]:
        error = "none" if row["error"] is None else f"{row['error']:.1e}"
        lines.append(f"WRONG {row['kernel']} {row['dtype']}, {row['case']}: error {error}, bound {row['bound']:.0e}")
        if row["note"]:
            lines.append(f"      {row['note'].strip().splitlines()[-1]}")
    if len(wrong) > _MOST_FAILURES:
        lines.append(f"and {len(wrong) - _MOST_FAILURES} more")
    return lines


def _goals(sections: Sections) -> list[str]:
    """What was aimed at on an H200, as far as it was measured."""
    decode, found = _rows(sections, "decode"), []

    def goal(name: str, value: float | None, wanted: float, at_most: bool = False, percent: bool = True) -> None:
        if value is None:
            return
        reached = value <= wanted if at_most else value >= wanted
        shown = [f"{x:.1%}" if percent else f"{x:.2f}" for x in (value, wanted)]
        found.append(
            f"{'yes' if reached else 'NO '}  {name}: {shown[0]} ({'at most' if at_most else 'at least'} {shown[1]})"
        )

    def of_floor(row: Row) -> float:
        return float(row["floor"] / min(row["seconds"].values()))

    flat = [row for row in decode if not row["share"]]
    goal("decode above 1 GB of KV, of floor, worst", _worst(of_floor(r) for r in flat if r["kv_bytes"] > _GB), 0.85)
    goal(
        "decode with 0.2 to 1 GB, of floor, worst",
        _worst(of_floor(r) for r in flat if 0.2 * _GB <= r["kv_bytes"] <= _GB),
        0.75,
    )
    for share, context, wanted in ((0.5, None, 1.6), (0.95, 4096, 4.0), (0.95, 16_384, 6.0)):
        speedups = [r["speedup"] for r in decode if r["share"] == share and r["context"] == (context or r["context"])]
        where = f"{share:.0%} shared" + (f", {_count(context)}" if context else "")
        goal(f"flat over prefix-aware, {where}, worst", _worst(speedups), wanted, percent=False)
    goal("prefix-aware over flat, nothing shared, worst", _worst((1 / r["speedup"] for r in flat), max), 1.02, True)
    goal("auto over the best, worst", _worst((r["auto_over_best"] for r in decode), max), 1.02, True)
    prefill = {row["new"]: row for row in _rows(sections, "prefill") if not row["cached"]}
    if row := prefill.get(8192):
        goal("prefill of 8k, TFLOP/s", row["flops_per_s"] / 1e12, 400, percent=False)
    stores = [row for row in _rows(sections, "writes") if row["kernel"].startswith("store_kv")]
    goal("store_kv, of floor, worst", _worst(row["floor"] / row["timing"]["seconds"] for row in stores), 0.75)
    for row in _rows(sections, "end-to-end"):
        if row["kind"] == "ttft":
            goal("warm TTFT over cold", row["share"], 0.08, True)
    checks = [row for name in sections if name.startswith("check-") for row in _rows(sections, name)]
    if checks:
        goal("checks within their bounds", sum(row["ok"] for row in checks) / len(checks), 1.0)
    return ["goals on an H200", *found] if found else []


def _worst(values: Iterable[float | None], which: Any = min) -> float | None:
    known = [value for value in values if value is not None]
    return which(known) if known else None
