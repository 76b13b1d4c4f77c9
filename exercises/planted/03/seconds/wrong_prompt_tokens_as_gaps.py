# Fails: test_seconds_shapes, test_seconds_faster
def latency(inputs, outputs, prefill=1, decode=1):
    return (inputs * prefill + outputs * decode) * 0.055


seconds = {
    "summary": latency(256, 8),
    "story": latency(64, 400),
    "story_faster_prefill": latency(64, 400, prefill=0.5),
    "story_faster_decode": latency(64, 400, decode=0.5),
}
