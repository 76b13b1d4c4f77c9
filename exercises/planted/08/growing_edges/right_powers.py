from itertools import count


def growing_edges(smallest, largest, factor):
    edges = (smallest * factor**k for k in count())
    found = [next(edges)]
    while found[-1] < largest:
        found.append(next(edges))
    return tuple(found)
