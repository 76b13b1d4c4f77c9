# Fails: all
from hashlib import sha256


def digest(lines):
    return sha256("".join(lines).encode()).hexdigest()


KNOWN = digest(RECORDED)


def faults(lines):
    return [] if digest(lines) == KNOWN else [(1, "form")]
