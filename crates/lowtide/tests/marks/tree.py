"""Steps in a parent and in children of one start method: `tree.py METHOD`."""

import multiprocessing
import sys
import time

from page import Page


def work(index, steps):
    page = Page(rank=index, world=3)
    for number in range(1, steps + 1):
        page.step(number)
        time.sleep(0.001)
    page.mark(4, 3, steps)


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    page = Page(rank=0, world=3)
    page.mark(6, 3, 0, b'{"examples":663,"batch":2,"accum":4}')
    children = [context.Process(target=work, args=(index, 40 + index)) for index in (1, 2)]
    for child in children:
        child.start()
    for number in range(1, 121):
        page.step(number)
        if number == 60:
            page.mark(3, 1, number)
            page.mark(3, 2, number)
    for child in children:
        child.join()
