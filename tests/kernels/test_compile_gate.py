"""What compilers make of the kernels, for GPUs that are not here: see compile_gate.py, which runs once, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conftest import NIGHTLY
from tests.kernels.compile_gate import CANNOT_RUN, COVERING, TARGETS, VARIANTS, Compiled, _read_sass

MOST_SHARED = {
    "sm_80": 166_912,
    "sm_89": 101_376,
    "sm_90": 232_448,
    "gfx942": 65_536,
}  # bytes that one program can have

ALL_KERNELS = {
    "merge_states",
    "paged_decode",
    "paged_prefill",
    "rms_norm",
    "rotary",
    "rotary_store_kv",
    "store_kv",
    "swiglu",
}


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    program = [
        sys.executable,
        str(Path(__file__).with_name("compile_gate.py")),
        "--json",
        *([] if NIGHTLY else ["--covering"]),
    ]
    done = subprocess.run(program, capture_output=True, check=False, env=environment, text=True)
    if done.returncode == CANNOT_RUN:
        pytest.skip(done.stderr.strip())
    assert done.stdout, done.stderr
    return [Compiled(**row) for row in json.loads(done.stdout)]


def of(compiled: list[Compiled], target: str, launcher: str = "") -> list[Compiled]:
    rows = [row for row in compiled if row.target == target and row.launcher.startswith(launcher) and not row.error]
    assert rows
    return rows


def named(rows: Iterable[Compiled]) -> list[str]:
    """Lines for a person who reads why a test failed."""
    return [f"{row.launcher} ({row.variant}): {row.error or _figures(row)}" for row in rows]


def _figures(row: Compiled) -> str:
    figures = f"{row.registers} registers, stack {row.stack}, spills {row.spills}, shared memory {row.shared}"
    return f"{figures}, {row.warps} warps, {row.instructions}"


def test_every_kernel_compiles_for_every_target(compiled: list[Compiled]) -> None:
    assert named(row for row in compiled if row.error) == []
    assert {row.launcher for row in compiled if row.target == "sm_90"} == ALL_KERNELS
    variants = VARIANTS if NIGHTLY else COVERING
    assert {(row.target, row.launcher, row.variant) for row in compiled} == {
        (target, variant.kernel, variant.name) for target, made in variants.items() for variant in made
    }


@pytest.mark.parametrize("target", TARGETS)
def test_programs_fit_in_shared_memory(compiled: list[Compiled], target: str) -> None:
    assert named(row for row in of(compiled, target) if row.shared > MOST_SHARED[target]) == []


def test_nothing_is_spilled_on_sm_90(compiled: list[Compiled]) -> None:
    assert named(row for row in of(compiled, "sm_90") if row.stack or row.spills) == []


def test_sm_90_multiplies_on_tensor_cores_and_copies_ahead(compiled: list[Compiled]) -> None:
    attention = [row for row in of(compiled, "sm_90", "paged_") if "fp32" not in row.variant]
    large = [
        row for row in attention if row.launcher == "paged_prefill" or row.variant.endswith(("64 rows", "128 rows"))
    ]
    assert named(row for row in large if not row.instructions["HGMMA"]) == []
    assert named(row for row in attention if not row.instructions["HGMMA"] + row.instructions["HMMA"]) == []
    assert named(row for row in attention if not row.instructions["LDGSTS"]) == []


@pytest.mark.parametrize("target", ["sm_80", "sm_89"])
def test_older_gpus_multiply_on_tensor_cores_and_copy_ahead(compiled: list[Compiled], target: str) -> None:
    attention = [row for row in of(compiled, target, "paged_") if "fp32" not in row.variant]
    assert named(row for row in attention if not row.instructions["HMMA"] or not row.instructions["LDGSTS"]) == []


def test_gfx942_multiplies_on_matrix_cores(compiled: list[Compiled]) -> None:
    assert named(row for row in of(compiled, "gfx942", "paged_") if not row.instructions["MFMA"]) == []


def test_what_moves_data_moves_16_bytes_at_a_time(compiled: list[Compiled]) -> None:
    moving = [row for row in of(compiled, "sm_90") if not row.launcher.startswith(("paged_", "merge_"))]
    assert named(row for row in moving if not row.instructions["LDG.E.128"] or not row.instructions["STG.E.128"]) == []


def test_the_covering_variants_have_every_kernel_and_type_of_cache() -> None:
    every, few = ({one for rows in table.values() for one in rows} for table in (VARIANTS, COVERING))
    assert few < every
    assert {one.kernel for one in few} == {one.kernel for one in every}
    assert {one.cache for one in few} == {one.cache for one in every}


def test_figures_are_read_from_what_the_disassembler_prints() -> None:
    text = """
 Function kernel:
  REG:168 STACK:16 SHARED:0 LOCAL:0 CONSTANT[0]:584 TEXTURE:0 SURFACE:0 SAMPLER:0
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                        /* 0x00000a00ff017b82 */
                                                                                 /* 0x000fe20000000800 */
        /*0010*/               @P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;     /* 0x0000000402047981 */
        /*0020*/              @!P1 LDG.E.LTC128B R4, desc[UR4][R2.64] ;          /* 0x0000000402047981 */
        /*0030*/             @!UP1 LDGSTS.E.BYPASS.128 [R4], [R2.64], !P0 ;      /* 0x0000000402047981 */
        /*0040*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24 ; /* 0x0000000402047981 */
        /*0050*/                   STL.64 [R1+0x8], R4 ;                         /* 0x0000000402047981 */
        /*10060*/                  LDL.LU R4, [R1] ;                             /* 0x0000000402047981 */
        /*10070*/                  STG.E.128 desc[UR4][R2.64], R4 ;              /* 0x0000000402047981 */
"""
    assert _read_sass(text) == {
        "registers": 168,
        "stack": 16,
        "spills": 2,
        "instructions": {"HGMMA": 1, "HMMA": 0, "LDGSTS": 1, "UTMALDG": 0, "LDG.E.128": 1, "STG.E.128": 1},
    }
