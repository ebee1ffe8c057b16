"""Results as a notebook shows them, as data frames, and as Arrow without a copy."""

from __future__ import annotations

import gc
import html.parser
import json
import math
from typing import Any, List

import pytest

np = pytest.importorskip("numpy")

import corun  # noqa: E402
from corun._show import client_rows, served_rows, shown  # noqa: E402

EXAMPLE = "traces/h200/examples/realtime-resnet50-beside-resnet152.json"
TABLES = ["requests", "kernels", "copies", "blocks", "counters"]


@pytest.fixture(scope="module")
def result() -> corun.Result:
    return corun.load(EXAMPLE).run("priority", duration="5ms", timeline="cta", counters=True)


class Page(html.parser.HTMLParser):
    """What is open when the page ends, what it loads, and its text."""

    def __init__(self, text: str):
        super().__init__()
        self.open: List[str] = []
        self.loads: List[str] = []
        self.words: List[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.open.append(tag)
        self.loads += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_what_a_notebook_shows_is_small_whole_and_loads_nothing(result: corun.Result) -> None:
    trace = corun.load(EXAMPLE)
    comparison = corun.compare(trace, ["fcfs", "priority"], duration="5ms")
    points = corun.sweep_points([EXAMPLE], [], [("camera.rate", ["50", "100"])], [], "5ms", ["fcfs"])
    sweep = corun.Sweep(corun.run_points(points))
    table = corun.Table()
    table.throughput["h200/mps"] = {("a",): (1.5,), ("a", "b"): None}
    table.p99_ms["h200/mps"] = {("a",): (2.5,), ("a", "b"): None}
    for what, says in [
        (result, "camera"), (trace, "camera"), (comparison, "camera p99_ms"), (sweep, "camera.rate"), (table, "a+b"),
        (result.columns("requests"), "latency_ns"), (result.columns("kernels"), "The first 20 of"),
        (result.columns("copies"), "No rows"), (result.columns("counters"), "resident warps"),
    ]:
        text = what._repr_html_()
        page = Page(text)
        assert not page.open and not page.loads and "<script" not in text
        assert any(says in words for words in page.words), says
        assert len(text) < 16000


def test_names_are_escaped_where_a_notebook_shows_them(result: corun.Result) -> None:
    table = corun.Table()
    table.throughput["<script>"] = {("a&b",): (1.0,)}
    table.p99_ms["<script>"] = {("a&b",): (1.0,)}
    assert "&lt;script&gt;" in table._repr_html_() and "<script>" not in table._repr_html_()


def test_a_comparison_is_the_list_of_its_summaries() -> None:
    comparison = corun.compare(corun.load(EXAMPLE), ["fcfs"], duration="5ms")
    assert isinstance(comparison, list)
    assert comparison[0]["policy"] == "fcfs"


# ---- by column ---------------------------------------------------------------------------------------------


def test_columns_hold_what_the_arrays_hold(result: corun.Result) -> None:
    for name in TABLES[:-1]:
        array, columns = getattr(result, name), result.columns(name)
        assert columns.names == array.dtype.names and len(columns) == len(array)
        ids = {"client": result.client_names, "kernel": result.kernel_names}
        for field in columns.names:
            words = columns.words(field)
            if words is None:
                np.testing.assert_array_equal(columns[field], array[field])
            else:
                assert [words[i] for i in columns[field]] == [ids[field][i] for i in array[field]]
                assert len(set(words)) == len(words)
    with pytest.raises(KeyError, match="nothing"):
        columns["nothing"]


def test_columns_are_not_to_be_written_to(result: corun.Result) -> None:
    with pytest.raises(ValueError, match="read-only"):
        result.columns("requests")["latency_ns"][0] = 0


def test_a_view_outlives_its_result() -> None:
    run = corun.load(EXAMPLE).run("fcfs", duration="5ms")
    view, again = run.columns("kernels")["started_ns"], run.kernels["started_ns"].copy()
    del run
    gc.collect()
    np.testing.assert_array_equal(view, again)


def test_rows_that_a_run_did_not_keep_are_refused() -> None:
    run = corun.load(EXAMPLE).run("fcfs", duration="1ms")
    for name, remedy in [("blocks", "cta"), ("counters", "counters=True"), ("lanes", "requests")]:
        with pytest.raises(corun.InputError, match=remedy):
            run.columns(name)


def test_counters_stay_within_the_gpu(result: corun.Result) -> None:
    counters = result.columns("counters")
    warps = counters["value"][counters["counter"] == counters.words("counter").index("resident warps")]
    assert 0 < warps.max() <= 132 * 64
    assert (np.diff(counters["at_ns"]) >= 0).all()


# ---- pandas ------------------------------------------------------------------------------------------------


def test_without_pandas_an_error_names_it(result: corun.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> Any:
        raise ModuleNotFoundError("none", name=name)

    monkeypatch.setattr("corun._show.importlib.import_module", without)
    for what in (result, result.columns("kernels"), corun.Sweep([]), corun.Table(), corun.Comparison()):
        with pytest.raises(ModuleNotFoundError, match="pandas is missing"):
            what.to_pandas()


def test_frames_have_a_row_a_record_and_names_as_categories(result: corun.Result) -> None:
    pandas = pytest.importorskip("pandas")
    for name in TABLES:
        frame = result.to_pandas(name)
        assert len(frame) == len(result.columns(name))
    kernels = result.to_pandas("kernels")
    assert isinstance(kernels["kernel"].dtype, pandas.CategoricalDtype)
    counts = kernels.groupby("client", observed=True).size()
    for i, client in enumerate(result.client_names):
        assert counts[client] == (result.kernels["client"] == i).sum()
    kernels.loc[0, "started_ns"] = 0.0  # one's own


def test_the_parts_of_a_client_in_a_frame_add_up(result: corun.Result) -> None:
    pytest.importorskip("pandas")
    clients = result.to_pandas("clients")
    assert list(clients["name"]) == list(result.client_names)
    parts = clients[[name for name in clients if name.endswith("_part_ms")]].sum(axis=1)
    for part, whole in zip(parts, clients["mean_ms"]):
        assert part == pytest.approx(whole) or math.isnan(whole)


# ---- Arrow -------------------------------------------------------------------------------------------------


def test_arrow_reads_the_memory_that_numpy_shows(result: corun.Result) -> None:
    arrow = pytest.importorskip("pyarrow")
    for name in TABLES:
        columns = result.columns(name)
        for batch in (arrow.record_batch(columns), *arrow.RecordBatchReader.from_stream(columns)):
            batch.validate(full=True)
            assert batch.num_rows == len(columns) and tuple(batch.schema.names) == columns.names
            for field in columns.names:
                if len(columns) == 0 or field == "dropped":  # Arrow has bits for bools
                    continue
                values = batch.column(field)
                values = values.indices if columns.words(field) else values
                assert values.buffers()[1].address == columns[field].ctypes.data, (name, field)


def test_arrow_has_the_values_names_and_nulls(result: corun.Result) -> None:
    arrow = pytest.importorskip("pyarrow")
    for name in TABLES:
        columns = result.columns(name)
        table = arrow.table(columns)
        for field in columns.names:
            words, has = columns.words(field), table.column(field).to_pylist()
            for value, mine in zip(has, columns[field].tolist()):
                if words is not None:
                    assert value == words[mine]
                elif value is None:
                    assert math.isnan(mine)
                else:
                    assert value == mine
    assert arrow.table(result.columns("requests")).column("finished_ns").null_count > 0, "some are unfinished"


def test_arrow_outlives_the_columns_as_does_each_part_of_it() -> None:
    arrow = pytest.importorskip("pyarrow")
    run = corun.load(EXAMPLE).run("fcfs", duration="5ms")
    started, again = arrow.table(run.columns("kernels")).column("started_ns"), run.kernels["started_ns"].tolist()
    names = arrow.record_batch(run.columns("kernels")).column("kernel").dictionary
    del run
    gc.collect()
    assert started.to_pylist() == again
    assert len(names) > 0 and all(names.to_pylist())


def test_a_capsule_that_nobody_reads_is_given_back(result: corun.Result) -> None:
    columns = result.columns("requests")
    for _ in range(100):
        columns.__arrow_c_schema__(), columns.__arrow_c_array__(), columns.__arrow_c_stream__()
    gc.collect()


def test_a_library_that_knows_nothing_of_corun_reads_the_columns(result: corun.Result) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(result.columns("kernels"))
    assert frame.height == len(result.kernels)
    assert frame["started_ns"].to_list() == result.kernels["started_ns"].tolist()


def test_what_a_servers_sequences_met_is_the_same_in_the_summary_the_page_and_the_rows(tmp_path: Any) -> None:
    trace = json.loads("""{"corun_trace": 1, "name": "s", "gpu": "h200", "run": {"duration_ns": 10000000},
      "kernels": [{"name": "k", "grid": [132, 1, 1], "block": [128, 1, 1], "solo_time_ns": 100000}],
      "programs": [{"name": "read", "ops": [{"launch": "k"}, {"sync": true}]}, {"name": "write", "ops": [{"launch": "k"}, {"sync": true}]}],
      "clients": [{"name": "llm", "program": "read", "serving": {"first_token_slo_ns": 5000000, "most_at_once": 8,
        "steps": [{"program": "read", "tokens": 128}, {"program": "write", "batch": 8, "context": 1000}]}}]}""")
    trace["clients"][0]["serving"]["sequences"] = [[0, 128, 500]] * 100
    (tmp_path / "s.json").write_text(json.dumps(trace))
    result = corun.load(tmp_path / "s.json").run("fcfs")
    served = result.summary["clients"][0]["served"]
    assert (served["sequences"], served["waiting"], served["late"]) == (100, 92, 92)
    assert served["first_token_p99_ms"] is None and served["first_token_infinite"] == 92
    rows = {row["sequences of llm"]: row["fcfs"] for row in served_rows([result.summary])["llm"]}
    assert rows["Successful requests"] == "0 of 100"
    assert rows["Late: TTFT 5 ms"] == "92 of 100"
    assert rows["P99 TTFT (ms)"] == math.inf
    assert rows["Mean TTFT (ms)"].startswith(">")
    assert rows["Median ITL (ms)"] == served["between_tokens_p50_ms"]
    printed = {line[:32].strip(): line[32:].strip() for line in str(result).splitlines()}
    assert {name: shown(value) for name, value in rows.items() if name in ("Successful requests", "Late: TTFT 5 ms", "P99 TTFT (ms)")} == \
        {name: printed[name] for name in ("Successful requests", "Late: TTFT 5 ms", "P99 TTFT (ms)")}
    assert "P99 TTFT (ms)" in Page(result._repr_html_()).words
    assert "P99 TTFT (ms)" in Page(corun.compare(corun.load(tmp_path / "s.json"), ["fcfs", "priority"])._repr_html_()).words
    assert client_rows(result.summary)[0]["served_late"] == 92
