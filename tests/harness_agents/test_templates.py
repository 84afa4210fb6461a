"""Templates: found in the right order, checked when loaded, sandboxed, and hints rendered to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness_agents.templates import Templates, hint_renderer, shipped_folder
from rl_core.errors import InputError
from rl_core.rubric import Criterion, Rubric
from rl_core.task import Message, Task

HEADER = "{# version: 3\n   variables: name #}\n"


def task(prompt: object) -> Task:
    return Task(id="t", prompt=prompt, rubric=Rubric(criteria=(Criterion(id="c", text="c"),)))


def test_every_shipped_template_is_sound() -> None:
    templates = Templates()
    assert {
        "evolver.j2",
        "proposer.j2",
        "critic.j2",
        "judge.j2",
        "reference.j2",
        "hints/plain.j2",
        "hints/microworld.j2",
    } <= set(templates.names())
    for name in templates.names():
        info = templates.info(name)
        assert info.variables
        assert int(info.version) >= 1
        assert len(info.hash) == 12
        assert Path(info.path).is_relative_to(shipped_folder())


def test_microworld_hint_is_exact() -> None:
    render = hint_renderer(Templates(), "hints/microworld.j2")
    assert render("red blue", task("what is it")) == "hint red blue . what is it"


def test_hint_in_a_chat_goes_into_the_last_user_message() -> None:
    render = hint_renderer(Templates(), "hints/plain.j2")
    chat = (Message(role="system", content="s"), Message(role="user", content="q"))
    assert render("h", task(chat)) == (chat[0], Message(role="user", content="h\n\nq"))


def test_own_folder_comes_first_and_its_hash_differs(tmp_path: Path) -> None:
    (tmp_path / "hints").mkdir()
    (tmp_path / "hints" / "plain.j2").write_text(
        "{# version: 2\n variables: text, prompt #}\n{{ prompt }} <- {{ text }}"
    )
    own, shipped = Templates(tmp_path), Templates()
    assert own.render("hints/plain.j2", text="a", prompt="b") == "b <- a"
    assert own.info("hints/plain.j2").hash != shipped.info("hints/plain.j2").hash
    assert own.info("judge.j2").hash == shipped.info("judge.j2").hash  # what is not overridden is the shipped one


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no header {{ name }}", "no header"),
        (HEADER + "{{ other }}", "not those that the text uses"),
        (HEADER + "nothing used", "not those that the text uses"),
        (HEADER + "{{ name", "not a valid template"),
    ],
)
def test_unsound_templates_are_refused_with_their_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.j2").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        Templates(tmp_path).info("x.j2")
    assert "x.j2" in str(caught.value)


def test_sandbox_and_strictness(tmp_path: Path) -> None:
    (tmp_path / "x.j2").write_text(HEADER + "{{ name.__class__.__mro__ }}")
    (tmp_path / "y.j2").write_text(HEADER + "{{ name.missing }}")
    templates = Templates(tmp_path)
    for name in ("x.j2", "y.j2"):
        with pytest.raises(InputError, match="cannot be rendered"):
            templates.render(name, name="n")
    with pytest.raises(InputError, match="missing or unknown variables"):
        templates.render("y.j2", nme="n")
    with pytest.raises(InputError, match="no template 'z"):
        templates.info("z.j2")
    with pytest.raises(InputError, match="no such folder"):
        Templates(tmp_path / "none")


def test_braces_in_data_are_data(tmp_path: Path) -> None:
    (tmp_path / "x.j2").write_text(HEADER + "{{ name }}")
    assert Templates(tmp_path).render("x.j2", name="{{ 7 * 7 }}") == "{{ 7 * 7 }}"
