# Fails: all
def growing_edges(smallest, largest, factor):
    edges = [smallest]
    while edges[-1] < largest:
        edges.append(max(round(edges[-1] * factor), edges[-1] + 1))
    return edges
