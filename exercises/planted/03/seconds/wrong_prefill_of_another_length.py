# Fails: test_seconds_shapes, test_seconds_faster
seconds = {
    "summary": 0.230 + 7 * 0.055,
    "story": 0.230 + 399 * 0.055,
    "story_faster_prefill": 0.115 + 399 * 0.055,
    "story_faster_decode": 0.230 + 399 * 0.0275,
}
