# Fails: all
def growing_edges(smallest, largest, factor):
    edges = [smallest]
    while edges[-1] < largest:
        edges.append(min(edges[-1] * factor, largest))
    return edges
