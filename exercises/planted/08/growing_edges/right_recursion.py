def growing_edges(smallest, largest, factor):
    if smallest >= largest:
        return [smallest]
    return [smallest, *growing_edges(smallest * factor, largest, factor)]
