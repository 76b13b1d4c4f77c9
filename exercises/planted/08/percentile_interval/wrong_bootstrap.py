# Fails: all
import random


def percentile_interval(values, q, confidence):
    draw = random.Random(0)
    found = []
    for _ in range(400 if values else 0):
        again = sorted(draw.choices(values, k=len(values)))
        found.append(again[min(int(len(again) * q / 100), len(again) - 1)])
    found.sort()
    if not found:
        return None, None
    cut = int(len(found) * (1 - confidence) / 2)
    return found[cut], found[-1 - cut]
