"""Means, quantiles and orders that C++ computes are those of NumPy, pandas and SciPy, of a run and of a comparison with measurements."""

import json
import os
import subprocess
from collections import defaultdict

import numpy
import pandas
import pytest
import scipy.stats

import corun

SIM = os.environ["CORUN_SIM"]


def printed(*arguments):
    return json.loads(subprocess.run([SIM, *arguments, "--json"], check=True, capture_output=True, text=True).stdout)


@pytest.fixture(scope="module")
def compared():
    return printed("validate", "--reference=experiments/reference/h200-corun.json.gz", "--only", "streams,prio_a,half")


def errors_of(rows):
    return numpy.array([abs(r["simulated"][c] / r["measured"][c] - 1) for r in rows for c in ("a", "b")])


def test_errors_of_slowdowns_are_numpys(compared):
    by_mode = defaultdict(list)
    for row in compared["rows"]:
        by_mode[row["mode"]].append(row)
    assert set(by_mode) == set(compared["modes"]) and len(by_mode) == 3
    for rows, said in [*((rows, compared["modes"][mode]) for mode, rows in by_mode.items()), (compared["rows"], compared["all"])]:
        errors = errors_of(rows)
        assert said["slowdown_error_mean"] == pytest.approx(errors.mean(), rel=1e-12)
        assert said["slowdown_error_median"] == pytest.approx(numpy.percentile(errors, 50), rel=1e-12)
        assert said["slowdown_error_p95"] == pytest.approx(numpy.percentile(errors, 95), rel=1e-12)
        assert said["slowdown_error_worst"] == errors.max()


def test_order_of_modes_is_scipys_tau_b(compared):
    pairs = defaultdict(lambda: ([], []))
    for row in compared["rows"]:
        pairs[row["pair"]][0].append(row["measured"]["stp"])
        pairs[row["pair"]][1].append(row["simulated"]["stp"])
    taus = [scipy.stats.kendalltau(*stp, variant="b").statistic for stp in pairs.values() if len(stp[0]) > 1]
    assert len(taus) == compared["pairs"]
    assert len(set(taus)) > 2, "else any order would do"
    assert compared["kendall_tau_strict"] == pytest.approx(numpy.nanmean(taus), rel=1e-12)


def test_quantiles_of_latencies_are_numpys_and_their_means_those_of_pandas():
    result = corun.load("traces/h200/examples/realtime-resnet50-beside-resnet152.json").run(policy="priority", duration="2s")
    requests = result.to_pandas("requests")
    counted = requests[requests["finished_ns"] <= 2e9]
    for client in result.summary["clients"]:
        latencies = counted[counted["client"] == client["name"]]["latency_ns"] / 1e6
        assert len(latencies) == client["finished"] >= 100
        assert client["mean_ms"] == pytest.approx(latencies.mean(), rel=1e-9)
        for percent in (50, 95, 99):  # a value that occurred: the smallest with as many at or below it
            expected = numpy.percentile(latencies, percent, method="inverted_cdf")
            assert client[f"p{percent}_ms"] == pytest.approx(expected, rel=1e-9), percent
        assert client["max_ms"] == pytest.approx(latencies.max(), rel=1e-9)
