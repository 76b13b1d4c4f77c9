def widened(requests, start, end):
    def quiet(t):
        return not any(a < t < b for a, b in requests)

    earlier = {start, *(a for a, _ in requests if a < start)}
    later = {end, *(b for _, b in requests if b > end)}
    return max(filter(quiet, earlier)), min(filter(quiet, later))
