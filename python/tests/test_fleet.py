"""The fleet study of experiments/fleet: is every pod run, is no GPU overbooked, do the rules choose as they say?"""

import random
import sys
from pathlib import Path

import pytest

numpy = pytest.importorskip("numpy")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments/fleet"))

import colocations  # noqa: E402
import placement  # noqa: E402
import pods as pods_of  # noqa: E402
from pods import Kind, Pod  # noqa: E402

GENTLE = Kind("be-gentle", "decode_2k", 0.3, False)
HEAVY = Kind("be-heavy", "resnet152_b8", 0.3, False)
CAMERA = Kind("rt-camera", "resnet50_b1", 0.3, True)
HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def cost(company):
    """The camera's p99 does not hold beside the heavy program."""
    broken = company.count("rt-camera") if "be-heavy" in company else 0
    return broken, len(company) * (0.5 if broken else 1.0)


def rules(pods):
    fragmentation = placement.Fragmentation(pods)
    return fragmentation, [placement.FirstFit(), placement.BestFit(), placement.LeastFragmentation(fragmentation),
                           placement.LeastInterference(cost)]


def any_pods(seed, count=400):
    dice = random.Random(seed)
    out = []
    for i in range(count):
        kind = dice.choice([GENTLE, HEAVY, CAMERA, None])
        gpus = dice.choice([1, 1, 2, 4, 8]) if kind is None else 1
        milli = 1000 if kind is None else dice.choice([50, 110, 230, 320, 470, 650, 810])
        out.append(Pod(f"p{i}", gpus, milli, kind, dice.randrange(3000), dice.randrange(1, 900)))
    return sorted(out, key=lambda pod: (pod.arrives, pod.name))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_pod_runs_once_for_its_time_and_no_gpu_is_overbooked(seed, monkeypatch):
    pods = any_pods(seed)
    placed = []
    put = placement.Fleet.put

    def watched(fleet, pod, where):
        put(fleet, pod, where)
        placed.append(pod.name)
        assert len(set(where)) == pod.gpus and len({gpu // placement.NODE for gpu in where}) == 1
        for gpu in where:
            assert sum(one.milli for one in fleet.on[gpu]) == 1000 - fleet.free[gpu] <= 1000
            assert len(fleet.on[gpu]) <= fleet.most

    monkeypatch.setattr(placement.Fleet, "put", watched)
    fragmentation, all_rules = rules(pods)
    for rule in all_rules:
        placed.clear()
        outcome = placement.replay(pods, 16, rule, fragmentation, (0, 3000))
        assert sorted(placed) == sorted(pod.name for pod in pods)
        assert any(outcome.waits) and all(wait >= 0 for wait in outcome.waits)
        for pod in pods:
            assert outcome.ended[pod.name] - outcome.started[pod.name] == pod.runs
        assert sum(outcome.gpu_seconds.values()) == 16 * 3000


def test_when_all_have_left_the_fleet_is_free():
    pods = any_pods(4)
    fragmentation, all_rules = rules(pods)
    for rule in all_rules:
        outcome = placement.replay(pods, 16, rule, fragmentation, (10**6, 10**6 + 7))
        assert outcome.gpu_seconds == {(): 16 * 7}


@pytest.mark.parametrize("arrives, starts", [(99, 100), (100, 100), (101, 101)])
def test_what_leaves_at_a_second_makes_room_for_what_arrives_in_it(arrives, starts):
    pods = [Pod("all", 8, 1000, None, 0, 100), Pod("next", 1, 500, GENTLE, arrives, 10)]
    fragmentation, all_rules = rules(pods)
    for rule in all_rules:
        outcome = placement.replay(pods, 8, rule, fragmentation, (0, 200))
        assert outcome.started["next"] == starts


def test_one_that_does_not_fit_lets_others_pass():
    pods = [Pod("most", 7, 1000, None, 0, 100), Pod("wide", 4, 1000, None, 1, 10), Pod("small", 1, 500, GENTLE, 2, 10)]
    fragmentation, all_rules = rules(pods)
    for rule in all_rules:
        outcome = placement.replay(pods, 8, rule, fragmentation, (0, 200))
        assert (outcome.started["wide"], outcome.started["small"]) == (100, 2)


def held(rule, pods, fragmentation):
    outcome = placement.replay(pods, 8, rule, fragmentation, (0, 1000))
    return sum(all(cost(company)[0] == 0 for company in met) for _, met in outcome.met)


def test_interference_aware_keeps_what_first_fit_breaks():
    pods = [Pod("batch", 1, 300, HEAVY, 0, 100), Pod("llm", 1, 300, GENTLE, 1, 100), Pod("cam", 1, 300, CAMERA, 2, 100)]
    fragmentation, all_rules = rules(pods)
    assert held(all_rules[0], pods, fragmentation) == 0
    assert held(all_rules[3], pods, fragmentation) == 1


@pytest.mark.parametrize("seed", range(1, 6))
def test_interference_aware_is_never_worse_than_first_fit_where_there_is_room(seed):
    dice = random.Random(seed)
    pods = [Pod(f"p{i}", 1, 300, dice.choice([GENTLE, HEAVY, CAMERA]), i, 50) for i in range(8)]
    fragmentation, all_rules = rules(pods)
    assert held(all_rules[3], pods, fragmentation) >= held(all_rules[0], pods, fragmentation)


@pytest.mark.parametrize("gentle, heavy, expected", [(0.1, 0.1, 1), (0.1, 0.2, 0), (0.2, 0.3, 0), (0.3, 0.2, 1)])
def test_where_no_gpu_is_empty_the_least_harm_decides_and_among_equals_the_least_room(gentle, heavy, expected):
    loss = {("be-gentle", "rt-camera"): gentle, ("be-heavy", "rt-camera"): heavy}
    rule = placement.LeastInterference(lambda company: (0, len(company) - loss.get(company, 0)))
    fleet = placement.Fleet(8, 4)
    fleet.put(Pod("a", 1, 100, GENTLE, 0, 1), [0])
    fleet.put(Pod("b", 1, 600, HEAVY, 0, 1), [1])
    camera = Pod("c", 1, 300, CAMERA, 0, 1)
    fleet.put(Pod("rest", 6, 1000, None, 0, 1), [2, 3, 4, 5, 6, 7])
    assert rule.choose(fleet, camera) == [expected]


@pytest.mark.parametrize("lost, expected", [(0.1, 0), (0.101, 1)])
def test_a_pod_joins_others_up_to_the_loss_and_else_has_an_empty_gpu(lost, expected):
    rule = placement.LeastInterference(lambda company: (0, len(company) - lost * (len(company) - 1)))
    fleet = placement.Fleet(8, 4)
    fleet.put(Pod("a", 1, 100, GENTLE, 0, 1), [0])
    assert rule.choose(fleet, Pod("c", 1, 300, CAMERA, 0, 1)) == [expected]


def test_best_fit_takes_the_fullest_and_first_fit_the_first_that_has_room():
    first, best = placement.FirstFit(), placement.BestFit()
    for rule, expected in ((first, [0]), (best, [1])):
        fleet = placement.Fleet(8, 4)
        fleet.put(Pod("a", 1, 300, GENTLE, 0, 1), [0])
        fleet.put(Pod("b", 1, 600, GENTLE, 0, 1), [1])
        assert rule.choose(fleet, Pod("c", 1, 400, GENTLE, 0, 1)) == expected
        assert rule.choose(fleet, Pod("d", 1, 401, GENTLE, 0, 1)) == [0]


def test_fragmentation_added_is_that_of_the_node_after_less_that_before():
    pods = any_pods(5)
    fragmentation = placement.Fragmentation(pods)
    dice = random.Random(5)
    free = numpy.array([dice.choice([0, 90, 190, 350, 530, 1000, 1000]) for _ in range(32)])
    before = fragmentation.of(free)
    for milli in (110, 470, 1000):
        added = fragmentation.added(free, milli)
        for gpu in numpy.flatnonzero(free >= milli):
            after = free.copy()
            after[gpu] -= milli
            assert added[gpu] == pytest.approx((fragmentation.of(after) - before)[gpu // placement.NODE])


def lost(free, *pods):
    return placement.Fragmentation(list(pods)).of(numpy.array(free + [0] * (8 - len(free)))).tolist()


def test_fragmentation_is_what_the_next_pod_could_not_use():
    half, two = Pod("half", 1, 500, GENTLE, 0, 1), Pod("two", 2, 1000, None, 0, 1)
    assert lost([499], half) == [499] and lost([500], half) == [0]
    assert lost([200, 1000, 500], two) == [1700]  # the node cannot take it
    assert lost([200, 1000, 1000, 500], two) == [700]  # as in frag_test.go of the authors' simulator
    assert lost([499, 500, 1000], half, two) == [(499 + 1999) / 2]


def test_a_list_is_read_and_what_cannot_be_replayed_is_counted(tmp_path):
    file = tmp_path / "pods.csv"
    file.write_text(HEADER + "a,1,1,1,470,,LS,Running,10,110,20\n" "b,1,1,1,810,,BE,Failed,10,200000,10\n"
                    "c,1,1,8,1000,V100M16,LS,Running,5,6,5\n" "d,1,1,0,0,,BE,Running,5,6,5\n"
                    "e,1,1,1,300,,BE,Pending,5,6,\n" "f,1,1,1,300,,BE,Failed,5,5,5\n")
    pods, fate = pods_of.read(file)
    assert [(pod.name, pod.gpus, pod.milli, pod.runs) for pod in pods] == [
        ("a", 1, 470, 90), ("b", 1, 810, 86400), ("c", 8, 1000, 1)]
    assert [pod.kind and pod.kind.real_time for pod in pods] == [True, False, None]
    assert fate == {"GPU type ignored": 1, "cut": 1, "never scheduled": 1, "no GPU": 1, "no time": 1, "taken": 3}


def test_another_table_is_refused_with_the_columns_it_lacks(tmp_path):
    file = tmp_path / "nodes.csv"
    file.write_text("sn,cpu_milli,memory_mib,gpu,model\n")
    with pytest.raises(ValueError, match="no column creation_time, .*; a pod list of"):
        pods_of.read(file)


def test_a_day_holds_the_stated_load_and_is_the_same_for_the_same_seed():
    pods = any_pods(6)
    drawn = pods_of.draw(pods, 20, 0.9, 2, seed=1)
    assert drawn == pods_of.draw(pods, 20, 0.9, 2, seed=1) != pods_of.draw(pods, 20, 0.9, 2, seed=2)
    held_gpus = sum(pod.demand * pod.runs for pod in drawn) / (2 * pods_of.DAY)
    assert held_gpus == pytest.approx(18, rel=0.05)
    assert all(0 <= pod.arrives < 2 * pods_of.DAY for pod in drawn) and len({pod.name for pod in drawn}) == len(drawn)


def test_sets_are_those_that_fit_on_a_gpu():
    pods = [Pod("a", 1, 500, GENTLE, 0, 1), Pod("b", 1, 501, HEAVY, 0, 1), Pod("c", 1, 1000, None, 0, 1)]
    names = [tuple(kind.name for kind in company) for company in pods_of.companies(pods, 4)]
    assert names == [("be-gentle",), ("be-heavy",), ("be-gentle", "be-gentle")]


def test_whatever_meets_is_among_the_sets_that_were_simulated():
    pods = any_pods(7)
    possible = {tuple(kind.name for kind in company) for company in pods_of.companies(pods, 3)}
    fragmentation, all_rules = rules(pods)
    all_rules[3] = placement.LeastInterference({company: cost(company) for company in possible}.get)
    for rule in all_rules:
        outcome = placement.replay(pods, 16, rule, fragmentation, (0, 3000), most=3)
        assert set(outcome.gpu_seconds) - {(), placement.EXCLUSIVE} <= possible


def test_a_real_time_pod_holds_alone_and_in_a_store_a_set_is_simulated_once(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    kind = pods_of.kind_of("a", 470, True)
    monkeypatch.setattr(colocations, "DURATION", "20ms")
    alone = colocations.solo_ms([kind], workers=1)
    costs = colocations.simulate([(kind,)], alone, workers=1, store=tmp_path)
    for mode in colocations.MODES:
        assert costs[mode][(kind.name,)].held == (True,) and costs[mode][(kind.name,)].good == (1.0,)

    class Refuses:
        def submit(self, *_):
            raise AssertionError("simulated again")

    assert colocations.simulate([(kind,)], alone, executor=Refuses(), store=tmp_path) == costs
