"""The evaluation counts as it says, on a set so small that every figure can be told by hand."""

from __future__ import annotations

import json

import pytest
from evaluation.__main__ import measured
from evaluation.data import Item, Question, load
from evaluation.scoring import BUDGET, packed, score


@pytest.fixture
def folder(tmp_path):
    rows = [
        ("c/1", 1, "The cat sleeps on the warm mat."),
        ("c/2", 1, "It rained in Lisbon all week."),
        ("c/3", 2, "The kettle broke on Friday."),
    ]
    (tmp_path / "tiny").mkdir()
    with (tmp_path / "tiny" / "corpus.jsonl").open("w") as file:
        for id, session, text in rows:
            item = {"id": id, "conversation": "c", "session": session, "date": "2024-03-01", "speaker": "Ann"}
            file.write(json.dumps(item | {"text": text}) + "\n")
    questions = [
        {"id": "q1", "question": "Where does the cat sleep?", "evidence": ["c/1"]},
        {"id": "q2", "question": "What broke on Friday?", "evidence": ["c/3"]},
        {"id": "q3", "question": "Who sang?", "evidence": []},
        {"id": "q4", "question": "Did the dog sleep?", "evidence": ["c/1"], "adversarial": True},
    ]
    with (tmp_path / "tiny" / "queries.jsonl").open("w") as file:
        for question in questions:
            file.write(json.dumps({"conversation": "c", "category": 1} | question) + "\n")
    return tmp_path


def test_a_question_without_an_answer_does_not_count(folder):
    assert [question.id for question in load(folder, "tiny").questions] == ["q1", "q2"]


def test_every_way_of_finding_is_measured_on_the_same_questions(folder):
    figures = measured(load(folder, "tiny"))
    assert {"term count", "FTS5", "amem sqlite"} <= set(figures)
    assert figures["amem sqlite"] == {"recall@5": 1, "recall@10": 1, "mrr": 1, "ndcg@10": 1, "pack": 1}


def test_a_question_that_was_not_answered_scores_zero(folder):
    data = load(folder, "tiny")
    figures = score(data, {"q1": ["c/2", "c/1"]})
    assert figures["recall@5"] == 0.5
    assert figures["mrr"] == 0.25
    assert figures["pack"] == 0.5


def test_a_pack_takes_what_still_fits_and_never_more_than_its_budget():
    items = {id: Item(id, "c", 1, None, None, "x" * size) for id, size in (("a", 4000), ("b", 4000), ("c", 400))}
    taken = packed(["a", "b", "c"], items)
    assert taken == ["a", "c"]
    assert sum(items[id].cost for id in taken) <= BUDGET


def test_a_sample_is_spread_over_the_questions(folder):
    data = load(folder, "tiny")
    many = [Question(str(number), "c", "1", "what", frozenset({"c/1"})) for number in range(100)]
    spread = type(data)(data.name, data.corpus, many).sample(4)
    assert [question.id for question in spread.questions] == ["0", "25", "50", "75"]
