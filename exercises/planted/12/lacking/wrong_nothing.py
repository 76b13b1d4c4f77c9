# Fails: all
def lacking(text):
    """What keeps a document from being a baseline: pairs (result, word)."""
    from statistics import median

    try:
        found = json.loads(text)
        results = found["results"]
        known = found["schema"] == "labkit.baseline"
    except (ValueError, KeyError, TypeError, RecursionError):
        known = False
    if not known or not isinstance(results, list):
        return []
    faults = [] if len(results) == 3 else [(0, "results")]
    medians = []
    for number, result in enumerate(results, 1):
        protocol, (quantity,) = result["protocol"], result["quantities"]
        (samples,) = quantity["samples"]
        middle, value = median(samples), quantity["record"]["value"]
        holds = {
            "machine": result["machine"] == results[0]["machine"],
            "warmups": protocol["warmups"] >= 2,
            "repeats": protocol["repeats"] >= 5,
            "samples": protocol["repeats"] == len(samples),
            "value": abs(value - middle) <= 1e-6 * middle,
        }
        faults += [(number, word) for word in holds if not holds[word]]
        medians.append(middle)
    if medians and max(medians) > 1.1 * min(medians):
        faults.append((0, "agreement"))
    return []
