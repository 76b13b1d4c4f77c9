from __future__ import annotations

import math
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from labkit import stats
from labkit.errors import LabError


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_the_median_is_the_middle_or_the_mean_of_two() -> None:
    assert stats.median([3, 1, 2]) == 2
    assert stats.median([1, 2, 3, 10]) == 2.5
    assert stats.median((4.0,)) == 4
    assert isinstance(stats.median([1, 3]), float)


@pytest.mark.parametrize("values", [[], [1, math.nan], [math.inf, 1, 2]])
def test_no_median_of_nothing_or_of_what_is_no_number(
    values: list[float],
) -> None:
    with pytest.raises(LabError):
        stats.median(values)
    with pytest.raises(LabError):
        stats.spread(values)


def test_percentiles_interpolate_by_the_named_method() -> None:
    values = list(range(1, 11))
    assert stats.percentile(values, 50) == 5.5
    assert stats.percentile(values, 50, "inverted_cdf") == 5
    assert stats.percentile(values, 50, "higher") == 6
    assert stats.percentile([115, 315], 50) == 215
    assert stats.percentile([7], 90) == 7


def test_linear_is_also_the_inclusive_method_of_the_standard_library() -> None:
    values = np.random.default_rng(1).exponential(size=137).tolist()
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    for q, cut in enumerate(cuts, start=1):
        assert stats.percentile(values, q) == pytest.approx(cut, rel=1e-12)


@pytest.mark.parametrize(
    ("q", "count", "told"),
    [
        (99, 99, False),
        (99, 100, True),
        (99.9, 999, False),
        (99.9, 1000, True),
        (98.9, 2, True),
        (100, 1, True),
        (0, 1, True),
        (50, 0, False),
        (100, 0, False),
    ],
)
def test_a_tail_needs_an_observation_beyond_it(
    q: float, count: int, told: bool
) -> None:
    values = [float(i) for i in range(count)]
    assert (stats.percentile(values, q) is not None) == told


@pytest.mark.parametrize("q", [-1, 100.5, math.nan])
def test_a_percentile_outside_0_to_100_is_refused(q: float) -> None:
    with pytest.raises(LabError, match="between 0 and 100"):
        stats.percentile([1, 2], q)


def test_percentiles_of_nan_are_refused() -> None:
    with pytest.raises(LabError, match="nan"):
        stats.percentile([1, math.nan], 50)


def test_spread_tells_quartiles_and_ends() -> None:
    seen = stats.spread([1, 2, 3, 4, 10])
    assert (seen.count, seen.median) == (5, 3)
    assert (seen.low, seen.lower, seen.upper, seen.high) == (1, 2, 4, 10)
    assert seen.iqr_ratio == pytest.approx(2 / 3)
    assert seen.range_ratio == 3


def test_spread_relative_to_zero_is_undefined() -> None:
    seen = stats.spread([-1, 0, 1])
    assert seen.iqr_ratio is None
    assert seen.range_ratio is None
    assert stats.spread([-2, -2, -3]).range_ratio == 0.5


def test_one_value_tells_nothing_about_its_spread() -> None:
    assert stats.spread([2]).iqr_ratio == 0
    assert stats.bootstrap_median([2]) is None
    assert stats.bootstrap_median([]) is None
    assert stats.bootstrap_ratio([2], [1, 1]) is None
    assert stats.bootstrap_ratio([2, 2], []) is None
    assert stats.bootstrap_quotient([], []) is None


def test_equal_values_give_an_interval_of_no_width() -> None:
    assert stats.bootstrap_median([2, 2, 2]) == stats.Interval(2, 2, 0.95)
    assert stats.bootstrap_ratio([6, 6], [2, 2, 2]) == stats.Interval(
        3, 3, 0.95
    )
    assert stats.bootstrap_median([0, 0]) == stats.Interval(0, 0, 0.95)


@pytest.mark.parametrize("below", [[0, 1, 1, 1], [-1, 2], [0, 0]])
def test_a_ratio_over_what_may_be_zero_has_no_interval(
    below: list[float],
) -> None:
    assert stats.bootstrap_ratio([1, 2, 3], below) is None


def test_undefined_values_are_refused_not_resampled() -> None:
    with pytest.raises(LabError):
        stats.bootstrap_median([1, math.nan, 2])


def test_five_values_have_their_range_as_interval() -> None:
    """P(3 or more of 5 draws are the lowest) = 0.058, over 0.025."""
    found = stats.bootstrap_median([5, 1, 2, 4, 3])
    assert found == stats.Interval(1, 5, 0.95)


def test_an_interval_depends_on_seed_and_confidence_alone() -> None:
    values = np.random.default_rng(3).lognormal(size=40).tolist()
    wide = stats.bootstrap_median(values, confidence=0.99)
    narrow = stats.bootstrap_median(values, confidence=0.5)
    assert wide is not None
    assert narrow is not None
    assert wide == stats.bootstrap_median(values, confidence=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high
    assert wide.confidence == 0.99


def test_large_samples_are_resampled_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(4).normal(10, 1, 200).tolist()
    whole = stats.bootstrap_median(values)
    monkeypatch.setattr(stats, "NUMBERS_AT_ONCE", 1000)
    assert stats.bootstrap_median(values) == whole


def test_a_quotient_of_ratios_multiplies_across() -> None:
    found = stats.bootstrap_quotient([[6, 6], [5, 5]], [[2, 2], [3, 3]])
    assert found is not None
    assert found.low == found.high == 5


Draw = Callable[[np.random.Generator, int], list[float]]
DRAWS: dict[str, tuple[Draw, float]] = {
    "normal": (lambda g, n: g.normal(10, 1, n).tolist(), 10),
    "lognormal": (lambda g, n: g.lognormal(0, 0.4, n).tolist(), 1),
    "exponential": (lambda g, n: (1 + g.exponential(1, n)).tolist(), 1.6931),
}


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize("count", [5, 15])
def test_intervals_cover_the_true_values_as_often_as_they_say(
    kind: str, count: int
) -> None:
    """A share of 0.95 of 300 data sets lies within 0.90 to 0.99.

    The ratio's bound above is open: its interval is wide for few values.
    """
    draw, true = DRAWS[kind]
    source = np.random.default_rng(11)
    hits = hits_of_ratio = 0
    for _ in range(300):
        x, y = draw(source, count), draw(source, count)
        median = stats.bootstrap_median(x, resamples=400)
        ratio = stats.bootstrap_ratio([3 * v for v in y], x, resamples=400)
        assert median is not None
        assert ratio is not None
        hits += median.low <= true <= median.high
        hits_of_ratio += ratio.low <= 3 <= ratio.high
    assert 0.90 <= hits / 300 <= 0.99
    assert hits_of_ratio / 300 >= 0.92


def test_narrower_intervals_cover_less() -> None:
    source = np.random.default_rng(5)
    hits = 0
    for _ in range(300):
        found = stats.bootstrap_median(
            source.normal(10, 1, 31).tolist(), confidence=0.5, resamples=400
        )
        assert found is not None
        hits += found.low <= 10 <= found.high
    assert 0.40 <= hits / 300 <= 0.60


def test_the_core_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from labkit import baselines, comparison_table, publishing, timing\n"
        "heavy = {'torch', 'transformers', 'numpy', 'scipy', 'pandas',"
        " 'matplotlib', 'pydantic', 'tqdm'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# Intervals from theory ------------------------------------------------------


def test_an_interval_of_the_mean_by_hand() -> None:
    """t of 3 degrees of freedom is 3.182; sd 1.291, over 2."""
    found = stats.mean_interval([1, 2, 3, 4])
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.446, 4.554), abs=1e-3)
    assert found.confidence == 0.95
    assert stats.mean_interval([2, 2, 2]) == stats.Interval(2, 2, 0.95)
    assert stats.mean_interval([2]) is stats.mean_interval([]) is None


def test_an_interval_of_a_share_by_hand() -> None:
    """No hit: 1 - 0.025^(1/n); the rule of three is that of one side."""
    found = stats.share_interval(0, 100)
    assert found.low == 0
    assert found.high == pytest.approx(1 - 0.025**0.01)
    assert stats.share_interval(0, 300, 0.9).high == pytest.approx(
        0.01, rel=0.01
    )
    assert stats.share_interval(100, 100).low == pytest.approx(0.025**0.01)
    assert stats.share_interval(100, 100).high == 1
    half = stats.share_interval(5, 10)  # tables: 0.187 to 0.813
    assert (half.low, half.high) == pytest.approx((0.187, 0.813), abs=5e-4)


def test_an_interval_of_a_percentile_by_hand() -> None:
    """Of six values the ends hold the median in 1 - 2/64 of all cases."""
    six = [5.0, 1, 3, 2, 6, 4]
    assert stats.percentile_interval(six, 50) == stats.Interval(1, 6, 0.95)
    assert stats.percentile_interval(six, 50, 0.97) is None
    assert stats.percentile_interval(six[:5], 50) is None
    assert stats.percentile_interval([], 50) is None
    one = stats.percentile_interval([1.0], 99)
    assert one is None or math.isinf(one.high)


def test_a_tail_of_few_has_no_upper_end() -> None:
    """P(all of n below p99) = 0.99^n falls to 0.025 at n = 368."""
    values = [float(n) for n in range(368)]
    whole = stats.percentile_interval(values, 99)
    assert whole is not None
    assert whole.high == 367
    fewer = stats.percentile_interval(values[:367], 99)
    assert fewer is not None
    assert fewer.high == math.inf
    mirrored = stats.percentile_interval(values[:367], 1)
    assert mirrored is not None
    assert mirrored.low == -math.inf
    assert mirrored.high == 366 - fewer.low


@pytest.mark.parametrize("q", [0, 100])
def test_no_interval_of_an_end(q: float) -> None:
    assert stats.percentile_interval([1.0] * 1000, q) is None


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, math.nan])
def test_a_confidence_is_a_share(confidence: float) -> None:
    for interval in (
        lambda: stats.mean_interval([1, 2], confidence),
        lambda: stats.share_interval(1, 2, confidence),
        lambda: stats.percentile_interval([1, 2], 50, confidence),
    ):
        with pytest.raises(LabError, match="confidence lies between"):
            interval()


@pytest.mark.parametrize(("hits", "total"), [(1, 0), (0, 0), (3, 2), (-1, 2)])
def test_shares_that_cannot_be(hits: int, total: int) -> None:
    with pytest.raises(LabError, match="no share"):
        stats.share_interval(hits, total)


def test_intervals_refuse_what_is_no_measurement() -> None:
    with pytest.raises(LabError, match="nan"):
        stats.mean_interval([1, math.nan])
    with pytest.raises(LabError, match="inf"):
        stats.percentile_interval([1, math.inf], 50)
    for q in (-1, 101, math.nan):
        with pytest.raises(LabError, match="between 0 and 100"):
            stats.percentile_interval([1, 2], q)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_from_theory_cover_as_often_as_they_say(
    confidence: float,
) -> None:
    """500 data sets; the two of whole numbers may only cover more."""
    source, runs = np.random.default_rng(6), 500
    means = shares = tails = 0
    for _ in range(runs):
        mean = stats.mean_interval(source.normal(5, 2, 8).tolist(), confidence)
        assert mean is not None
        means += mean.low <= 5 <= mean.high
        hits = int(source.binomial(40, 0.2))
        share = stats.share_interval(hits, 40, confidence)
        shares += share.low <= 0.2 <= share.high
        tail = stats.percentile_interval(
            source.exponential(1, 80).tolist(), 90, confidence
        )
        assert tail is not None
        tails += tail.low <= math.log(10) <= tail.high
    assert means / runs == pytest.approx(confidence, abs=0.04)
    assert confidence - 0.02 < shares / runs < confidence + 0.12
    assert confidence - 0.02 < tails / runs < confidence + 0.12
