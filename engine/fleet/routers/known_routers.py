"""The routers that there are, by name, in the order in which tables show them."""

from __future__ import annotations

from kvtool.engine.fleet.routers.blind_routers import LEAST_LOADED, LONGEST_PREFIX, RANDOM, ROUND_ROBIN
from kvtool.engine.fleet.routers.block_hash import FIRST_BLOCK_HASH
from kvtool.engine.fleet.routers.dynamo_router import DYNAMO
from kvtool.engine.fleet.routers.least_ttft import LEAST_TTFT
from kvtool.engine.fleet.routers.llm_d import LLM_D
from kvtool.engine.fleet.routers.router_kind import RouterKind
from kvtool.engine.fleet.routers.session_ring import SESSION_RING
from kvtool.engine.fleet.routers.sglang_gateway import SGLANG, SGLANG_LIBRARY
from kvtool.engine.fleet.routers.vllm_stack import KVAWARE, LOADAWARE

ORACLE = RouterKind(
    "oracle",
    "no router, an upper bound: one cache as large as all together that knows future requests",
    "",
    ("Belady 1966, for whole requests",),
    "events",
    None,
)

ROUTERS: dict[str, RouterKind] = {
    kind.name: kind
    for kind in (
        ROUND_ROBIN,
        RANDOM,
        LEAST_LOADED,
        SESSION_RING,
        FIRST_BLOCK_HASH,
        LONGEST_PREFIX,
        SGLANG,
        SGLANG_LIBRARY,
        LLM_D,
        DYNAMO,
        KVAWARE,
        LOADAWARE,
        LEAST_TTFT,
        ORACLE,
    )
}
