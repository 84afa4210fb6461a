import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_core.errors import InputError
from rl_core.rollout import Rollout
from rl_core.rollout_log import RolloutLog
from rl_core.verdict import Verdict

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)


def rollout(i, step, **kw):
    return Rollout(f"r{i}", "t", f"g{step}", step, f"text {i}", **kw)


@st.composite
def rollouts(draw):
    verdict = st.one_of(
        st.floats(0, 1).map(Verdict.of), st.sampled_from(["timeout", "refusal", "not_applicable"]).map(Verdict.missing)
    )
    number = st.one_of(st.none(), st.floats(-50, 50))
    return Rollout(
        draw(TEXT.filter(bool)), draw(TEXT), draw(TEXT), draw(st.integers(0, 5)), draw(TEXT),
        policy_version=draw(st.integers(0, 9)), harness_version=draw(st.integers(0, 9)),
        phase=draw(st.sampled_from(["train", "control", "probe", "eval"])),
        guidance_id=draw(st.one_of(st.none(), TEXT)), verdicts=draw(st.dictionaries(TEXT, verdict, max_size=4)),
        reward=draw(number), tokens=draw(st.integers(0, 99)), truncated=draw(st.booleans()),
        logprob=draw(number), logprob_plain=draw(number),
    )  # fmt: skip


@settings(max_examples=30)
@given(st.lists(rollouts(), max_size=8, unique_by=lambda r: r.id))
def test_what_is_written_is_read(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("log")
    log = RolloutLog(folder)
    log.append(rows, {"t": "medical"})
    expected = sorted(rows, key=lambda r: r.step)
    assert log.read() == expected  # buffered
    log.flush()
    assert RolloutLog(folder).read() == expected  # from the files
    assert not list(folder.glob("*.tmp"))


def test_filters_truncate_and_steps(tmp_path):
    log = RolloutLog(tmp_path / "rollouts")
    assert (log.read(), log.steps, log.truncate(0)) == ([], [], 0)
    log.append([rollout(i, i, phase="eval" if i == 3 else "train") for i in range(5)], {})
    log.flush()
    log.append([rollout(9, 9)], {})
    assert log.steps == [0, 1, 2, 3, 4, 9]
    assert [r.step for r in log.read(min_step=2)] == [2, 3, 4, 9]
    assert [r.step for r in log.read(min_step=2, max_step=4, phases=["train"])] == [2, 4]
    assert log.truncate(2) == 2  # two files; the buffered step 9 goes as well
    assert log.steps == [0, 1, 2]
    assert sorted(p.name for p in (tmp_path / "rollouts").iterdir()) == [f"step-00000{i}.parquet" for i in range(3)]


def test_a_repeated_step_replaces_the_file_of_an_earlier_process(tmp_path):
    first = RolloutLog(tmp_path)
    first.append([rollout(1, 4), rollout(2, 4)], {})
    first.flush()
    resumed = RolloutLog(tmp_path)
    resumed.append([rollout(7, 4)], {})
    assert [r.id for r in resumed.read()] == ["r7"]
    resumed.flush()
    assert [r.id for r in RolloutLog(tmp_path).read()] == ["r7"]


def test_more_of_the_same_step_joins_the_own_file(tmp_path):
    log = RolloutLog(tmp_path)
    log.append([rollout(1, 4), rollout(2, 4)], {"t": "a"})
    log.flush()
    log.append([rollout(3, 4), rollout(2, 4, reward=1.0)], {"t": "a"})
    assert [r.id for r in log.read()] == ["r1", "r2", "r3"]
    log.flush()
    rows = RolloutLog(tmp_path).read()
    assert [(r.id, r.reward) for r in rows] == [("r1", None), ("r2", 1.0), ("r3", None)]


def test_columns_for_other_tools(tmp_path):
    import pyarrow.parquet as pq

    log = RolloutLog(tmp_path)
    verdicts = {"a": Verdict.of(1), "b": Verdict.missing("timeout")}
    log.append([rollout(1, 42, verdicts=verdicts)], {"t": "medical"})
    log.flush()
    (row,) = pq.read_table(tmp_path / "step-000042.parquet").to_pylist()
    assert (row["domain"], row["verdicts"], row["causes"]) == ("medical", [("a", 1.0), ("b", None)], [("b", "timeout")])


def test_bad_files_and_folders(tmp_path):
    (tmp_path / "step-000001.parquet").write_text("nonsense")
    with pytest.raises(InputError, match=r"step-000001\.parquet: not a rollout log"):
        RolloutLog(tmp_path).read()
    blocked = tmp_path / "file"
    blocked.write_text("x")
    log = RolloutLog(blocked / "rollouts")
    log.append([rollout(1, 1)], {})
    with pytest.raises(InputError, match="cannot be written"):
        log.flush()


def test_a_lone_surrogate_does_not_stop_the_log(tmp_path):
    log = RolloutLog(tmp_path)
    log.append([Rollout("r", "t", "g", 0, "a\ud800b")], {})
    log.flush()
    assert [r.completion for r in log.read()] == ["a?b"]
