# Fails: test_taken
def take_in(lengths, free_bytes, bytes_per_token, block):
    taken = used = held = 0
    for length in lengths:
        size = -(-length // block) * block * bytes_per_token
        if held + size > free_bytes:
            break
        if not length:
            continue
        taken, used, held = taken + 1, used + length, held + size
    wasted = 1 - used * bytes_per_token / held if held else None
    return {"taken": taken, "held": held, "wasted": wasted}
