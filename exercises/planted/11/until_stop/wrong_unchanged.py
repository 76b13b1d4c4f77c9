# Fails: all
def until_stop(pieces, end_ms, stop):
    return each_piece_alone(pieces, end_ms, stop)
