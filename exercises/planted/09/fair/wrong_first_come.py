# Fails: test_turns, test_joining, test_same_moment, test_many
def fair(requests):
    return first_come(requests)
