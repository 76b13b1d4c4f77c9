def measures(sent_ns, token_ns):
    none = {"tpot_ms": None, "longest_gap_ms": None}
    if len(token_ns) == 0:
        return {**none, "ttft_ms": None, "prefill_share": None}
    ttft = token_ns[0] - sent_ns
    total = token_ns[-1] - sent_ns
    done = {"ttft_ms": ttft / 1e6, "prefill_share": ttft / total}
    if len(token_ns) == 1:
        return {**none, **done}
    n = len(token_ns)
    longest = max(token_ns[i] - token_ns[i - 1] for i in range(1, n))
    return {
        **done,
        "tpot_ms": (total - ttft) / (n - 1) / 1e6,
        "longest_gap_ms": longest / 1e6,
    }
