import math


def take_in(lengths, free_bytes, bytes_per_token, block):
    sizes = [math.ceil(n / block) * block * bytes_per_token for n in lengths]
    taken = 0
    while taken < len(sizes) and sum(sizes[: taken + 1]) <= free_bytes:
        taken += 1
    held = float(sum(sizes[:taken]))
    used = sum(lengths[:taken]) * bytes_per_token
    return {
        "taken": taken,
        "held": held,
        "wasted": (held - used) / held if held else None,
    }
