"""``python -m evaluation --data FOLDER``: search beside plain baselines, on questions that nobody here wrote."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from evaluation import baselines
from evaluation.data import SETS, DataSet, load
from evaluation.ours import remembered
from evaluation.scoring import MEASURES, score

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "eval"


def main() -> int:
    """Print one line for each way of finding on each data set; return 1 when the data are not there."""
    parser = argparse.ArgumentParser(prog="python -m evaluation", description=__doc__)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; all when none is given")
    parser.add_argument(
        "--data", type=Path, default=BESIDE, help="the folder that holds the sets (default %(default)s)"
    )
    parser.add_argument("--sample", type=int, help="ask at most so many questions of each set")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    if unknown := set(arguments.sets) - set(SETS):
        parser.error(f"no data set {', '.join(sorted(unknown))}; there are {', '.join(SETS)}")
    if not arguments.data.is_dir():
        print(f"the data are not at {arguments.data}: name their folder with --data", file=sys.stderr)
        return 1
    for name in arguments.sets or SETS:
        data = load(arguments.data, name)
        if arguments.sample:
            data = data.sample(arguments.sample)
        print(f"{name}: {len(data.questions)} questions …", file=sys.stderr)
        for way, figures in measured(data).items():
            _show(name, way, len(data.questions), figures, as_json=arguments.json)
    return 0


def measured(data: DataSet) -> dict[str, dict[str, float]]:
    """Return every measure of every way of finding; one whose engine is not installed is left out."""
    ways = {"term count": baselines.term_count, "FTS5": baselines.plain_fts5, "Tantivy": baselines.plain_tantivy}
    answers = {way: find(data) for way, find in ways.items()}
    with remembered(data) as asked:
        answers["amem sqlite"] = {
            question.id: asked.ranked(question.conversation, question.text) for question in data.questions
        }
    return {way: score(data, found) for way, found in answers.items() if found is not None}


def _show(name: str, way: str, questions: int, figures: dict[str, float], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"set": name, "way": way, "questions": questions, **figures}), flush=True)
        return
    print(f"{name:10} {way:12}" + "".join(f"  {measure} {figures[measure]:.3f}" for measure in MEASURES), flush=True)


if __name__ == "__main__":
    sys.exit(main())
