"""Work in processes of their own, forked so that a test can be a function inside a function."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any


def in_processes(work: Callable[[int], Any], count: int) -> list[Any]:
    """Run ``work(0)`` to ``work(count - 1)``, each in its own process, at once; return what they return, as JSON.

    Tuples come back as lists. A process that fails fails the test.
    """
    pipes = [os.pipe() for _ in range(count)]
    context = multiprocessing.get_context("fork")
    processes: list[BaseProcess] = []
    for number, (_, writing) in enumerate(pipes):
        process = context.Process(target=_report, args=(work, number, writing))
        process.start()
        os.close(writing)
        processes.append(process)
    answers = [_read(reading) for reading, _ in pipes]
    for each in processes:
        each.join(60)
        assert each.exitcode == 0
    return [json.loads(answer) for answer in answers]


def _report(work: Callable[[int], Any], number: int, writing: int) -> None:
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        json.dump(work(number), pipe)


def _read(reading: int) -> str:
    with os.fdopen(reading, encoding="utf-8") as pipe:
        return pipe.read()
