# Fails: test_measure_calls, test_measure_samples, test_measure_document
def measure(work, clock, machine):
    """The text of a baseline: three results of 2 warm-ups and 5 repeats."""
    from statistics import median

    results = []
    for _ in range(2):
        work()
    for _ in range(3):
        samples = []
        for _ in range(5):
            begun = clock()
            work()
            samples.append(clock() - begun)
        record = {"name": "work_s", "value": median(samples)}
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
