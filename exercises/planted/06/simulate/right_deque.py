from collections import deque


def simulate(turns, window, target):
    chat, total, answer = deque(), 0, []
    for turn in turns:
        chat.append(turn)
        total += turn
        cut = False
        if total > window:
            while total > target and len(chat) > 1:
                total -= chat.popleft()
                cut = True
        answer.append(total if cut else turn)
    return answer
