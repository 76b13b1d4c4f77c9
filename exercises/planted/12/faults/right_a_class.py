import json


class Checker:
    def __init__(self):
        self.found = []
        self.last_seq = 0
        self.first = {}
        self.last_time = {}
        self.seen = set()
        self.ids = {}

    def line(self, number, text):
        try:
            event = json.loads(text)
        except (RecursionError, ValueError):
            event = None
        self.last_seq += 1
        if not is_event(event):
            self.found.append([number, "form"])
            return
        if event["seq"] != self.last_seq:
            self.found.append([number, "number"])
            self.last_seq = event["seq"]
        for word in self.words(event):
            self.found.append([number, word])
        self.first.setdefault(event["request"], number)
        self.last_time[event["request"]] = event["time_ns"]
        self.seen.add((event["request"], event["kind"]))

    def words(self, event):
        name = event["request"]
        sent = (name, "sent") in self.seen
        ended = (name, "end") in self.seen
        if event["time_ns"] < self.last_time.get(name, event["time_ns"]):
            yield "time"
        if event["kind"] == "sent":
            if sent:
                yield "twice"
            return
        if not sent:
            yield "early"
        if ended:
            yield "late" if event["kind"] == "token" else "twice"
        so_far = self.ids.get(name, 0)
        if event["kind"] == "token":
            self.ids[name] = so_far + len(event["ids"])
        elif event["tokens"] != so_far:
            yield "count"

    def close(self):
        for name, number in self.first.items():
            if (name, "end") not in self.seen:
                self.found.append([number, "open"])
        return self.found


def faults(lines):
    checker = Checker()
    for number, text in enumerate(lines, 1):
        if text[-1:] == "\n":
            checker.line(number, text)
    return checker.close()
