"""Data that others published (corun.public): is each format read as its authors mean it, are models fitted and scored as they
say, is the half that is kept back kept back, and is a bad file told?"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corun import public
from corun._kept import KEYS, kept

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "tests/data/public"  # of our own making
SIM = os.environ.get("CORUN_SIM", str(ROOT / "build/bin/sim"))


def one(read, folder=OURS):
    (found,) = read(folder)
    return found


def test_a_row_is_kept_by_its_key_alone_and_half_of_all_are():
    assert kept("nos", "MPS", "7") == kept("nos", "MPS", 7)
    assert [kept("nos", "MPS", n) for n in range(8)] == [False, True, True, True, False, False, True, False]
    for name, key in KEYS.items():
        half = sum(kept(name, *([str(i)] * len(key))) for i in range(2000))
        assert 900 < half < 1100
        with pytest.raises(ValueError, match="a key has"):
            kept(name, *range(len(key) + 1))


def test_a_pair_of_igniter_is_two_rows_over_the_tables_of_each_alone():
    found = one(public.read_igniter)
    assert len(found.rows) == 24 and len({r.key for r in found.rows}) == 24
    row = found.rows[0]
    assert row.key == ("wide", "deep", "2", "2", "20", "0")
    assert row.measured == pytest.approx(1.06, abs=1e-3) and row.noise == pytest.approx(0.01, abs=1e-3)
    question, client = row.question
    assert client == 0 and question.policy == "mps:percentages=20/80" and question.gpu == "v100-sxm2"
    assert question.tables[0].splitlines()[:2] == ["percentage,latency_ms,busy_pct,dram_pct,l2_pct,kernels,copy_in_bytes,copy_out_bytes",
                                                   "80,0.45,100,16,8,20,1200000,8000"]
    assert row.features == [2.0, 17.0, 4.0, 32.0, 1.0]  # L2 of both, DRAM of both
    assert public.is_kept(found, found.rows[0]) == public.is_kept(found, found.rows[1])


def test_igniters_model_is_its_formula():
    card = public.lines_of_json(OURS / "igniter" / public.IGNITER_CARD)
    model = public.IgniterModel(card)
    # 70 W a program: 330 and 400 W at 1500 and 1440 MHz of 1530, and 300 W
    assert model.per_watt == pytest.approx((30 * -30 + 100 * -90) / (30**2 + 100**2))
    own, other = model.of("wide", "2", 2.0), model.of("deep", "8", 20.0)
    assert own["copies"] == pytest.approx(2 * 604000 / 1e7) and own["active"] == pytest.approx(2 - own["copies"] - 0.03)
    assert own["sensitive"] == pytest.approx((4.2 * 1515 / 1530 / 4.0 - 1) / 17)
    slow = own["active"] * own["sensitive"] * other["l2"] + own["kernels"] * model.wait
    power = model.idle + own["power"] + other["power"]
    clock = (1530 + model.per_watt * max(0, power - 300)) / 1530
    assert model.slowdown(own, other) == pytest.approx(((own["idle"] + own["active"] + slow) / clock + own["copies"]) / 2.0)


def test_gpulets_model_is_fitted_on_the_half_that_is_not_kept_back_and_finds_what_is_linear():
    found = one(public.read_igniter)
    for row in found.rows:
        truth = 0.01 + 0.002 * row.features[0] + 0.003 * row.features[1] - 0.0005 * row.features[2] + 0.001 * row.features[3]
        row.measured = 5.0 if public.is_kept(found, row) else 1 + truth
    public.fit_gpulet(found)
    for row in found.rows:
        if not public.is_kept(found, row):
            assert row.predicted["gpulet, fitted"] == pytest.approx(row.measured)


def test_parvagpus_rows_are_of_one_process_in_the_same_instance():
    found = one(public.read_parvagpu)
    assert len(found.rows) == 12 and all(row.key[3] != "1" for row in found.rows)
    row = next(r for r in found.rows if r.key == ("ournet", "1", "32", "3"))
    assert row.measured == pytest.approx(48 / 20, abs=0.01)
    question, _ = row.question
    assert len(question.tables) == 3 and question.policy.startswith("mig:profile=1g.10gb")
    busy = float(question.tables[0].splitlines()[1].split(",")[2])
    assert busy == pytest.approx(80, abs=1)  # 16 of 20 ms go with the SMs


def test_muxserves_cells_are_over_the_whole_gpu_and_those_that_are_given_are_not_rows():
    found = one(public.read_muxserve)
    assert len(found.rows) == 12 and {row.key[2] for row in found.rows} == {"30", "40", "60", "70", "80", "90"}
    assert next(r for r in found.rows if r.key == ("ours-7b", "1", "40", "8", "64")).measured == pytest.approx(0.1 + 0.9 * 2.5)


def test_the_page_of_nos_and_the_logs_of_lithos_are_read():
    rows = {row.key: row for row in one(public.read_nos).rows}
    assert set(rows) == {(m, n) for m in ("Time-slicing", "MPS", "MIG") for n in ("2", "3")}
    assert rows["MPS", "3"].measured == pytest.approx(1.6)
    lithos = one(public.read_lithos)
    assert len(lithos.rows) == 36 and "slot=0,k=90" not in {row.key[0] for row in lithos.rows}
    row = next(r for r in lithos.rows if r.key == ("slot=0,k=0", "2"))
    assert row.measured == pytest.approx((20 + 10 * 27) / 30)  # the first pass


def test_of_cards_without_a_description_the_shape_is_told():
    gavel, lucid = public.shapes(OURS)
    assert "STP of 2 pairs under MPS 1.20 to 1.30" in gavel and "10 % apart" in gavel
    assert "4 programs" in lucid and "0.80 to 0.95" in lucid


def test_a_percentage_gives_all_the_sms_that_it_stands_for():
    for of in (54, 108, 132):
        for sms in range(1, of + 1):
            assert int(float(public.percentage(sms, of)) * of / 100) == sms


def test_scores_are_of_the_slowdown_and_of_slowdown_minus_one():
    rows = [public.Row(("a",), 1.1, {"m": 1.2, "n": 1.0}), public.Row(("b",), 1.3, {"m": 1.3, "n": 1.0})]
    e = public.score(rows, "m")
    assert e["mean"] == pytest.approx(100 * 0.1 / 1.1 / 2) and e["points"] == pytest.approx(5) and e["of_null"] == pytest.approx(0.25)
    assert e["rank"] == 1 and public.score(rows, "n")["of_null"] == pytest.approx(1) and public.score(rows, "n")["rank"] is None


@pytest.mark.parametrize("file, old, new, told", [
    ("igniter/" + public.IGNITER, '"dram"', '"dram', "gpulet.config: line 4: expected an object"),
    ("igniter/" + public.IGNITER, '["wide", "deep", 2, 2, 20,', '["wide", "deep", 2, 3, 20,', "expected two networks"),
    ("ParvaGPU_SC24/prof_data/ournet.csv", "Throughput", "Speed", "ournet.csv: line 2: there is no column 'Throughput'"),
    ("ParvaGPU_SC24/prof_data/ournet.csv", "1,2,2,", "5,2,2,", "line 3: instance '5'"),
    ("MuxServe/examples/placement/llama.json", "{", "", "llama.json"),
    ("nos/demos/gpu-sharing-comparison/README.md", "0.080", "fast", "row MPS: 'fast'; expected a number"),
])
def test_a_bad_file_is_told_with_its_place(tmp_path, capsys, file, old, new, told):
    shutil.copytree(OURS, tmp_path / "clones")
    path = tmp_path / "clones" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert public.main([str(tmp_path / "clones"), "--sim", SIM]) == 2
    assert told in capsys.readouterr().err


def test_a_folder_without_clones_is_told(tmp_path, capsys):
    assert public.main([str(tmp_path), "--sim", SIM]) == 2
    assert "expected igniter" in capsys.readouterr().err


def test_one_command_scores_every_set_beside_the_other_models(capsys):
    assert public.main([str(OURS), "--half", "all", "--json", "--sim", SIM]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert set(scores) == {"igniter", "parvagpu", "muxserve", "nos", "lithos", "sglang-omni"}
    assert set(scores["igniter"]) == {"corun", "corun, iGniter's clock", "no interference", "iGniter", "gpulet, fitted"}
    for by_model in scores.values():
        assert by_model["corun"]["rows"] == max(e["rows"] for e in by_model.values())
    # these go by the law that a table is read by
    assert scores["muxserve"]["corun"]["median"] < 3 and scores["lithos"]["corun"]["median"] < 10
    assert scores["parvagpu"]["corun"]["median"] < 15


def validate(*arguments, **environment):
    return subprocess.run([SIM, "validate", "--public", str(OURS), *arguments], capture_output=True, text=True,
                          env={**os.environ, "CORUN_PYTHON": sys.executable, **environment})


def test_the_command_calls_the_module_and_gives_it_what_was_asked():
    every, kept_half = (json.loads(validate("--half", half, "--only", "nos", "--json").stdout) for half in ("all", "kept"))
    assert set(every) == {"nos"} and every["nos"]["corun"]["rows"] == 6 > kept_half["nos"]["corun"]["rows"]


def test_the_command_refuses_what_it_would_ignore_and_a_python_without_the_module():
    refused = validate("--gpu", "h200")
    assert refused.returncode == 2 and "it is not of published data" in refused.stderr
    without = validate(CORUN_PYTHON="false")
    assert without.returncode == 2 and "which false does not have" in without.stderr
