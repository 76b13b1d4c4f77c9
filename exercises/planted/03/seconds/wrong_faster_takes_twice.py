# Fails: test_seconds_faster
p = 140.0
seconds = {
    "summary": (410.0 + 7 * 55.0) / 1000,
    "story": (p + 399 * 55.0) / 1000,
    "story_faster_prefill": (p * 2 + 399 * 55.0) / 1000,
    "story_faster_decode": (p + 399 * 55.0 * 2) / 1000,
}
