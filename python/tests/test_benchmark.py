"""Is a predictor of sharing scored as the benchmark's page says?"""
import csv
import gzip
import math
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "experiments/benchmark"
sys.path.insert(0, str(BENCHMARK))
import score  # noqa: E402

ROWS = score.read(str(BENCHMARK / "rows.csv.gz"))


def ran(*arguments):
    return subprocess.run([sys.executable, str(BENCHMARK / "score.py"), *map(str, arguments)], capture_output=True, text=True)


def test_a_score_is_of_errors_of_the_cost_of_sharing_and_of_ranks():
    of = score.score([(1.0, 1.1), (2.0, 1.8), (3.0, 3.0), (1.5, 1.5)])
    assert of["rows"] == 4
    assert of["mean"] == pytest.approx((0.1 + 0.1 + 0 + 0) / 4)
    assert of["p95"] == pytest.approx(0.1)
    assert of["cost"] == pytest.approx(0.3 / 3.5), "0.1 and 0.2 of 0, 1, 2 and 0.5"
    assert of["rank"] == pytest.approx(1)
    assert score.correlation([1, 2, 2, 3], [3, 2, 2, 1]) == pytest.approx(-1), "equal values share a rank"


def test_null_is_off_by_all_that_sharing_costs_and_orders_nothing():
    for _, of in score.table(ROWS, score.predictions("null", ROWS)):
        assert of["cost"] == pytest.approx(1) and of["rank"] is None


def test_what_was_measured_scores_as_perfect(tmp_path):
    perfect = tmp_path / "perfect.csv"
    with perfect.open("w") as file:
        csv.writer(file).writerows([("id", "predicted"), *((row["id"], row["measured"]) for row in ROWS)])
    for _, of in score.table(ROWS, score.predictions(str(perfect), ROWS)):
        assert of["mean"] == 0 and of["rank"] == pytest.approx(1)


@pytest.mark.parametrize("text, said", [
    ("id,predicted\nnobody/a+b/half/a,1\n", "line 2: there is no row nobody/a+b/half/a"), ("id,predicted\nx,fast\n", "line 2: expected an id and a factor"),
    ("name,value\nx,1\n", "line 2: expected an id and a factor"), (f"id,predicted\n{ROWS[0]['id']},-1\n", "expected an id and a factor above 0")])
def test_a_file_that_cannot_be_scored_is_refused_with_its_line(tmp_path, text, said):
    file = tmp_path / "p.csv"
    file.write_text(text)
    assert ran(file).returncode == 1 and said in ran(file).stderr


def test_a_set_of_which_rows_are_missing_is_not_scored(tmp_path):
    file = tmp_path / "one.csv"
    file.write_text(f"id,predicted\n{ROWS[0]['id']},1.5\n")
    assert f"{sum(row['set'] == ROWS[0]['set'] for row in ROWS) - 1:6} rows are not predicted" in ran(file).stdout


def test_each_row_has_one_name_a_positive_factor_and_a_set_with_one_card():
    assert len({row["id"] for row in ROWS}) == len(ROWS) > 9000
    assert all(0 < float(row["measured"]) < math.inf and 0 < float(row["alone_ms"]) for row in ROWS)
    assert len({(row["set"], row["card"]) for row in ROWS}) == len({row["set"] for row in ROWS})


def test_the_simulators_entry_is_within_what_the_page_says():
    """In the mean, in per cent."""
    most = {"pairs-h200": 2.1, "pairs-h200-further": 3.3, "pairs-h100": 2.8, "pairs-h100-further": 3.8, "networks-h200": 6.0, "parts-h200": 10.5}
    scores = dict(score.table(ROWS, score.predictions(str(BENCHMARK / "entries/corun.csv.gz"), ROWS)))
    for of, bound in most.items():
        assert 100 * scores[of]["mean"] <= bound, of
