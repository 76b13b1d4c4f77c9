from numbers import Integral


def validate(request, limit, size):
    faults = []

    def number(value, low, high, what):
        good = isinstance(value, Integral) and not isinstance(value, bool)
        if not good or not low <= value <= high:
            faults.append(f"{what} is not from {low} to {high}")

    try:
        ids = request["prompt_ids"]
        if len(request) != 2 or not isinstance(ids, list):
            faults.append("wrong fields")
        for one in ids:
            number(one, 0, size - 1, "an id")
        room = limit - len(ids) if ids else 0
        number(request["max_new_tokens"], 1, room, "max_new_tokens")
    except (KeyError, TypeError):
        faults.append("not a request")
    return "; ".join(faults) or None
