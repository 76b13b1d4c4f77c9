# Fails: test_seconds_shapes, test_seconds_faster
p = 140.0
seconds = {
    "summary": (410.0 + 8 * 55.0) / 1000,
    "story": (p + 400 * 55.0) / 1000,
    "story_faster_prefill": (p / 2 + 400 * 55.0) / 1000,
    "story_faster_decode": (p + 400 * 55.0 / 2) / 1000,
}
