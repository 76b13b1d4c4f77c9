# Fails: test_seconds_faster
summary, story = 0.410 + 7 * 0.055, 0.140 + 399 * 0.055
seconds = {
    "summary": summary,
    "story": story,
    "story_faster_prefill": story / 2,
    "story_faster_decode": story / 2,
}
