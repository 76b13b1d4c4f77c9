import numpy as np

NAMES = ["ttft_ms", "ttft_from_schedule_ms", "tpot_ms", "e2e_ms"]


def figures(record):
    """A row of values; all NaN for a failure."""
    tokens = np.array(record["token_ms"], float)
    if record["end"] != "done" or not tokens.size:
        return [np.nan] * 4
    gaps = np.diff(tokens)
    return [
        tokens[0] - record["sent_ms"],
        tokens[0] - record["due_ms"],
        gaps.mean() if gaps.size else -np.inf,
        tokens[-1] - record["sent_ms"],
    ]


def goodput(records, objectives):
    bounds = [objectives.get(name) for name in NAMES]
    bounds = [np.inf if bound is None else bound for bound in bounds]
    rows = np.array([figures(r) for r in records]).reshape(-1, 4)
    met = (rows <= bounds).all(axis=1)
    answered = ~np.isnan(rows[:, 0])
    found = {"met": met.sum(), "share": None, "share_answered": None}
    found["per_s"] = None
    if len(rows):
        found["share"] = met.mean()
    if answered.any():
        found["share_answered"] = met[answered].mean()
        sent = np.array([r["sent_ms"] for r in records])
        last = (rows[:, 3] + sent)[answered].max()
        found["per_s"] = 1000 * met.sum() / (last - sent.min())
    return found
