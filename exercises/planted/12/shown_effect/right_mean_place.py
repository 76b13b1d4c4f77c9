from fractions import Fraction


def shown_effect(order, times, drift, a, b):
    """The mean of a condition follows from the mean of its places."""

    def mean(name):
        places = [k for k, each in enumerate(order) if each == name]
        slower = 1 + Fraction(drift) * Fraction(sum(places), len(places))
        return Fraction(times[name]) * slower

    return mean(a) / mean(b)
