# Fails: all
class Cache(BrokenCache):
    pass
