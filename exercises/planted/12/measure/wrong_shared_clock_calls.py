# Fails: test_measure_calls
def measure(work, clock, machine):
    """The text of a baseline: three results of 2 warm-ups and 5 repeats."""
    from statistics import median

    results = []
    for _ in range(3):
        for _ in range(2):
            work()
        samples, begun = [], clock()
        for _ in range(5):
            work()
            now = clock()
            samples.append(now - begun)
            begun = now
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
