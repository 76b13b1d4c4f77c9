import numpy as np


def lacking(text):
    try:
        document = json.loads(text)
    except Exception:
        return {(0, "document")}
    if not isinstance(document, dict):
        return {(0, "document")}
    results = document.get("results")
    schema = document.get("schema")
    if schema != "labkit.baseline" or type(results) is not list:
        return {(0, "document")}
    faults, medians = set(), []
    if len(results) != 3:
        faults.add((0, "results"))
    for number, result in enumerate(results, 1):
        if result["machine"] != results[0]["machine"]:
            faults.add((number, "machine"))
        protocol = result["protocol"]
        if protocol["warmups"] < 2:
            faults.add((number, "warmups"))
        if protocol["repeats"] < 5:
            faults.add((number, "repeats"))
        quantity = result["quantities"][0]
        samples = np.array(quantity["samples"][0])
        if len(samples) != protocol["repeats"]:
            faults.add((number, "samples"))
        medians.append(float(np.median(samples)))
        apart = abs(quantity["record"]["value"] / medians[-1] - 1)
        if apart > 1e-6:
            faults.add((number, "value"))
    if medians and max(medians) / min(medians) - 1 > 0.1:
        faults.add((0, "agreement"))
    return faults
