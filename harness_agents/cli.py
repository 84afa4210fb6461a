"""Command line. Bad input is one line on stderr and exit code 2; Ctrl-C is 130. Heavy parts load inside commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rl_core.errors import InputError

if TYPE_CHECKING:
    from harness_agents.config import HarnessConfig

_FOLDER = click.Path(path_type=Path, file_okay=True, dir_okay=True)


@click.group(
    invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="harness-agents")
@click.pass_context
def cli(context: click.Context) -> None:
    """Co-evolve the sampler, the guidance and the rubrics of an RL run with the policy."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("harness.yaml"))
@click.option("--force", is_flag=True, help="Overwrite the file.")
def init(file: Path, force: bool) -> None:
    """Write a commented harness.yaml with every key and its default."""
    from harness_agents.config_template import config_yaml
    from rl_core.run_folder import write_atomic

    if file.is_dir():
        raise InputError("is a folder", where=str(file), mend="name a file, such as harness.yaml")
    if file.exists() and not force:
        raise InputError("exists already", where=str(file), mend="name another file or pass --force")
    try:
        write_atomic(file, config_yaml())
    except OSError as e:
        raise InputError(f"cannot be written ({e.strerror})", where=str(file), mend="name another file") from None
    click.echo(f"wrote {file}; next: harness-agents train {file}")


@cli.command()
@click.option("--out", type=_FOLDER, help="Run folder  [default: the next free runs/demo]")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option("--steps", type=click.IntRange(1), help="Shorter or longer training.")
@click.option("--force", is_flag=True, help="Replace a run that --out holds.")
def demo(out: Path | None, seed: int, steps: int | None, force: bool) -> None:
    """Train on the embedded microworld with and without the harness, and compare."""
    folder = _prepare(out, "demo", resume=False, force=force)
    _no_network()
    from harness_agents.demo import run_demo

    run_demo(folder, seed, steps)


@cli.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--tasks", metavar="SOURCE", help="microworld, ifeval:PATH or jsonl:PATH; overrides tasks.source.")
@click.option("--out", type=_FOLDER, help="Run folder  [default: the next free runs/NAME]")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Overrides seed.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option("--force", is_flag=True, help="Replace a run that --out holds.")
def train(config: Path, tasks: str | None, out: Path | None, seed: int | None, resume: bool, force: bool) -> None:
    """Train as CONFIG says, with harness updates at checkpoints."""
    from harness_agents.config import load_config
    from harness_agents.preflight import check_resume, preflight

    if resume and force:
        raise InputError("cannot go together", where="--resume and --force", mend="choose one")
    if resume and out is None:
        raise InputError("needs the run folder", where="--resume", mend="add --out DIR")
    settings = _override(load_config(config), tasks=tasks, seed=seed)
    preflight(settings, where=str(config))
    folder = _prepare(out, config.stem, resume=resume, force=force)
    if resume:
        check_resume(settings, folder)
    _no_network()
    from harness_agents.train import run_training

    try:
        run_training(settings, out=folder, resume=resume)
    except KeyboardInterrupt:
        click.echo(f"\nstopped; go on with: harness-agents train {config} --out {folder} --resume", err=True)
        raise


@cli.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="HTML file  [default: RUN/report.html]")
def report(run: Path, out: Path | None) -> None:
    """Write the HTML report of a run folder."""
    from rl_core.run_folder import RunFolder

    folder = RunFolder(run)
    if not folder.is_run:
        problem = "holds no run" if run.is_dir() else "no such folder"
        raise InputError(problem, where=str(run), mend="name the --out folder of a run")
    target = out or folder.report
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise InputError("is not a file in an existing folder", where=str(target), mend="choose another --out")
    if not os.access(target.absolute().parent, os.W_OK | os.X_OK):
        raise InputError("its folder is not writable", where=str(target), mend="choose another --out")
    from rl_core.report import write_report

    write_report(run, target)
    click.echo(f"wrote {target}")


@cli.command()
def graph() -> None:
    """Print the graph of a harness update as mermaid text."""
    from harness_agents.graph import draw_mermaid

    click.echo(draw_mermaid())


def _prepare(out: Path | None, name: str, *, resume: bool, force: bool) -> Path:
    """The output folder, checked before anything heavy is loaded; an old run goes only with ``force``."""
    from rl_core.run_folder import RunFolder, check_out

    if out is None:
        out, n = Path("runs") / name, 1
        while out.exists():
            n += 1
            out = Path("runs") / f"{name}-{n}"
    check_out(out, resume=resume, force=force)
    if force and RunFolder(out).is_run:
        RunFolder(out).clear()
    return out


def _override(config: HarnessConfig, *, tasks: str | None, seed: int | None) -> HarnessConfig:
    if tasks is not None:
        config = config.model_copy(update={"tasks": config.tasks.model_copy(update={"source": tasks})})
    return config if seed is None else config.model_copy(update={"seed": seed})


def _no_network() -> None:
    """Models come from folders and packages: a look-up on a hub would be a surprise (and hang offline)."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    try:
        result = cli.main(args=None if argv is None else list(argv), prog_name="harness-agents", standalone_mode=False)
    except InputError as e:
        return _fail(str(e))
    except click.ClickException as e:
        context = getattr(e, "ctx", None)
        hint = f"; see '{context.command_path} --help'" if context is not None else ""
        return _fail(e.format_message() + hint)
    except (click.Abort, KeyboardInterrupt):
        return 130
    return result if isinstance(result, int) else 0


def _fail(message: str) -> int:
    click.echo("error: " + " ".join(message.split()), err=True)
    return 2


if __name__ == "__main__":
    sys.exit(main())
