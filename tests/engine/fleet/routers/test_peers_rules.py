"""Rules of deployed routers, each with numbers that were worked out by hand from its source."""

from __future__ import annotations

from collections import Counter
from math import exp

import pytest

from kvtool.engine.fleet.routers.dynamo_router import DynamoRouter, DynamoSettings
from kvtool.engine.fleet.routers.least_ttft import LeastTtftSettings
from kvtool.engine.fleet.routers.llm_d import LlmdSettings
from kvtool.engine.fleet.routers.load_book import LoadBook
from kvtool.engine.fleet.routers.sglang_gateway import LIBRARY, SglangSettings
from kvtool.engine.fleet.routers.vllm_stack import KvawareSettings, LoadawareSettings
from tests.engine.fleet.routers.made_replica import MadeReplica, chosen, made_request


class TestSglang:
    """Ten blocks a prompt: a match of three is 0.3 of it."""

    def test_a_match_above_the_share_wins_over_load(self) -> None:
        router = SglangSettings().router(0)
        assert chosen(router, [MadeReplica(0), MadeReplica(1, 4, waiting=64)]) == 1
        assert router.ways == {"match": 1, "poor match": 0, "uneven load": 0}

    def test_a_match_of_just_the_share_is_poor(self) -> None:
        router = SglangSettings().router(0)
        assert chosen(router, [MadeReplica(0, 3, waiting=1), MadeReplica(1), MadeReplica(2)]) == 1
        assert router.ways["poor match"] == 1

    @pytest.mark.parametrize(
        ("most", "least", "uneven"),
        [
            (64, 0, False),
            (65, 0, True),
            (195, 130, False),
            (196, 130, True),
            (195, 129, True),
            (300, 200, False),
            (301, 200, True),
        ],
    )
    def test_load_is_uneven_by_both_measures(self, most: int, least: int, uneven: bool) -> None:
        """195 = 1.5 x 130 and 300 = 1.5 x 200: not more; of 64 and 65 the difference decides."""
        router = SglangSettings().router(0)
        replicas = [MadeReplica(0, 9, running=most), MadeReplica(1, 0, running=least)]
        assert chosen(router, replicas) == (1 if uneven else 0)

    def test_the_library_has_other_defaults(self) -> None:
        replicas = [MadeReplica(0, 5, running=1), MadeReplica(1)]
        assert chosen(LIBRARY.router(0), replicas) == 1  # 0.5 is not more than 0.5
        replicas = [MadeReplica(0, 9, running=33), MadeReplica(1)]
        assert chosen(LIBRARY.router(0), replicas) == 1
        assert chosen(SglangSettings().router(0), replicas) == 0

    def test_before_december_2025_a_poor_match_went_to_the_smallest_tree(self) -> None:
        router = SglangSettings(poor="smallest-tree").router(0)
        replicas = [MadeReplica(0), MadeReplica(1, running=5)]
        assert chosen(router, replicas, made_request(0, 10)) == 0
        assert chosen(router, replicas, made_request(1, 4, first=100)) == 1  # 0 and 10 blocks, though 1 is busy
        assert chosen(router, replicas, made_request(2, 4, first=200)) == 1  # 4 and 10
        assert chosen(router, replicas, made_request(3, 4, first=300)) == 1  # 8 and 10
        assert chosen(router, replicas, made_request(4, 4, first=400)) == 0  # 12 and 10
        assert chosen(SglangSettings().router(0), replicas, made_request(1, 4)) == 0

    def test_equals_go_to_the_first(self) -> None:
        assert chosen(SglangSettings().router(0), [MadeReplica(0), MadeReplica(1, 5), MadeReplica(2, 5)]) == 1
        assert chosen(SglangSettings().router(0), [MadeReplica(0), MadeReplica(1)]) == 0


class TestLlmd:
    """Weights 3, 2, 2; caches of 100 blocks, prompts of 10."""

    def test_scores_add_up(self) -> None:
        """0: 3 x 0.8 + 2 x 0 + 2 x 0.5 = 3.4; 1: 3 x 0 + 2 x 1 + 2 x 0.6 = 3.2."""
        router = LlmdSettings(ties="first").router(0)
        full = MadeReplica(0, 8, waiting=4, used_blocks=50)
        idle = MadeReplica(1, 0, waiting=0, used_blocks=40)
        assert chosen(router, [full, idle]) == 0
        idle.used_blocks = 25  # 2 + 2 x 0.75 = 3.5
        assert chosen(router, [full, idle]) == 1
        full.match = 9  # 2.7 + 0 + 1 = 3.7
        assert chosen(router, [full, idle]) == 0

    def test_who_runs_does_not_wait(self) -> None:
        router = LlmdSettings(ties="first").router(0)
        assert chosen(router, [MadeReplica(0, running=100), MadeReplica(1, waiting=1)]) == 0
        assert chosen(router, [MadeReplica(0, waiting=2), MadeReplica(1, waiting=1, running=100)]) == 1

    def test_a_cache_without_limit_is_never_full(self) -> None:
        router = LlmdSettings(ties="first").router(0)
        replicas = [MadeReplica(0, used_blocks=1, num_blocks=100), MadeReplica(1, used_blocks=500, num_blocks=None)]
        assert chosen(router, replicas) == 1

    def test_no_more_than_256_blocks_are_compared(self) -> None:
        """Of 512 blocks 256 are the whole: both hold all that is compared."""
        router = LlmdSettings(ties="first").router(0)
        long = made_request(0, 512)
        assert chosen(router, [MadeReplica(0, 256), MadeReplica(1, 512)], long) == 0
        assert chosen(router, [MadeReplica(0, 255), MadeReplica(1, 256)], long) == 1
        wide = LlmdSettings(ties="first", most_blocks=512).router(0)
        assert chosen(wide, [MadeReplica(0, 256), MadeReplica(1, 512)], long) == 1

    def test_load_aware_stops_at_its_threshold(self) -> None:
        """0.5 x (1 - 64 / 128) = 0.25; 128 and more are 0; so 64 costs 0.25 x 4 = 1, as much as a third of a prefix's 3."""
        settings = LlmdSettings(ties="first", queue=0, kv=0, load_aware=4)
        assert chosen(settings.router(0), [MadeReplica(0, 3, waiting=64), MadeReplica(1)]) == 1  # 0.9 + 1 and 0 + 2
        assert chosen(settings.router(0), [MadeReplica(0, 4, waiting=64), MadeReplica(1)]) == 0  # 1.2 + 1
        assert chosen(settings.router(0), [MadeReplica(0, waiting=500), MadeReplica(1, waiting=128)]) == 0  # both 0

    def test_no_hit_lru_takes_turns_with_cold_requests(self) -> None:
        settings = LlmdSettings(ties="first", prefix=1, queue=0, kv=0, no_hit_lru=1)
        router = settings.router(0)
        replicas = [MadeReplica(number) for number in range(3)]
        assert [chosen(router, replicas) for _ in range(4)] == [0, 1, 2, 0]
        replicas[2].match = 1  # warm: all have 0.5, and the match decides
        assert chosen(router, replicas) == 2
        replicas[2].match = 0  # which does not count as a turn: 1 is the longest without
        assert [chosen(router, replicas) for _ in range(3)] == [1, 2, 0]

    def test_equals_are_drawn_by_seed(self) -> None:
        replicas = [MadeReplica(number) for number in range(4)]
        first, again = LlmdSettings().router(3), LlmdSettings().router(3)
        drawn = [chosen(first, replicas) for _ in range(400)]
        assert drawn == [chosen(again, replicas) for _ in range(400)]
        assert all(60 < count < 140 for count in Counter(drawn).values())


class TestDynamo:
    """Blocks of 10 tokens; a prompt of 100 is 10 blocks."""

    def test_every_term(self) -> None:
        """First (0 + 100) / 10 - 6 - 0.75 x 2 - 0.25 x 1 = 2.25, + 10 blocks, + 2 x 3 requests = 18.25.

        Then 40 new tokens wait there and 10 blocks are held, all of them the next request's: (40 + 100) / 10 - 7.75 + 10 + 6.
        """
        router = DynamoSettings(active=2).router(0)
        assert isinstance(router, DynamoRouter)
        replicas = [MadeReplica(0, 6, waiting=1, running=2, below=(2, 1))]
        assert router.costs(made_request(), replicas) == [18.25]
        assert chosen(router, replicas) == 0
        assert router.costs(made_request(1), replicas) == [22.25]
        assert router.costs(made_request(1, first=5), replicas) == [27.25]  # five blocks are not held yet
        router.first_token(made_request(), 0, 0.5, 1.0)
        assert router.costs(made_request(1), replicas) == [18.25]
        router.finished(made_request(), 0, 2.0)
        assert router.costs(made_request(1, first=5), replicas) == [18.25]

    def test_a_prefill_is_never_below_nothing(self) -> None:
        router = DynamoSettings(blocks=False).router(0)
        assert isinstance(router, DynamoRouter)
        assert router.costs(made_request(), [MadeReplica(0, 10, below=(4, 4))]) == [0.0]

    def test_scale_and_credit(self) -> None:
        router = DynamoSettings(scale=2, credit=0.5, host=0.5, disk=0, blocks=False).router(0)
        assert isinstance(router, DynamoRouter)
        assert router.costs(made_request(), [MadeReplica(0, 4, below=(2, 2))]) == [2 * (10 - 2 - 1)]

    def test_credit_decays_with_load_beyond_the_least(self) -> None:
        """100 tokens more than the least are one prompt of this length: 4 / (1 + 3 x 1) = 1 block of credit is left."""
        router = DynamoSettings(decay=3, blocks=False).router(0)
        assert isinstance(router, DynamoRouter)
        assert chosen(router, [MadeReplica(0)]) == 0
        assert router.costs(made_request(1), [MadeReplica(0, 4), MadeReplica(1, 4)]) == [20 - 1, 10 - 4]
        assert chosen(router, [MadeReplica(1)], made_request(1)) == 1
        assert router.costs(made_request(2), [MadeReplica(0, 4), MadeReplica(1, 4)]) == [20 - 4, 20 - 4]

    def test_cache_against_load(self) -> None:
        """With 100 tokens pending at 0: 20 - 10 there, 10 - 0 at 1; equal, and drawn. One block less, and 1 has it."""
        drawn = []
        for seed in range(40):
            router = DynamoSettings(blocks=False).router(seed)
            chosen(router, [MadeReplica(0)])
            drawn.append(chosen(router, [MadeReplica(0, 10), MadeReplica(1)], made_request(1)))
        assert 8 < sum(drawn) < 32
        router = DynamoSettings(blocks=False).router(0)
        chosen(router, [MadeReplica(0)])
        assert chosen(router, [MadeReplica(0, 9), MadeReplica(1)], made_request(1)) == 1

    def test_temperature_draws_by_softmax(self) -> None:
        """Costs 4, 6 and 10, of which the blocks left are 4, 6, 10: weights 1, e^(-2/(6T)), e^(-1/T)."""
        replicas = [MadeReplica(0, 6), MadeReplica(1, 4), MadeReplica(2, 0)]
        temperature = 0.5
        drawn = Counter(
            chosen(DynamoSettings(temperature=temperature, blocks=False).router(seed), replicas) for seed in range(6000)
        )
        weights = [1.0, exp(-2 / (6 * temperature)), exp(-1 / temperature)]
        for number, weight in enumerate(weights):
            assert drawn[number] / 6000 == pytest.approx(weight / sum(weights), abs=0.03)

    def test_temperature_with_equal_costs(self) -> None:
        replicas = [MadeReplica(number) for number in range(4)]
        drawn = Counter(chosen(DynamoSettings(temperature=1).router(seed), replicas) for seed in range(400))
        assert all(60 < count < 140 for count in drawn.values())

    def test_the_book_counts_a_shared_block_once(self) -> None:
        book = LoadBook()
        book.sent(0, 0, 30, [1, 2, 3])
        book.sent(1, 0, 20, [1, 2, 4])
        assert book.prefill_tokens(0) == 50
        assert book.blocks_with(0, [1, 9]) == 5
        assert book.blocks_with(1, [1, 9]) == 2
        book.finished(1, 0)
        assert book.prefill_tokens(0) == 30
        assert book.blocks_with(0, []) == 3


class TestKvaware:
    """Prompts of 300 blocks are 3,000 tokens: a holder needs 1,000 of them."""

    def test_a_holder_needs_all_but_the_threshold(self) -> None:
        router = KvawareSettings().router(0)
        long = made_request(0, 300)
        assert chosen(router, [MadeReplica(0), MadeReplica(1, 100)], long) == 1
        assert router.ways == {"holder": 1, "session": 0, "rate": 0}
        assert chosen(router, [MadeReplica(0), MadeReplica(1, 99)], long) == 0  # 0 never had one
        assert router.ways["rate"] == 1

    def test_a_short_prompt_goes_to_any_holder(self) -> None:
        router = KvawareSettings().router(0)
        assert chosen(router, [MadeReplica(0), MadeReplica(1, 1, waiting=99)]) == 1
        assert chosen(router, [MadeReplica(0), MadeReplica(1, 0)]) == 0

    def test_the_first_holder_is_asked_and_no_other(self) -> None:
        router = KvawareSettings(threshold=0).router(0)
        empty, full = [MadeReplica(0), MadeReplica(1)], [MadeReplica(0, 9), MadeReplica(1, 10)]
        assert chosen(router, empty) == 0
        assert chosen(router, full, now=1) == 1  # 0 had it first and lacks a block: by rate, where 1 never had one
        assert chosen(router, full, now=2) == 0  # by rate again: one each
        full[0].match = 0  # what is gone is nobody's first any more
        assert chosen(router, full, now=3) == 1
        assert router.ways == {"holder": 1, "session": 0, "rate": 3}

    def test_by_session_where_there_is_no_holder(self) -> None:
        router = KvawareSettings().router(0)
        replicas = [MadeReplica(number) for number in range(4)]
        first = [chosen(router, replicas, made_request(number, session=number)) for number in range(40)]
        again = [chosen(router, replicas, made_request(number, session=number)) for number in range(40)]
        assert first == again
        assert len(set(first)) == 4
        assert router.ways == {"holder": 0, "session": 80, "rate": 0}


class TestLoadaware:
    def test_a_cached_prompt_is_worth_a_load_of_twice_the_mean(self) -> None:
        """Loads 6, 2, 1, of which the mean is 3: 1 - 1 = 0; 0.4 + 1/3; 0 + 2/3."""
        router = LoadawareSettings().router(0)
        replicas = [MadeReplica(0, 10, running=6), MadeReplica(1, 4, waiting=2), MadeReplica(2, 0, waiting=1)]
        assert chosen(router, replicas) == 1
        replicas[1].match = 3  # 0.633 and 0.667
        assert chosen(router, replicas) == 2
        assert chosen(LoadawareSettings(beta=0).router(0), replicas) == 0
        assert chosen(LoadawareSettings(beta=0.1).router(0), replicas) == 0  # 0.9, 0.333, 0.067

    def test_a_mean_below_one_counts_as_one(self) -> None:
        """Loads 1 and 0: mean 0.5; 0.9 - 0.5 = 0.4 and 0 + 0.5; a mean of 0.5 as divisor would make 0.9 - 1 and 0 + 1."""
        replicas = [MadeReplica(0, 9, running=1), MadeReplica(1)]
        assert chosen(LoadawareSettings().router(0), replicas) == 1
        assert chosen(LoadawareSettings(beta=0.8).router(0), replicas) == 0  # 0.5 and 0.4; it would be 0.1 and 0.8

    def test_equals_go_to_the_first(self) -> None:
        assert chosen(LoadawareSettings().router(0), [MadeReplica(0), MadeReplica(1), MadeReplica(2)]) == 0


class TestLeastTtft:
    def test_queue_and_what_is_left_of_the_prompt(self) -> None:
        """100 tokens at 100 a second: 0.5 + 0.2; 0 + 0.8; 0.1 + 0.6 (as 0.7 equals 0.7, the first)."""
        replicas = [MadeReplica(0, 8, queue=0.5), MadeReplica(1, 2), MadeReplica(2, 4, queue=0.125)]
        assert chosen(LeastTtftSettings().router(0), replicas) == 0
        replicas[2].queue = 0.0625
        assert chosen(LeastTtftSettings().router(0), replicas) == 2
        assert chosen(LeastTtftSettings().router(0), [MadeReplica(0), MadeReplica(1)]) == 0
