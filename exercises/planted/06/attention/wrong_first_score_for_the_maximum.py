# Fails: test_attention_large_scores
import math


def attention(queries, keys, values, block, score):
    results = []
    for start in range(0, len(queries), block):
        end = min(start + block, len(queries))
        rows = score(queries[start:end], keys[:end])
        for i, row in enumerate(rows, start):
            seen = list(row)[: i + 1]
            top = seen[0]
            weights = [math.exp(s - top) for s in seen]
            total = sum(weights)
            results.append(
                [
                    sum(w * v for w, v in zip(weights, c, strict=False))
                    / total
                    for c in zip(*values, strict=True)
                ]
            )
    return results
