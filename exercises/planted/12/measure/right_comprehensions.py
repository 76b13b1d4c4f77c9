from statistics import median


def timed(work, clock):
    before = clock()
    work()
    after = clock()
    return after - before


def one(work, clock, machine, warmups=2, repeats=5):
    [work() for _ in range(warmups)]
    samples = [timed(work, clock) for _ in range(repeats)]
    middle = sorted(samples)[repeats // 2]
    assert middle == median(samples)
    return {
        "quantities": [
            {
                "samples": [samples],
                "record": {
                    "rule": "info",
                    "unit": "s",
                    "value": middle,
                    "name": "work_s",
                },
            }
        ],
        "protocol": {"repeats": repeats, "warmups": warmups},
        "machine": dict(machine),
    }


def measure(work, clock, machine):
    return json.dumps(
        {
            "results": [one(work, clock, machine) for _ in range(3)],
            "lesson": "12",
            "version": 1,
            "schema": "labkit.baseline",
        },
        indent=2,
    )
