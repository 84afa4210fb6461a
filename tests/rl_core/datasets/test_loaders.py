import json
from pathlib import Path

import pytest

from rl_core.datasets import load_tasks
from rl_core.datasets.ifeval import load_ifeval, shortest_answer
from rl_core.errors import InputError
from rl_core.judge.checks import Scorer
from rl_core.rubric import CheckRoute

ROOT = Path(__file__).parents[3]
ROWS = ROOT / "tests" / "data" / "ifeval" / "input.jsonl"
SHARED = ROOT.parent / "shared" / "data" / "if_ifeval" / "input_data.a.jsonl"


def write(tmp_path, *rows, name="rows.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows), encoding="utf-8")
    return path


def ifeval_row(**kw):
    row = {"key": 7, "prompt": "Say it.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    return {**row, **kw}


def task_row(**kw):
    row = {"id": "a", "prompt": "p", "domain": "d", "rubric": {"criteria": [{"id": "c", "text": "is short"}]}}
    return {**row, **kw}


def test_real_rows_become_tasks_with_checks():
    tasks = load_ifeval(ROWS)
    raw = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    assert tasks.ids == [f"ifeval-{r['key']}" for r in raw]
    for task, row in zip(tasks, raw, strict=True):
        assert task.prompt_text == row["prompt"]
        assert [c.tags[0] for c in task.rubric.criteria] == row["instruction_id_list"]
        assert all(
            isinstance(c.route, CheckRoute) and c.route.name == f"ifeval.{c.tags[0]}" for c in task.rubric.criteria
        )
        assert task.domain == "instruction_following"
        assert task.rubric.criteria[0].family == row["instruction_id_list"][0].split(":")[0]


def test_score_of_a_task_end_to_end(tmp_path):
    row = ifeval_row(
        instruction_id_list=["punctuation:no_comma", "length_constraints:number_words"],
        kwargs=[{"unused": None}, {"relation": "at least", "num_words": 3}],
    )
    (task,) = load_ifeval(write(tmp_path, row))
    verdicts = Scorer().verdicts(task, ["one two three", "one, two"], task.rubric)
    assert [[v.value for v in r.values()] for r in verdicts] == [[1.0, 1.0], [0.0, 0.0]]
    assert task.rubric["length_constraints:number_words#1"].text == "Has at least 3 words"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (ifeval_row(), 1),
        (ifeval_row(prompt="Write a poem in lowercase letters."), 50),
        (ifeval_row(prompt="In all lowercase letters, say it."), 1),
        (ifeval_row(prompt="Explain it in 300+ words"), 300),
        (ifeval_row(prompt="Explain it in less than 90 words"), 1),
        (
            ifeval_row(
                instruction_id_list=["length_constraints:number_sentences"],
                kwargs=[{"relation": "at least", "num_sentences": 5}],
            ),
            40,
        ),
        (
            ifeval_row(
                instruction_id_list=["length_constraints:number_sentences"],
                kwargs=[{"relation": "less than", "num_sentences": 5}],
            ),
            1,
        ),
    ],
)
def test_shortest_answer(row, words):
    assert shortest_answer(row) == words


def test_rows_are_chosen_by_length_and_limit(tmp_path):
    path = write(tmp_path, ifeval_row(), ifeval_row(key=8, prompt="Write an essay"), ifeval_row(key="9"))
    assert load_ifeval(path, max_answer_words=40).ids == ["ifeval-7", "ifeval-9"]
    assert load_ifeval(path, max_answer_words=40, limit=1).ids == ["ifeval-7"]
    with pytest.raises(InputError, match="none of 3 rows has an answer that fits 0 words"):
        load_ifeval(path, max_answer_words=0)


@pytest.mark.skipif(not SHARED.is_file(), reason="the shared data folder is not here")
def test_the_whole_file_loads():
    assert len(load_ifeval(SHARED)) == 291
    short = load_ifeval(SHARED, max_answer_words=40)
    assert 100 <= len(short) < 200
    assert {c.family for t in short for c in t.rubric.criteria} >= {"keywords", "language", "startend"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{broken", "row 2: not valid JSON"),
        ("[1]", "row 2: a list, not an object"),
        ({"prompt": "x"}, "row 2, field 'key': is missing"),
        (ifeval_row(key=True), "row 2, field 'key'"),
        (ifeval_row(key=8, prompt=" "), "row 2, field 'prompt'"),
        (ifeval_row(key=8, instruction_id_list=[]), "field 'instruction_id_list'"),
        (ifeval_row(key=8, instruction_id_list=["nope"]), "field 'instruction_id_list.0': unknown instruction 'nope'"),
        (ifeval_row(key=8, kwargs=[]), "field 'kwargs'"),
        (ifeval_row(key=8, kwargs=[{"x": 1}]), "field 'kwargs.0.x': punctuation:no_comma does not know it"),
        (
            ifeval_row(key=8, instruction_id_list=["keywords:existence"], kwargs=[{"keywords": []}]),
            "field 'kwargs.0.keywords'",
        ),
        (
            ifeval_row(
                key=8,
                instruction_id_list=["length_constraints:number_words"],
                kwargs=[{"relation": "about", "num_words": 3}],
            ),
            "field 'kwargs.0.relation'.*'about'",
        ),
        (ifeval_row(), r"field 'key': duplicate key 7 \(first in row 1\)"),
    ],
)
def test_broken_ifeval_rows(tmp_path, row, message):
    path = write(tmp_path, ifeval_row(), row)
    with pytest.raises(InputError, match=message) as e:
        load_ifeval(path)
    assert str(path) in str(e.value)
    assert "\n" not in str(e.value)


def test_jsonl_rows(tmp_path):
    chat = [{"role": "user", "content": "hi"}]
    path = write(tmp_path, task_row(), "", task_row(id="b", prompt=chat, parent="a"))
    tasks = load_tasks(f"jsonl:{path}")
    assert tasks.ids == ["a", "b"]
    assert tasks["b"].prompt_text == "hi"
    assert load_tasks(f"jsonl:{path}", limit=1).ids == ["a"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("nope", "row 2: not valid JSON"),
        (task_row(id="b", rubric={"criteria": []}), "row 2, field 'rubric.criteria'.*at least one criterion"),
        ({"id": "b", "prompt": "p"}, "row 2, field 'rubric': Field required; add it"),
        (task_row(id="b", rubrik=1), "row 2, field 'rubrik'.*correct its name"),
        (task_row(id="b", prompt=[{"role": "cook", "content": "x"}]), r"row 2, field 'prompt\..*role'"),
        (
            task_row(id="b", rubric={"criteria": [{"id": "c", "text": "x", "weight": 0}]}),
            "field 'rubric.criteria.0'.*weight must be finite",
        ),
        (
            task_row(id="b", rubric={"criteria": [{"id": "c", "text": "x"}] * 2}),
            "field 'rubric': duplicate criterion id 'c'",
        ),
        (
            task_row(
                id="b", rubric={"criteria": [{"id": "c", "text": "x", "route": {"kind": "check", "name": "no.such"}}]}
            ),
            "field 'rubric.criteria.0.route.name': unknown check 'no.such'",
        ),
        (task_row(), r"field 'id': duplicate task id 'a' \(first in row 1\)"),
    ],
)
def test_broken_jsonl_rows(tmp_path, row, message):
    path = write(tmp_path, task_row(), row)
    with pytest.raises(InputError, match=message) as e:
        load_tasks(f"jsonl:{path}")
    assert str(path) in str(e.value)


def test_files_that_are_none(tmp_path):
    for source in ("jsonl", "ifeval"):
        with pytest.raises(InputError, match="no such file"):
            load_tasks(f"{source}:{tmp_path / 'missing.jsonl'}")
        with pytest.raises(InputError, match="is a folder"):
            load_tasks(f"{source}:{tmp_path}")
        with pytest.raises(InputError, match="the file is empty"):
            load_tasks(f"{source}:{write(tmp_path, '', name='empty.jsonl')}")
    binary = tmp_path / "b.jsonl"
    binary.write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(InputError, match="not UTF-8"):
        load_tasks(f"jsonl:{binary}")


@pytest.mark.parametrize("source", ["microworld", "csv:x", "ifeval", "ifeval:", "jsonl: "])
def test_unknown_sources(source):
    with pytest.raises(InputError, match=r"use microworld, ifeval:PATH or jsonl:PATH"):
        load_tasks(source)


def test_answer_length_is_for_ifeval_only(tmp_path):
    with pytest.raises(InputError, match="only ifeval rows"):
        load_tasks(f"jsonl:{write(tmp_path, task_row())}", max_answer_words=10)
