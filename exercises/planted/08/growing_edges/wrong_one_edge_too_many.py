# Fails: all
def growing_edges(smallest, largest, factor):
    edges = [smallest]
    while edges[-1] <= largest:
        edges.append(edges[-1] * factor)
    edges.append(edges[-1] * factor)
    return edges
