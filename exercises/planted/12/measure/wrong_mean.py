# Fails: test_measure_document
def measure(work, clock, machine):
    """The text of a baseline: three results of 2 warm-ups and 5 repeats."""

    results = []
    for _ in range(3):
        for _ in range(2):
            work()
        samples = []
        for _ in range(5):
            begun = clock()
            work()
            samples.append(clock() - begun)
        record = {"name": "work_s", "value": sum(samples) / 5}
        record |= {"unit": "s", "rule": "info"}
        results.append(
            {
                "machine": machine,
                "protocol": {"warmups": 2, "repeats": 5},
                "quantities": [{"record": record, "samples": [samples]}],
            }
        )
    head = {"schema": "labkit.baseline", "version": 1, "lesson": "12"}
    return json.dumps({**head, "results": results})
