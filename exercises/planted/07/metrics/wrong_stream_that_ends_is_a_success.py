# Fails: test_failed
from itertools import pairwise


def metrics(stream):
    names = ["ttft_ms", "e2e_ms", "tpot_ms", "itl_ms", "inter_chunk_ms"]
    found = dict.fromkeys(names)
    kinds = [kind for _, kind, _ in stream]
    chunks = [(ms, k) for ms, kind, k in stream if kind == "token"]
    n = sum(k for _, k in chunks)
    counted = [k for _, kind, k in stream if kind == "usage"]
    wrong_count = any(k != n for k in counted)
    failed = "error" in kinds or not n or wrong_count
    found["failed"] = failed
    if failed:
        return found
    first, last = chunks[0][0], chunks[-1][0]
    found["ttft_ms"] = first
    found["e2e_ms"] = last
    if n > 1:
        found["tpot_ms"] = (last - first) / (n - 1)
    itl, inter_chunk = [], []
    for (before, k), (after, m) in pairwise(chunks):
        (itl if k == m == 1 else inter_chunk).append(after - before)
    found |= {"itl_ms": itl, "inter_chunk_ms": inter_chunk}
    return found
