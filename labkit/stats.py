"""What a handful of repeated measurements says, and how surely.

Pure functions of sequences of finite numbers. NumPy and SciPy are imported
when they are first needed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from labkit.errors import LabError

if TYPE_CHECKING:
    import numpy as np

Method = Literal["linear", "lower", "higher", "nearest", "inverted_cdf"]
"""How a percentile between two observations is found (NumPy's names)."""
Samples: TypeAlias = Sequence[Sequence[float]]

FIRST_TAIL_PERCENTILE = 99.0
"""From here on a percentile needs an observation beyond it."""
RESAMPLES = 5000
"""Moves the ends of a 95 % interval by a few per cent of its width."""
NUMBERS_AT_ONCE = 2_000_000
"""Resampled values held in memory together, 16 MB."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval; unit of the statistic it belongs to."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Spread:
    """How far observations lie apart; unit of the observations.

    `lower` and `upper` are the quartiles. The ratios are relative to the
    median, and None where the median is 0.
    """

    count: int
    median: float
    low: float
    lower: float
    upper: float
    high: float

    @property
    def iqr_ratio(self) -> float | None:
        """Interquartile range / median; one outlier hardly moves it."""
        return _over(self.upper - self.lower, self.median)

    @property
    def range_ratio(self) -> float | None:
        """(Maximum - minimum) / median; one outlier decides it."""
        return _over(self.high - self.low, self.median)


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones.

    Raises LabError for no values, or for one that is not finite.
    """
    if not len(values):
        raise LabError("There is no median of no values: measure first.")
    return float(statistics.median(_finite(values)))


def percentile(
    values: Sequence[float], q: float, method: Method = "linear"
) -> float | None:
    """The value below which `q` per cent of the values lie.

    `linear` is what this course reports: it interpolates between the two
    neighbours, as `numpy.percentile` does by default and
    `statistics.quantiles(method="inclusive")` does always. The names are
    those of R. J. Hyndman and Y. Fan, "Sample Quantiles in Statistical
    Packages", The American Statistician 50 (1996).

    None where it is undefined: no values, or fewer than 100 / (100 - q)
    for q from 99 up, so that p99 takes 100 values. With fewer, such a
    percentile is the maximum under another name. `q` = 100 is the maximum.
    """
    if not 0 <= q <= 100:
        raise LabError(f"A percentile lies between 0 and 100, not at {q}.")
    beyond = len(values) * (100 - q) / 100
    # 1000 * (100 - 99.9) is a little under 100 in floating point.
    too_few = FIRST_TAIL_PERCENTILE <= q < 100 and beyond < 1 - 1e-9
    if not len(values) or too_few:
        return None
    import numpy as np

    return float(np.percentile(_finite(values), q, method=method))


def spread(values: Sequence[float]) -> Spread:
    """Median, quartiles (linear) and ends; LabError for no values."""
    import numpy as np

    middle = median(values)
    low, lower, upper, high = np.percentile(values, [0, 25, 75, 100]).tolist()
    return Spread(len(values), middle, low, lower, upper, high)


def bootstrap_median(
    values: Sequence[float],
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Interval of the median; see `bootstrap_quotient`."""
    return bootstrap_quotient([values], [], confidence, seed, resamples)


def bootstrap_ratio(
    numerator: Sequence[float],
    denominator: Sequence[float],
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Interval of median(numerator) / median(denominator), unpaired."""
    return bootstrap_quotient(
        [numerator], [denominator], confidence, seed, resamples
    )


def bootstrap_quotient(
    above: Samples,
    below: Samples,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Interval of a product of medians over another product of medians.

    Each sample is drawn again from itself, independently of the others,
    and the interval is cut from the quotients that result (percentile
    bootstrap; B. Efron, R. Tibshirani, "An Introduction to the
    Bootstrap", 1993, chapter 13). SciPy's default, BCa, needs a smooth
    statistic; the median of a few values is none, and BCa then gives NaN.

    The interval cannot be more certain than the data: of n values, the
    whole range holds the true median in 1 - 2 ** (1 - n) of all cases,
    94 % for five.

    None where it is undefined: a sample with fewer than two values, or a
    value below that is not greater than 0. Equal values give an interval
    of no width.
    """
    samples = [_finite(values) for values in (*above, *below)]
    divisors = samples[len(above) :]
    if not samples or any(len(values) < 2 for values in samples):
        return None
    if any(min(values) <= 0 for values in divisors):
        return None
    import numpy as np
    from scipy import stats

    def quotient(*drawn: np.ndarray, axis: int) -> Any:
        medians = [np.median(values, axis=axis) for values in drawn]
        upper = math.prod(medians[: len(above)])
        return upper / math.prod(medians[len(above) :])

    found = stats.bootstrap(
        samples,
        quotient,
        n_resamples=resamples,
        batch=max(1, NUMBERS_AT_ONCE // max(map(len, samples))),
        vectorized=True,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(float(found.low), float(found.high), confidence)


def mean_interval(
    values: Sequence[float], confidence: float = 0.95
) -> Interval | None:
    """Interval of the mean behind independent values (Student's t).

    Mean -+ t x standard deviation / sqrt(n), with n - 1 degrees of freedom.
    Exact for values of a normal distribution; good for 20 or more of one
    that is not too skewed, such as means of whole runs.

    The waits of requests in one line are not independent: who comes after a
    long wait waits long too, and this interval, made of them, is far too
    narrow. Give it one value for each independent run.

    None for fewer than two values.
    """
    _require_share(confidence)
    if len(_finite(values)) < 2:
        return None
    from scipy import stats

    beyond = (1 + confidence) / 2
    error = statistics.stdev(values) / math.sqrt(len(values))
    half = float(stats.t.ppf(beyond, len(values) - 1)) * error
    middle = statistics.fmean(values)
    return Interval(middle - half, middle + half, confidence)


def share_interval(
    hits: int, total: int, confidence: float = 0.95
) -> Interval:
    """Interval of a probability of which `hits` of `total` were seen.

    Never surer than it says (C. J. Clopper, E. S. Pearson, "The Use of
    Confidence or Fiducial Limits Illustrated in the Case of the Binomial",
    Biometrika 26 (1934)). Both ends leave out (1 - confidence) / 2. With no
    hits in n, the upper end of 95 % is about 3.7 / n; where only that end
    is asked for, `confidence=0.9` gives it with 95 %: about 3 / n.

    The trials are independent and of one probability. LabError for no
    trials, or for more hits than trials.
    """
    _require_share(confidence)
    if not 0 <= hits <= total or total < 1:
        raise LabError(
            f"{hits} of {total} is no share: count hits among one or more."
        )
    from scipy import stats

    found = stats.binomtest(hits, total).proportion_ci(confidence, "exact")
    return Interval(float(found.low), float(found.high), confidence)


def percentile_interval(
    values: Sequence[float], q: float, confidence: float = 0.95
) -> Interval | None:
    """Interval of the percentile behind independent values.

    Its ends are two of the values, chosen by rank alone, so that it holds
    for any continuous distribution (order statistics; W. J. Conover,
    "Practical Nonparametric Statistics", 3rd edition (1999), section 3.2).
    An end that no value is far enough out for is infinite: for p99 that is
    the upper one up to 367 values, at 95 %. None where both ends are.
    """
    _require_share(confidence)
    if not 0 <= q <= 100:
        raise LabError(f"A percentile lies between 0 and 100, not at {q}.")
    if not len(_finite(values)) or q in {0, 100}:
        return None
    from scipy import stats

    found = stats.quantile_test(values, p=q / 100)
    low, high = found.confidence_interval(confidence)
    low = -math.inf if math.isnan(low) else float(low)
    high = math.inf if math.isnan(high) else float(high)
    if math.isinf(low) and math.isinf(high):
        return None
    return Interval(low, high, confidence)


def _finite(values: Sequence[float]) -> Sequence[float]:
    for value in values:
        if not math.isfinite(value):
            raise LabError(
                f"{value} is not a measurement: leave undefined values out."
            )
    return values


def _require_share(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise LabError(
            f"A confidence lies between 0 and 1, not at {confidence}."
        )


def _over(part: float, whole: float) -> float | None:
    return part / abs(whole) if whole else None
