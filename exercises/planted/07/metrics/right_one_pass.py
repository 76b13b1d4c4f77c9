def metrics(stream):
    state = {"done": False, "error": False, "usage": None}
    times, sizes = [], []
    for ms, kind, tokens in stream:
        if kind == "token":
            times.append(ms)
            sizes.append(tokens)
        elif kind == "usage":
            state["usage"] = tokens
        elif kind in ("done", "error"):
            state[kind] = True
    n = sum(sizes)
    failed = state["error"] or not state["done"] or not n
    failed = failed or state["usage"] not in (None, n)
    gaps = {True: [], False: []}
    for i in range(1, len(times)):
        single = sizes[i - 1] + sizes[i] == 2
        gaps[single].append(times[i] - times[i - 1])
    tpot = None if failed or n < 2 else (times[-1] - times[0]) / (n - 1)
    return {
        "failed": failed,
        "ttft_ms": None if failed else times[0],
        "e2e_ms": None if failed else times[-1],
        "tpot_ms": tpot,
        "itl_ms": None if failed else gaps[True],
        "inter_chunk_ms": None if failed else gaps[False],
    }
