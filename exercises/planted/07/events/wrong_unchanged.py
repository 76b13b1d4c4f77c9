# Fails: all
events = events_of_whole_pieces
