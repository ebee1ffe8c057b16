"""What was captured on an H200 or an H100, simulated beside what it measured: how far are they apart?  Known gaps have two bounds, so that
closing one is noticed.  `make test` simulates a part, `make test-all` all (CORUN_WHOLE)."""

import gzip
import importlib.util
import json
import os
import statistics
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments/h200"
SIM = os.environ["CORUN_SIM"]
WHOLE = "CORUN_WHOLE" in os.environ
of_the_whole = pytest.mark.skipif(not WHOLE, reason="make test-all")


def script(path):
    spec = importlib.util.spec_from_file_location(path.stem + "_of_" + path.parent.name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def captured():
    """Error of the replay against the run of the same turn without tracing, by program; of two clients the second."""
    return {name: ms / plain[0] - 1 for name, plain, _, ms in script(EXPERIMENTS / "capture/judge.py").rows(SIM)}


@pytest.mark.parametrize("program, most", [("plain", 0.01), ("cupy", 0.01), ("triton", 0.01), ("torch-graph", 0.06), ("two", 0.04)])
def test_a_captured_program_replays_in_its_time(captured, program, most):
    assert abs(captured[program]) <= most


@pytest.mark.parametrize("program, least, most", [("torch-eager", 0.10, 0.20), ("torch-decode", 0.30, 0.40), ("jax", -0.12, -0.06)])
def test_known_gap_where_the_host_decides_tracing_is_not_taken_off(captured, program, least, most):
    assert least <= captured[program] <= most


@pytest.fixture(scope="module")
def twice():
    """Error of the replay against the capture's own run without tracing, by program, of those that have a trace here."""
    first = {}
    for name, plain, _, replayed in script(EXPERIMENTS / "capture/judge.py").twice(SIM):
        first.setdefault(name, replayed / plain - 1)
    return first


@pytest.mark.parametrize("program, most", [("torch-eager", 0.01), ("torch-decode", 0.01), ("triton", 0.01)])
def test_a_program_that_is_also_run_without_tracing_replays_in_that_time(twice, program, most):
    assert abs(twice[program]) <= most


@pytest.fixture(scope="module")
def in_stretches():
    """Error of the replay of `sim capture` as it is against the median of the turns without tracing, by run and program."""
    of = EXPERIMENTS / "capture"
    return {(run, name): 1e3 * ms / statistics.median(plain) - 1 for run in ("stretches.json", "earlier/stretches.json")
            for name, ms, _, plain in script(of / "stretches.py").replays(SIM, of / run, "stretches")}


@pytest.mark.parametrize("run", ["stretches.json", "earlier/stretches.json"])
def test_a_graph_captured_in_stretches_replays_in_its_time_without_tracing(in_stretches, run):
    assert abs(in_stretches[run, "torch_graph"]) <= 0.01


@pytest.mark.parametrize("program", ["torch_eager", "200 small"])
def test_in_one_of_two_runs_eager_requests_captured_in_stretches_replay_in_their_time(in_stretches, program):
    assert abs(in_stretches["stretches.json", program]) <= 0.03


@pytest.mark.parametrize("run, program, least, most", [
    ("earlier/stretches.json", "torch_eager", 0.10, 0.15), ("earlier/stretches.json", "torch_decode", 0.03, 0.06),
    ("earlier/stretches.json", "200 small", -0.06, -0.03), ("stretches.json", "torch_decode", 0.03, 0.06)])
def test_known_gap_what_tracing_adds_to_a_host_is_taken_off_in_part(in_stretches, run, program, least, most):
    assert least <= in_stretches[run, program] <= most


def test_times_on_parts_of_the_gpu_bring_a_program_within_two_percent_and_without_them_its_law_within_ten():
    errors = {percent: (known / measured - 1, without / measured - 1)
              for percent, measured, known, without in script(EXPERIMENTS / "capture/judge.py").by_sms(SIM)}
    assert abs(errors[40][0]) <= 0.02
    assert 0.02 <= errors[60][0] <= 0.10, "a sixth of the launches are of other kernels there"
    assert max(abs(without) for _, without in errors.values()) <= 0.10


def test_a_second_recording_on_a_part_of_the_gpu_tells_the_parts_above_it():
    names = None if WHOLE else ["prefill_2k", "gpt2_b2s256", "decode_gqa", "resnet50_b1"]
    by_part = script(EXPERIMENTS / "networks/second.py").errors(SIM, names=names)
    mean = {(part, column): statistics.mean(map(abs, off)) for part, columns in by_part.items() for column, off in columns.items()}
    assert min(mean["mps60", "whole"], mean["mps40", "whole"]) > 5, "without one partitions are guessed"
    assert max(mean["mps60", "this part"], mean["mps40", "this part"]) <= 2
    assert mean["mps60", "other part"] <= 4 and max(map(abs, by_part["mps60"]["other part"])) <= 10
    assert 3 <= mean["mps40", "other part"] <= 12, "below all that was recorded: a known gap"


H100 = EXPERIMENTS.parent / "h100"


SERVERS = {"h200": EXPERIMENTS / "llm_server", "h200 again": EXPERIMENTS / "llm_server/second", "first": H100 / "llm_server/first", "second": H100 / "llm_server/second"}


@pytest.fixture(scope="module")
def served():
    """By server and whether its host's stalls are left out: errors of mean and median, the mean of the seeds against the mean of the runs."""
    study = script(EXPERIMENTS / "llm_server/study.py")

    def errors(server, steady, speed, seeds):
        return {(speed, what): [statistics.mean(t) / statistics.mean(m) - 1 for m, t in zip(zip(*runs), zip(*simulated))][:2]
                for speed, what, runs, simulated in study.rows(SIM, SERVERS[server], seeds, steady, [speed])}
    all_of = [("h200 again", False, 1, 1), ("h200 again", False, 1.5, 1)]
    if WHOLE:
        all_of += [("h200", False, 1, 1), ("h200", False, 2, 1)]
        all_of += [of for server in ("first", "second") for of in [(server, False, 1, 1), (server, False, 1.5, 4), (server, True, 1.5, 1)]]
    found = {}
    for server, steady, *of in all_of:
        found.setdefault((server, steady), {}).update(errors(server, steady, *of))
    return found


def test_an_h200s_server_has_its_first_token_and_the_time_between_tokens_within_four_percent_at_two_rates(served):
    errors = served["h200 again", False]
    assert len(errors) == 4
    assert max(abs(e) for of in errors.values() for e in of) <= 0.04


@of_the_whole
@pytest.mark.parametrize("server, speed, most", [("h200", 1, 0.05), ("h200", 2, 0.05), ("first", 1, 0.03), ("first", 1.5, 0.03), ("second", 1, 0.03), ("second", 1.5, 0.03)])
def test_the_time_between_tokens_is_within_three_percent_where_stalls_are_known_and_else_five(served, server, speed, most):
    assert max(map(abs, served[server, False][speed, "between_tokens"])) <= most


@of_the_whole
@pytest.mark.parametrize("server", ["h200", "first", "second"])
def test_at_the_recorded_rate_the_time_to_the_first_token_is_within_three_percent(served, server):
    assert max(map(abs, served[server, False][1, "first_token"])) <= 0.03


@of_the_whole
def test_with_stalls_of_its_host_a_server_with_a_queue_has_its_first_token_within_ten_percent(served):
    assert max(map(abs, served["first", False][1.5, "first_token"])) <= 0.10
    assert served["first", True][1.5, "first_token"][0] <= -0.25, "else the stalls would not be the cause"


@of_the_whole
def test_known_gap_a_host_whose_pace_changes_for_seconds(served):
    mean, median = served["second", False][1.5, "first_token"]
    assert -0.14 <= mean <= -0.07
    assert abs(median) <= 0.03
    assert served["second", True][1.5, "first_token"][0] <= mean - 0.01


@of_the_whole
def test_known_gap_a_queue_makes_much_of_steps_that_were_captured_too_long(served):
    mean, median = served["h200", False][2, "first_token"]
    assert 0.12 <= mean <= 0.28
    assert 0.12 <= median <= 0.20


@pytest.fixture(scope="module")
def paces():
    """Of each server: its runs, as stalls.py has them."""
    stalls = script(H100 / "llm_server/stalls.py")
    return {server: list(stalls.rows(SERVERS[server], places=5 if WHOLE else 2)) for server in ("first", "second")}


@pytest.mark.parametrize("server", ["first", "second"])
def test_stalls_of_the_phases_and_the_pace_of_each_run_make_what_the_first_token_takes_in_the_mean(paces, server):
    ways = [ways for speed, *_, ways in paces[server] if speed == 1.5]
    measured, told, without = (statistics.mean(of[way][0][0] for of in ways) for way in ("measured", "at its pace", "no stalls"))
    assert abs(told / measured - 1) <= 0.05
    assert without / measured - 1 <= -0.15


def test_steps_of_a_server_take_what_its_sizes_take_without_tracing_and_more_where_the_host_is_slow(paces):
    runs = [(host, kinds) for of in paces.values() for _, kinds, host, *_ in of]
    fast, slow = ([kinds for host, kinds in runs if (host > 2.45) == slow] for slow in (False, True))
    assert len(fast) >= 6 and len(slow) >= 5
    assert all(abs(median - 1) <= 0.02 for kinds in fast for _, median, _ in kinds.values())
    assert abs(statistics.mean(kinds["decodes"][1] for kinds in fast) - 1) <= 0.005
    assert statistics.mean(kinds["decodes"][1] for kinds in slow) - statistics.mean(kinds["decodes"][1] for kinds in fast) >= 0.01


@pytest.mark.parametrize("folder", SERVERS.values(), ids=SERVERS)
@pytest.mark.parametrize("sizes, most", [("prompts", 0.6), ("contexts", 0.3), ("batches", 0.55)])
def test_of_a_size_that_is_left_out_what_lies_between_is_nearer_than_the_next_larger_one(folder, sizes, most):
    ways = script(EXPERIMENTS / "llm_server/study.py").errors_of_sizes(folder)[sizes]
    size = {way: statistics.mean(abs(e) for errors in of for e in errors) for way, of in ways.items()}
    assert size["between"] <= most * min(size["next larger"], size["nearer"])


@pytest.fixture(scope="module")
def kinds():
    """Rows by recording and program: kinds-1 of a fast host, the others of slow ones, jax-1 with what was mended for JAX.  Errors are
    against the median of the processes without a library, of the time inside the request's range; kinds-1 has the time around it alone."""
    module = script(H100 / "capture/kinds.py")
    of = {name: H100 / f"capture/{name}.json" for name in ("kinds-1", "kinds-2", "kinds-3", "kinds-4", "jax-1")} | {"h200-1": EXPERIMENTS / "capture/kinds-1.json"}
    return {(name, row.program): row for name, path in of.items() for row in module.rows(SIM, path)}


WITHIN = [("kinds-1", p) for p in ("torch_eager", "torch_graph", "torch_decode", "triton", "cupy", "plain", "two-graph")] + [
    ("kinds-2", p) for p in ("torch_graph", "triton", "cupy", "plain", "two-graph")] + [("kinds-3", p) for p in ("triton", "cupy", "plain")] + [("jax-1", "jax")] + [
    ("kinds-4", p) for p in ("torch_graph", "triton", "jax", "cupy", "plain", "two-graph", "two-triton")] + [
    ("h200-1", p) for p in ("torch_graph", "torch_decode", "triton", "cupy", "plain", "two-graph", "two-triton")]


@pytest.mark.parametrize("recording, program", WITHIN)
def test_a_program_of_each_kind_replays_within_three_percent_of_its_time_without_tracing(kinds, recording, program):
    assert abs(kinds[recording, program].error) <= 0.03


def test_of_an_eager_program_whose_processes_differ_by_four_percent_the_replay_is_as_near_as_they_are(kinds):
    row = kinds["h200-1", "torch_eager"]
    assert row.spread[0] <= -0.035 and row.spread[1] >= 0.035
    assert abs(row.error) <= row.spread[1]


def test_on_an_h200_captured_programs_take_a_tenth_longer_at_most(kinds):
    rows = [row for (recording, _), row in kinds.items() if recording == "h200-1"]
    assert len(rows) == 9
    assert all(max(row.overhead, row.overhead_of_all or 0) <= 1.08 for row in rows)


@pytest.fixture(scope="module")
def twice_on_an_h200():
    """By program: the error of the replay as captured, and of one told what the first process without a library takes, against the second one; and how far apart the two are."""
    sys.path.insert(0, str(H100 / "capture"))
    pairs = script(H100 / "capture/pairs.py")
    with gzip.open(EXPERIMENTS / "capture/pairs-1.json.gz", "rt") as file:
        data = json.load(file)
    errors = {}
    for name, turns in data["turns"].items():
        first, second = (statistics.median(us for turn in turns[way] for us in turn["us"]) for way in ("without", "without again"))
        errors[name] = (*(pairs.replayed_us(SIM, data["trace"][name + told])[0] / second - 1 for told in ("", pairs.TWICE)), first / second - 1)
    return errors


@pytest.mark.parametrize("program", ["jax_marked", "torch_eager", "torch_decode", "torch_graph"])
def test_a_program_that_marks_its_requests_and_runs_twice_replays_as_near_as_its_processes_are(twice_on_an_h200, program):
    _, twice, apart = twice_on_an_h200[program]
    assert abs(twice - apart) <= 0.005
    assert abs(apart) <= (0.035 if program == "torch_eager" else 0.01)


@pytest.mark.parametrize("program, least, most", [("jax_marked", 0.035, 0.05), ("jax", -0.05, -0.03), ("torch_graph", 0.03, 0.045)])
def test_known_gap_where_cupti_stays_what_it_adds_to_a_graphs_launch_is_no_constant(twice_on_an_h200, program, least, most):
    assert least <= twice_on_an_h200[program][0] <= most


def test_jax_captured_takes_a_tenth_longer_at_most(kinds):
    row = kinds["jax-1", "jax"]
    assert len(row.processes) == 3 and len(row.inside["captured"]) == 4
    assert 1 < row.overhead <= 1.10 and 1 < row.overhead_of_all <= 1.10
    assert max(row.processes) / min(row.processes) <= 1.08


@pytest.mark.parametrize("recording, least, most", [("kinds-2", 1.12, 1.18), ("kinds-3", 1.16, 1.26)])
def test_known_gap_jax_whose_annotations_were_heard_took_a_seventh_longer_and_replayed_eight_percent_too_long(kinds, recording, least, most):
    row = kinds[recording, "jax"]
    assert least <= min(row.overhead, row.overhead_of_all) and max(row.overhead, row.overhead_of_all) <= most
    assert 0.07 <= row.error <= 0.09


def test_attached_alone_cupti_adds_little_to_jax(kinds):
    assert 1.02 <= kinds["kinds-3", "jax"].attached["attached"] <= 1.06


@pytest.mark.parametrize("recording, program, least, most", [
    ("kinds-2", "torch_eager", 0.08, 0.11), ("kinds-2", "torch_decode", 0.04, 0.07), ("kinds-3", "torch_eager", 0.07, 0.10),
    ("kinds-3", "torch_decode", 0.10, 0.15), ("kinds-3", "torch_graph", 0.03, 0.04), ("kinds-3", "two-graph", 0.06, 0.08),
    ("kinds-4", "torch_eager", 0.08, 0.10), ("kinds-4", "torch_decode", 0.10, 0.13)])
def test_known_gap_where_the_host_is_slow_cupti_adds_more_than_is_taken_off(kinds, recording, program, least, most):
    assert least <= kinds[recording, program].error <= most


@pytest.mark.parametrize("recording, inside, around", [("kinds-2", 0.04, -0.02), ("kinds-3", 0.07, 0.03)])
def test_known_gap_behind_a_sleep_six_launches_cost_the_capture_more_than_is_taken_off(kinds, recording, inside, around):
    row = kinds[recording, "two-triton"]
    assert abs(row.error - inside) <= 0.006 and abs(row.error_around - around) <= 0.006
    assert 0.017 <= row.usual_around - row.usual <= 0.035, "what opening and closing the range takes"


def test_known_gap_a_range_behind_a_sleep_was_shorter_than_what_was_timed_around_it(kinds):
    assert -0.08 <= kinds["kinds-1", "two-triton"].error_around <= -0.04


@pytest.mark.parametrize("recording", ["kinds-1", "kinds-2", "kinds-3"])
def test_a_graph_captured_takes_a_tenth_longer_at_most_and_kernels_that_hide_the_host_two_percent(kinds, recording):
    assert kinds[recording, "torch_graph"].overhead <= 1.10
    assert all(kinds[recording, program].overhead <= 1.02 for program in ("triton", "cupy", "plain"))


@pytest.mark.parametrize("recording, program, least, most", [
    ("kinds-2", "torch_eager", 1.15, 1.22), ("kinds-2", "torch_decode", 1.12, 1.19), ("kinds-3", "torch_eager", 1.09, 1.32), ("kinds-3", "torch_decode", 1.22, 1.57)])
def test_known_gap_eager_launches_take_more_than_a_tenth_longer_where_the_host_is_slow(kinds, recording, program, least, most):
    row = kinds[recording, program]
    assert least <= min(row.overhead, row.overhead_of_all) and max(row.overhead, row.overhead_of_all) <= most


@pytest.fixture(scope="module")
def instances():
    """Error of the images a second in each MIG instance of an A100, by network, against what was published."""
    part = () if WHOLE else (4, ["resnet50_b1", "vgg19_b1"])
    errors = {}
    for network, profile, _, published, simulated in script(EXPERIMENTS.parent / "mig/parva.py").rows(SIM, *part):
        errors.setdefault(network, {})[profile] = simulated / published - 1
    return errors


@pytest.mark.parametrize("network, most", [("resnet50_b1", 0.04), ("vgg19_b1", 0.07), pytest.param("resnet152_b8", 0.10, marks=of_the_whole)])
def test_networks_in_instances_of_an_a100_do_what_was_published(instances, network, most):
    assert len(instances[network]) >= 3
    assert max(map(abs, instances[network].values())) <= most


@of_the_whole
def test_known_gap_many_small_kernels_of_other_libraries_are_half_too_fast_in_the_smallest_instance(instances):
    assert 0.40 <= instances["densenet201_b1"]["1g.10gb"] <= 0.50


@of_the_whole
def test_known_gap_a_network_that_was_published_with_other_kernels_is_far_too_fast(instances):
    assert 0.35 <= min(instances["inception3_b1"].values()) and max(instances["inception3_b1"].values()) <= 0.95


def test_calibrations_of_five_h200s_agree_in_what_the_card_decides_alone():
    """Within 3 %, but for calls and notices in which the host takes part, gaps of a stream, host flags, copies, persistent kernels' turns, DRAM's
    latency (4.2 %), one SM's reads (3.3 %), and what is no longer measured.  3 % of none of them moves the pairs' mean slowdown by 0.1 % (README)."""
    rows, constants = script(EXPERIMENTS.parent / "calibrations/table.py").table()
    assert constants == 41
    assert {row[0] for row in rows} == {
        "contention/dram_latency_ns", "contention/dram_over_l2_latency_ratio", "contention/sm_read_bytes_per_second",
        "latencies/persistent_task_ns", "latencies/retreat_ns", "latencies/launch_call_ns", "latencies/launch_latency_ns", "latencies/stream_gap_ns",
        "latencies/graph_launch_call_ns",
        "latencies/graph_launch_latency_ns", "latencies/completion_notice_ns", "latencies/progress_read_ns", "latencies/stop_flag_ns",
        "preemption/stop_flag_host_ns", "preemption/stop_flag_host_block_ns", "preemption/stop_flag_copied_ns",
        "memory/copy_bytes_per_second", "contention/launch_beside_others_ns"}
    apart = {row[0]: row[4] for row in rows}
    assert 25 < apart["latencies/stream_gap_ns"] < 30


def test_an_encoder_captured_twice_or_once_is_within_five_percent_under_percentages_and_ten_between_both_recordings():
    errors = script(EXPERIMENTS / "second_run/second_run.py").judge(SIM)
    assert -0.11 <= errors.pop(("second", 75)) <= -0.08
    assert len(errors) == 7 and max(map(abs, errors.values())) <= 0.05


def steered(recording, modes=None, programs=None):
    """By mode and programs: the error of STP of programs as they are on an H200."""
    compare = script(EXPERIMENTS / "live/compare.py")
    with gzip.open(EXPERIMENTS / f"live/{recording}.json.gz", "rt") as file:
        measured = json.load(file)
    return {(mode.split(" ")[0], "+".join(shares)): sum(there.values()) / sum(shares.values()) - 1 for mode, shares, there in compare.shares_of(SIM, measured, modes, programs)}


def test_a_graph_and_a_prefill_as_they_are_have_their_stp_within_six_percent_on_an_h200():
    modes = ["fcfs", "tpc-mask:split=even", "reef-n", "priority", "wait:beside=on", "mps"][: None if WHOLE else 2]
    errors = steered("stp-2", modes, ["vision-graph", "prefill"])
    assert len(errors) == len(modes)
    assert max(map(abs, errors.values())) <= 0.06


def test_on_half_of_an_h200_a_prefill_whose_blocks_take_tiles_as_sms_get_free_is_within_six_percent():
    (error,) = steered("stp-4", ["tpc-mask:split=even,tpcs=16/32/18"], ["vision-graph", "prefill"]).values()
    assert abs(error) <= 0.06


@of_the_whole  # ten minutes
def test_of_88_sets_of_programs_as_they_are_on_an_h200_82_have_their_stp_within_six_percent():
    errors = {(recording, *key): error for recording in ("stp-2", "stp-3", "stp-6") for key, error in steered(recording).items()}
    assert len(errors) == 88
    off = {key: error for key, error in errors.items() if abs(error) > 0.06}
    assert {(recording, mode) for recording, mode, _ in off} == {("stp-2", "tpc-mask:split=even"), ("stp-3", "turns"), ("stp-3", "reef-n"), ("stp-6", "smguard"), ("stp-6", "tpc-mask:split=even")}
    assert len(off) == 6
    assert max(map(abs, off.values())) <= 0.115


@of_the_whole
def test_a_decode_beside_training_has_its_p99_within_six_percent_under_priorities_and_backfilling_and_ten_under_plain_mps():
    compare = script(EXPERIMENTS / "live/compare.py")
    with gzip.open(EXPERIMENTS / "live/decode-train-6.json.gz", "rt") as file:
        measured = json.load(file)
    modes = {"priority": 0.06, "wait:beside=on,backfill=on@8/64": 0.06, "mps": 0.10}
    for mode, rounds, simulated in compare.latencies(SIM, measured, modes):
        p99 = statistics.median(r["decode-graph"]["p99_ms"] for r in rounds)
        assert abs(simulated["decode-graph"]["p99_ms"] / p99 - 1) <= modes.pop(mode), mode
    assert not modes


def test_each_program_of_the_matrix_ends_under_each_policy_with_the_outputs_that_it_has_alone():
    last, alone = {}, {}
    with gzip.open(EXPERIMENTS / "live/matrix.jsonl.gz", "rt") as file:
        for row in map(json.loads, file):
            if row.get("policy") == "alone" and row["class"] is None:
                alone[row["program"]] = row
            elif row.get("class") in ("rt", "be"):
                last[row["program"], row["policy"], row["class"]] = row
    ran = {name for name, row in alone.items() if row["ok"]}
    variants = {f"jax-{kind}-{buffers}" for kind in ("inference", "training") for buffers in ("default", "plain")}  # not each under smguard
    assert set(alone) - ran == {"numba"} and variants < ran
    of_variants = [row["same"] and row["exit"] == 0 for key, row in last.items() if key[0] in variants]
    assert len(of_variants) == 22 and all(of_variants)
    last = {key: row for key, row in last.items() if key[0] not in variants}
    ran -= variants
    assert len(ran) == 22
    assert set(last) == {(name, policy, kind) for name in ran for policy in ("fcfs", "priority", "wait", "reef-n", "smguard", "flexgpu") for kind in ("rt", "be")}
    assert [key for key, row in last.items() if row["exit"] != 0 or row["hash"] != alone[key[0]]["hash"]] == []


def test_known_gap_the_advised_setting_keeps_each_promise_under_random_arrivals_and_serves_half_of_the_goals_best():
    judge = script(EXPERIMENTS / "promises/judge.py")
    cases = list(judge.rows())
    assert [len(measured) for _, _, measured in cases] == [8] * 6 + [6]
    assert all(row["holds"] for _, _, measured in cases for row in measured if row["setting"]["advised"])
    right = [judge.is_right(case, measured) for _, case, measured in cases]
    assert sum(right[:6]) == 3, "by the rule before decision 448; 5 are wanted"
    assert right[6:] == [True], "by the rule of today"


def test_what_is_said_of_a_changed_assumption_is_right_by_compare():
    """As `experiments/assumptions/questions.py` found: at least twenty verdicts, ten that do not change, at most five not sure."""
    said = json.loads((EXPERIMENTS / "../assumptions/questions.json").read_text())
    same = [one for one in said if one["same_by_compare"]]
    assert len(said) == 34 and all(one["right"] for one in said)
    assert sum(not one["sure"] for one in said) <= 5
    assert len(same) == 28 and not any(one["said"] == "changes" for one in same)


REPLICAS = EXPERIMENTS / "replicas"


@pytest.fixture(scope="module")
def replicas():
    """Error of what the simulator of today says of a case against what was measured, by figure."""
    sys.path.insert(0, str(REPLICAS))
    predict = script(REPLICAS / "predict.py").predict
    measured = {row["case"]: row for row in script(REPLICAS / "judge.py").rows()}
    sys.path.remove(str(REPLICAS))

    def error(server, mode, cores, count):
        said = predict(SIM, server, cores, count)[mode]
        return {name: value / measured[server, mode, cores, count][name]["measured"] - 1 for name, value in said.items()}
    return error


@pytest.mark.parametrize("case", [("resnet50_b1", "mps", "enough", 4), ("resnet50_b1", "timeslice", "enough", 4), ("resnet50_b1", "timeslice", "one", 4),
                                  ("decode_2k", "mps", "two", 3), ("decode_2k", "timeslice", "enough", 4)])
def test_so_many_replicas_on_so_many_cores_serve_as_many_requests(replicas, case):
    assert abs(replicas(*case)["per_s"]) <= 0.12


@pytest.mark.parametrize("case, figure, least, most", [
    (("decode_2k", "mps", "enough", 1), "per_s", -0.30, -0.24), (("decode_2k", "timeslice", "one", 2), "per_s", -0.27, -0.21),
    (("decode_2k", "mps", "two", 4), "p99_ms", -0.56, -0.46), (("resnet50_b1", "mps", "enough", 1), "p99_ms", -0.16, -0.08)])
def test_known_gap_hosts_of_another_pace_than_recorded_and_cores_that_linux_does_not_balance(replicas, case, figure, least, most):
    assert least <= replicas(*case)[figure] <= most


def test_threads_of_one_core_keep_it_for_the_slice_that_is_simulated():
    runs = [run for run in json.loads(gzip.open(REPLICAS / "measured.json.gz").read())["runs"] if run["cores"] == "one"]
    others = statistics.mean(n for run in runs if run["replicas"] == 1 for n in run["switched"])
    for count in (2, 4):
        slices = [900 / count / (n - others / count) for run in runs if run["replicas"] == count for n in run["switched"]]
        assert statistics.mean(slices) == pytest.approx(4, rel=0.05), "ms"
